package manifest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gitFiles is how many files each revision of the torture changes.
const gitFiles = 2000

// writeRevision fills a work tree. Every file says which revision it is of,
// and each revision has some files of its own.
func writeRevision(t *testing.T, dir, rev string) {
	t.Helper()
	for i := range gitFiles {
		name := fmt.Sprintf("team-%02d/service-%04d.yaml", i%20, i)
		if i%10 == 0 {
			name = fmt.Sprintf("team-%02d/only-in-%s-%04d.yaml", i%20, rev, i)
		}
		writeFile(t, filepath.Join(dir, name), strings.Repeat("revision "+rev+"\n", 1+i%30))
	}
}

// pureRevision checks that a snapshot is one revision, whole.
func pureRevision(s *Snapshot) error {
	if len(s.Files) != gitFiles {
		return fmt.Errorf("%d files", len(s.Files))
	}
	first, _, _ := strings.Cut(string(s.Files[0].Data), "\n")
	for _, f := range s.Files {
		rev, _, _ := strings.Cut(string(f.Data), "\n")
		if rev != first || rev == "" {
			return fmt.Errorf("%s is of %q, others of %q", f.Path, rev, first)
		}
	}
	return nil
}

// A checkout in place of 2,000 files is never read half-way, however often the
// tree is looked at meanwhile: no snapshot mixes revisions or has an empty
// file.
func TestWatchGitTorture(t *testing.T) {
	for name, opts := range map[string]WatchOptions{
		"settled":   {},
		"impatient": {Quiet: 3 * time.Millisecond, Most: 6 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			origin, clone := filepath.Join(t.TempDir(), "origin"), filepath.Join(t.TempDir(), "clone")
			manifests := filepath.Join(origin, "deploy", "manifests")
			writeRevision(t, manifests, "a")
			git(t, origin, "init", "-q", "-b", "main")
			git(t, origin, "add", ".")
			git(t, origin, "commit", "-q", "-m", "a")
			git(t, filepath.Dir(clone), "clone", "-q", origin, clone)
			w := watch(t, filepath.Join(clone, "deploy", "manifests"), opts)
			pull := func(rev string) {
				git(t, origin, "rm", "-q", "-r", ".")
				writeRevision(t, manifests, rev)
				git(t, origin, "add", ".")
				git(t, origin, "commit", "-q", "-m", rev)
				git(t, clone, "pull", "-q", "--ff-only")
				w.revision(rev)
			}
			w.revision("a")
			pull("b")
			pull("c")
			git(t, clone, "checkout", "-q", "HEAD~2")
			w.revision("a")
			git(t, clone, "reset", "-q", "--hard", "main")
			w.revision("c")
		})
	}
}

// revision waits for a revision, and checks all that came before.
func (w *watched) revision(rev string) {
	w.t.Helper()
	w.until("revision "+rev, func(s *Snapshot, err error) bool {
		return s != nil && err == nil && len(s.Files) > 0 && strings.HasPrefix(string(s.Files[0].Data), "revision "+rev+"\n")
	})
	for i, s := range w.published() {
		if err := pureRevision(s); err != nil {
			w.t.Fatalf("snapshot %d: %v", i, err)
		}
	}
}

// A merge that stopped with conflict marks in the files is not read until it
// is ended.
func TestWatchGitConflict(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	commit := func(body string) {
		writeFile(t, path, body)
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", body)
	}
	git(t, dir, "init", "-q", "-b", "main")
	commit("base\n")
	git(t, dir, "checkout", "-q", "-b", "other")
	commit("theirs\n")
	git(t, dir, "checkout", "-q", "main")
	commit("ours\n")
	w := watch(t, dir, quick)
	w.files(map[string]string{"web.yaml": "ours\n"})
	merge := exec.Command("git", "merge", "-q", "other")
	merge.Dir = dir
	if out, err := merge.CombinedOutput(); err == nil {
		t.Fatalf("no conflict: %s", out)
	}
	for err := w.read(); err == nil || !strings.Contains(err.Error(), "MERGE_HEAD"); err = w.read() {
	}
	git(t, dir, "merge", "--abort")
	git(t, dir, "merge", "-q", "-X", "theirs", "other")
	w.files(map[string]string{"web.yaml": "theirs\n"})
	w.wasNeverEmpty(2)
}
