package manifest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func headOfRepo(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	mustDo(t, err)
	return strings.TrimSpace(string(out))
}

// The commit of a work tree is known, however git keeps its branches, and so is
// that of what was published under a commit's name.
func TestSnapshotCommit(t *testing.T) {
	top := t.TempDir()
	repo := filepath.Join(top, "repo")
	dir := filepath.Join(repo, "manifests")
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	git(t, repo, "init", "-q", "-b", "main")
	tree := NewTree(dir)
	want := func(what, commit string) {
		t.Helper()
		if s := mustRead(t, tree); s.Commit != commit {
			t.Errorf("%s: commit %q, want %q", what, s.Commit, commit)
		}
	}
	want("no commit yet", "")
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-q", "-m", "1")
	first := headOfRepo(t, repo)
	want("a branch", first)
	before := mustRead(t, tree)
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "2")
	second := headOfRepo(t, repo)
	want("another commit of the same files", second)
	if after := mustRead(t, tree); after == before || after.Files[0] != before.Files[0] {
		t.Error("the snapshot is the same, or its files aren't")
	}
	git(t, repo, "pack-refs", "--all")
	want("packed", second)
	git(t, repo, "checkout", "-q", first)
	want("detached", first)
	git(t, repo, "worktree", "add", "-q", filepath.Join(top, second), "main")
	tree = NewTree(filepath.Join(top, second, "manifests"))
	want("a linked work tree by the name of its commit", second)

	published := filepath.Join(top, "commits", first, "manifests")
	writeFile(t, filepath.Join(published, "web.yaml"), "1")
	mustDo(t, os.Symlink(filepath.Join("commits", first, "manifests"), filepath.Join(top, "current")))
	tree = NewTree(filepath.Join(top, "current"))
	want("published", first)
	plain := filepath.Join(top, "plain")
	writeFile(t, filepath.Join(plain, "web.yaml"), "1")
	tree = NewTree(plain)
	want("no git", "")
}

func TestHeadCommit(t *testing.T) {
	const tip = "1f3a9c2b7d5e8f601f3a9c2b7d5e8f601f3a9c2b"
	for head, want := range map[string]string{
		tip + "\n": tip, "ref: refs/heads/main\n" + tip + "\n": tip, "": "", "ref: refs/heads/main\n": "", "garbage": "",
		"ref: refs/heads/main\n{1 2 3 4 5}": "", "ref:": "", strings.Repeat("a", 64): strings.Repeat("a", 64), strings.ToUpper(tip): "",
	} {
		if got := (gitMark{dir: t.TempDir(), head: head}).commit(); got != want {
			t.Errorf("%q: %q, want %q", head, got, want)
		}
	}
}
