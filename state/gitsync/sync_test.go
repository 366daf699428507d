package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSyncPublishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	first := w.commit(files{"web.yaml": "web", "shop/cart.yaml": "cart", "README.md": "read me", "cart.yaml": "->shop/cart.yaml"})
	w.mustSync()
	w.wantCurrent(first)
	second := w.commit(files{"web.yaml": "web 2"})
	w.mustSync()
	w.wantCurrent(second)
	w.mustSync() // nothing is new
	w.wantCurrent(second)
	s, err := ReadStatus(w.cfg.Dest)
	w.must(err)
	p := s.Published
	if s.Error != "" || s.Fetched != second || !s.Succeeded.Equal(w.now) || p == nil || p.Commit != second || p.Services != 2+1 || p.Errors != 0 {
		t.Errorf("the status is %+v, %+v", s, p)
	}
	if want := epoch.Add(2 * 60e9); !p.Time.Equal(want) {
		t.Errorf("published at %v, not at %v", p.Time, want)
	}
}

// The agent is another user: whatever the umask, it reads the tree.
func TestSyncIsReadableByAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"a/b/web.yaml": "web"})
	w.mustSync()
	for name, want := range map[string]fs.FileMode{
		"current/": 0o755, "current/a": 0o755, "current/a/b/web.yaml": 0o644, "current/" + recordFile: 0o644, "status.json": 0o644,
	} {
		info, err := os.Stat(filepath.Join(w.cfg.Dest, name))
		w.must(err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has %v, not %v", name, info.Mode().Perm(), want)
		}
	}
}

func TestSyncKeepsTheLastThree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	var last []string
	for i := range 6 {
		last = append(last, w.commit(files{"web.yaml": fmt.Sprint(i)}))
		w.mustSync()
	}
	kept := w.names("commits")
	if len(kept) != 3 {
		t.Fatalf("kept are %q", kept)
	}
	for _, id := range last[3:] {
		if _, err := readRecord(filepath.Join(w.cfg.Dest, "commits", id)); err != nil {
			t.Error(err)
		}
	}
	// A clock that was set back makes the newest look like the oldest.
	w.now = epoch.AddDate(-1, 0, 0)
	w.commit(files{"web.yaml": "after the clock"})
	w.mustSync()
	w.wantCurrent(w.head())
}

// --path publishes one directory, and another one when that's what is asked
// for, at the same commit.
func TestSyncOfADirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"fleet/a/web.yaml": "a", "fleet/b/web.yaml": "b", "generation.yaml": "generation: 1", "file": "x"})
	for _, dir := range []string{"a", "b", "a"} {
		w.cfg.Path = "fleet/" + dir
		w.trees[id] = files{"web.yaml": dir}
		w.mustSync()
		w.wantCurrent(id)
	}
	for _, missing := range []string{"fleet/c", "file"} {
		w.cfg.Path = missing
		w.wantRefused(id, "it has no directory "+missing)
	}
}

// push is what somebody pushes, and why it's refused.
type push struct {
	next   func(w *world) string
	reason string
}

// refused is pushed after two commits, of which the second has generation 5.
func refused() map[string]push {
	return map[string]push{
		"zero Services": {func(w *world) string {
			return w.commit(files{"web.yaml": "", "README.md": "empty", "generation.yaml": "generation: 6"})
		}, "it has no Service"},
		"only errors": {func(w *world) string {
			return w.commit(files{"web.yaml": "broken", "generation.yaml": "generation: 6"})
		}, "it has no Service that could be served: web.yaml:1: broken"},
		"unreadable": {func(w *world) string {
			return w.commit(files{"a.yaml": "unreadable", "generation.yaml": "generation: 6"})
		}, "can't be read: link to nowhere"},
		"older": {func(w *world) string { w.git("reset", "-q", "--hard", "HEAD~1"); return w.head() },
			"older than the published commit"},
		"forced": {func(w *world) string {
			w.git("reset", "-q", "--hard", "HEAD~1")
			return w.commit(files{"web.yaml": "other"})
		},
			"doesn't descend"},
		"unrelated": {func(w *world) string {
			w.git("checkout", "-q", "--orphan", "other")
			id := w.commit(files{"web.yaml": "other"})
			w.git("branch", "-q", "-M", "main")
			return id
		}, "doesn't descend"},
		"link up": {func(w *world) string {
			return w.commit(files{"a.yaml": "->../../status.json", "generation.yaml": "generation: 6"})
		}, "leads out of the tree"},
		"absolute link": {func(w *world) string {
			return w.commit(files{"a.yaml": "->/etc/passwd", "generation.yaml": "generation: 6"})
		}, "leads out of the tree"},
		"link by another": {func(w *world) string {
			return w.commit(files{"d/e": "->..", "f.yaml": "->d/e/../x", "generation.yaml": "generation: 6"})
		}, "leads out of the tree"},
		"generation gone": {func(w *world) string { return w.commit(files{"generation.yaml": "", "web.yaml": "3"}) }, "generation.yaml is gone"},
		"same generation": {func(w *world) string { return w.commit(files{"web.yaml": "3"}) }, "generation is 5, and that of the published commit 5"},
		"lower generation": {func(w *world) string { return w.commit(files{"generation.yaml": "generation: 4"}) },
			"generation is 4, and that of the published commit 5"},
		"no number":     {func(w *world) string { return w.commit(files{"generation.yaml": "generation: six"}) }, `"generation: six" is not a line`},
		"a link for it": {func(w *world) string { return w.commit(files{"generation.yaml": "->README.md"}) }, "generation.yaml is no small file"},
	}
}

func TestSyncRefuses(t *testing.T) {
	t.Parallel()
	for name, x := range refused() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.TempDir())
			w.commit(files{"web.yaml": "1"})
			last := w.commit(files{"web.yaml": "2", "generation.yaml": "generation: 5"})
			w.mustSync()
			bad := x.next(w)
			w.wantRefused(bad, x.reason)
			w.wantRefused(bad, x.reason) // and again
			w.git("reset", "-q", "--hard", last)
			good := w.commit(files{"web.yaml": "good", "generation.yaml": "generation: 7"})
			w.mustSync()
			w.wantCurrent(good)
		})
	}
}

func TestSyncRewindsOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	old := w.commit(files{"web.yaml": "1", "generation.yaml": "generation: 1"})
	w.commit(files{"web.yaml": "2", "generation.yaml": "generation: 2"})
	w.mustSync()
	w.git("reset", "-q", "--hard", old)
	w.wantRefused(old, "older")
	w.cfg.AllowRewind = true
	w.mustSync()
	w.wantCurrent(old)
	w.cfg.AllowRewind = false
	w.mustSync()
	w.wantCurrent(old)
	w.commit(files{"web.yaml": "3", "generation.yaml": "generation: 2"})
	w.mustSync()
	w.wantCurrent(w.head())
}

// Who deletes the published tree, or the status, opens no way back.
func TestSyncRemembersWhatWasPublished(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"current", "commits", "status.json", "repository.git"} {
		w := newWorld(t, t.TempDir())
		old := w.commit(files{"web.yaml": "1"})
		last := w.commit(files{"web.yaml": "2"})
		w.mustSync()
		w.must(os.RemoveAll(filepath.Join(w.cfg.Dest, gone)))
		w.git("reset", "-q", "--hard", old)
		if err := w.sync(); !errors.As(err, new(*Refusal)) {
			t.Errorf("without %s: %v", gone, err)
		}
		w.git("reset", "-q", "--hard", last)
		w.mustSync()
		w.wantCurrent(last)
	}
}

// One team's typo doesn't hold up the others, unless that is asked for.
func TestSyncPublishesErrorsOfObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "web"})
	w.mustSync()
	id := w.commit(files{"shop.yaml": "broken"})
	w.cfg.Strict = true
	w.wantRefused(id, "it has an error: shop.yaml:1: broken")
	w.cfg.Strict = false
	p, err := Sync(context.Background(), w.cfg, w.now)
	if err != nil || p.Errors != 1 || p.Services != 1 || len(p.Findings) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	w.wantCurrent(id)
	p, err = Sync(context.Background(), w.cfg, w.now) // nothing new, and still not well
	if err != nil || p.Errors != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestSyncOfRefs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	first := w.commit(files{"web.yaml": "1"})
	w.git("tag", "v1")
	w.git("tag", "-a", "-m", "2", "v2")
	w.git("branch", "prod/eu")
	// A tag with the branch's name doesn't stand in for it.
	second := w.commit(files{"web.yaml": "2"})
	w.git("tag", "prod/eu")
	for _, ref := range []string{"prod/eu", "refs/tags/v1", "refs/tags/v2", "refs/heads/prod/eu"} {
		w.cfg.Ref = ref
		w.mustSync()
		w.wantCurrent(first)
	}
	w.cfg.Ref = "main"
	w.mustSync()
	w.wantCurrent(second)
	w.cfg.Ref = "v1" // is no branch
	if err := w.sync(); err == nil || !strings.Contains(err.Error(), "refs/heads/v1") {
		t.Error(err)
	}
	w.wantCurrent(second)
}

// Several at once: each does it all or says that another one is at work.
func TestSyncAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "1"})
	w.mustSync()
	for i := range 3 {
		id := w.commit(files{"web.yaml": fmt.Sprint("next ", i)})
		var group sync.WaitGroup
		outcomes := make([]error, 4)
		for n := range outcomes {
			group.Go(func() { _, outcomes[n] = Sync(context.Background(), w.cfg, w.now) })
		}
		group.Wait()
		done := 0
		for _, err := range outcomes {
			if err == nil {
				done++
			} else if !errors.Is(err, ErrLocked) {
				t.Error(err)
			}
		}
		if done == 0 {
			t.Error("all were locked out")
		}
		w.wantCurrent(id)
	}
}

func TestSyncOfNoSuchRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "1"})
	w.mustSync()
	w.must(os.Rename(w.origin, w.origin+".gone"))
	if err := w.sync(); err == nil || !strings.Contains(err.Error(), "origin") {
		t.Error(err)
	}
	w.wantCurrent(id)
	s, err := ReadStatus(w.cfg.Dest)
	if err != nil || s.Error == "" || s.Refused != nil || s.Published.Commit != id || !s.Succeeded.Equal(epoch.Add(60e9)) {
		t.Errorf("%+v, %v", s, err)
	}
	w.must(os.Rename(w.origin+".gone", w.origin))
	w.mustSync()
}

func TestSyncDoesNotReplaceWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "1"})
	w.must(os.MkdirAll(filepath.Join(w.cfg.Dest, "current"), 0o755))
	if err := w.sync(); err == nil || !strings.Contains(err.Error(), "is not a link") {
		t.Error(err)
	}
}
