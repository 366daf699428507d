package manifest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// git runs the real git, in a directory.
func git(tb testing.TB, dir string, args ...string) {
	tb.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org",
		"-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// The git directory is found from a folder inside the work tree, of a plain
// repository, a linked work tree and a submodule; and so is what its branch
// points to, packed or not.
func TestGitDirs(t *testing.T) {
	top := t.TempDir()
	repo, linked, super := filepath.Join(top, "repo"), filepath.Join(top, "linked"), filepath.Join(top, "super")
	writeFile(t, filepath.Join(repo, "manifests/web.yaml"), "1")
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-q", "-m", "1")
	git(t, repo, "worktree", "add", "-q", "-b", "other", linked)
	mustDo(t, os.Mkdir(super, 0o755))
	git(t, super, "init", "-q", "-b", "main")
	git(t, super, "submodule", "--quiet", "add", repo, "sub")
	for dir, want := range map[string]string{
		filepath.Join(repo, "manifests"):      filepath.Join(repo, ".git"),
		filepath.Join(linked, "manifests"):    filepath.Join(repo, ".git/worktrees/linked"),
		filepath.Join(super, "sub/manifests"): filepath.Join(super, ".git/modules/sub"),
		top:                                   "",
	} {
		got, err := gitDirAbove(dir)
		if got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", dir, got, err, want)
		}
		if want == "" {
			continue
		}
		before, err := lookGit(got)
		mustDo(t, err)
		writeFile(t, filepath.Join(dir, "web.yaml"), "2")
		git(t, dir, "commit", "-q", "-a", "-m", "2")
		after, err := lookGit(got)
		mustDo(t, err)
		git(t, dir, "pack-refs", "--all")
		packed, err := lookGit(got)
		mustDo(t, err)
		if before.head == after.head || before.index == after.index || packed.head == before.head || packed.head == "" {
			t.Errorf("%s: a commit is not seen: %q, %q, %q", dir, before.head, after.head, packed.head)
		}
	}
}

// A .git that leads nowhere, or is none, is passed over.
func TestGitDirsThatAreNone(t *testing.T) {
	for _, content := range []string{"gitdir: /nowhere/at/all", "gitdir: .", "hello", "", "gitdir: \x00"} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, ".git"), content)
		writeFile(t, filepath.Join(dir, "web.yaml"), "web")
		if got, err := gitDirIn(dir); got != "" || err != nil {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		wantFiles(t, mustRead(t, NewTree(dir)), map[string]string{"web.yaml": "web"})
	}
	pipe := func(path string) { mustDo(t, unix.Mkfifo(path, 0o600)) }
	for _, make := range []func(git string){
		pipe, // which nobody writes to: opening it must not wait
		func(git string) { mustDo(t, os.MkdirAll(filepath.Join(git, "HEAD"), 0o755)) },
		func(git string) { mustDo(t, os.Mkdir(git, 0o755)); pipe(filepath.Join(git, "HEAD")) },
	} {
		dir := t.TempDir()
		make(filepath.Join(dir, ".git"))
		writeFile(t, filepath.Join(dir, "web.yaml"), "web")
		wantFiles(t, mustRead(t, NewTree(dir)), map[string]string{"web.yaml": "web"})
	}
}

// A tree that git left half-way is an error after 30 seconds, which says what
// is in the way.
func TestGitStopped(t *testing.T) {
	for _, name := range []string{"index.lock", "HEAD.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"} {
		dir := t.TempDir()
		gitLike(t, filepath.Join(dir, ".git"))
		writeFile(t, filepath.Join(dir, "manifests/web.yaml"), "web")
		writeFile(t, filepath.Join(dir, ".git", name), "")
		err := readLater(t, NewTree(filepath.Join(dir, "manifests")))
		if err == nil || !strings.Contains(err.Error(), "30s") || !strings.Contains(err.Error(), filepath.Join(dir, ".git", name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
