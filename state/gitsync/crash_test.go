package gitsync

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// steps gives all the steps of a sync, in their order.
func (w *world) steps() []string {
	w.Helper()
	var steps []string
	cfg := w.cfg
	cfg.at = func(step string) { steps = append(steps, step) }
	w.now = w.now.Add(60e9)
	_, err := Sync(context.Background(), cfg, w.now)
	w.must(err)
	return steps
}

// killed runs a sync in a process that is killed at a step.
func (w *world) killed(step string) {
	w.Helper()
	self, err := os.Executable()
	w.must(err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), stepToDieAt+"="+step, childRepo+"="+w.cfg.Repo, childDest+"="+w.cfg.Dest)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.Fatalf("at %s: %v, not killed: %s", step, err, out)
	}
}

// A sync that is killed at any step leaves one whole tree, the former or the
// new one, and the next one goes on from there.
func TestKilledAtAnyStep(t *testing.T) {
	t.Parallel()
	plan := newWorld(t, t.TempDir())
	plan.commit(files{"web.yaml": "1"})
	first := plan.steps()
	for i := range keptTrees {
		plan.commit(files{"web.yaml": string(rune('a' + i))})
		plan.mustSync()
	}
	plan.commit(files{"web.yaml": "2"})
	later := plan.steps()
	if len(first) < 8 || !slices.Contains(first, "init-rename") || !slices.Contains(later, "prune") {
		t.Fatalf("steps are %q and %q", first, later)
	}
	for _, step := range first {
		w := newWorld(t, t.TempDir())
		w.commit(files{"web.yaml": "1"})
		w.killed(step)
		w.current()
		w.mustSync()
		w.wantCurrent(w.head())
	}
	for _, step := range later {
		plan.git("commit", "-q", "--allow-empty", "-m", step)
		before, next := plan.current(), plan.commit(files{"web.yaml": step})
		plan.killed(step)
		if now := plan.current(); now != before && now != next {
			t.Errorf("killed at %s: published is %s, neither %s nor %s", step, now, before, next)
		}
		plan.mustSync()
		plan.wantCurrent(next)
	}
	if kept := plan.names("commits"); len(kept) != keptTrees {
		t.Errorf("kept are %q", kept)
	}
}

// What a git that was killed leaves behind, what a power cut makes of files, and
// what a hand does: the next sync mends it, and the published tree stays.
func TestDamageIsMended(t *testing.T) {
	t.Parallel()
	overwrite := func(w *world, name, text string) {
		name = filepath.Join(w.cfg.Dest, name)
		w.must(os.MkdirAll(filepath.Dir(name), 0o755))
		w.must(os.WriteFile(name, []byte(text), 0o644))
	}
	for name, damage := range map[string]func(w *world){
		"locks": func(w *world) {
			for _, lock := range []string{"config.lock", "packed-refs.lock", "shallow.lock", fetchedRef + ".lock", publishedRef + ".lock", "gc.pid.lock"} {
				overwrite(w, "repository.git/"+lock, "")
			}
		},
		"half a pack":    func(w *world) { overwrite(w, "repository.git/objects/pack/tmp_pack_x1y2z3", "PACK") },
		"half a clone":   func(w *world) { overwrite(w, ".repository.git/HEAD", "ref: refs/heads/none\n") },
		"an empty ref":   func(w *world) { overwrite(w, "repository.git/"+fetchedRef, "") },
		"no HEAD":        func(w *world) { w.must(os.Remove(filepath.Join(w.cfg.Dest, "repository.git/HEAD"))) },
		"a bad config":   func(w *world) { overwrite(w, "repository.git/config", "[core") },
		"empty objects":  func(w *world) { emptyObjects(w) },
		"no repository":  func(w *world) { w.must(os.RemoveAll(filepath.Join(w.cfg.Dest, "repository.git"))) },
		"a bad status":   func(w *world) { overwrite(w, "status.json", "{") },
		"a half status":  func(w *world) { overwrite(w, ".status.json", "{") },
		"a half draft":   func(w *world) { overwrite(w, "commits/.new/web.yaml", "half") },
		"half a removal": func(w *world) { overwrite(w, "commits/.old/web.yaml", "half") },
		"a link half way": func(w *world) {
			link := filepath.Join(w.cfg.Dest, ".current")
			_ = os.Remove(link)
			w.must(os.Symlink("commits/none", link))
		},
		"signers left": func(w *world) { overwrite(w, ".signers/allowed_signers", "half") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.TempDir())
			id := w.commit(files{"web.yaml": "1", "shop.yaml": "shop"})
			w.mustSync()
			damage(w)
			w.mustSync()
			w.wantCurrent(id)
			damage(w)
			id = w.commit(files{"web.yaml": "2"})
			w.mustSync()
			w.wantCurrent(id)
			if hidden := slices.DeleteFunc(w.names("commits"), func(n string) bool { return n[0] != '.' }); len(hidden) > 0 {
				t.Errorf("left are %q", hidden)
			}
		})
	}
}

// emptyObjects leaves the files of objects without their contents, as a power
// cut may.
func emptyObjects(w *world) {
	w.must(filepath.WalkDir(filepath.Join(w.cfg.Dest, "repository.git/objects"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return errors.Join(os.Chmod(name, 0o644), os.Truncate(name, 0))
	}))
}

// A published tree that lost something, or got something, is published again.
func TestPublishedTreeIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "1", "a/shop.yaml": "shop", "b.yaml": "->web.yaml"})
	w.mustSync()
	tree := filepath.Join(w.cfg.Dest, "commits", id)
	for name, damage := range map[string]func() error{
		"a file is gone":   func() error { return os.Remove(filepath.Join(tree, "web.yaml")) },
		"a folder is gone": func() error { return os.RemoveAll(filepath.Join(tree, "a")) },
		"one too many":     func() error { return os.WriteFile(filepath.Join(tree, "x.yaml"), nil, 0o644) },
		"cut short":        func() error { return os.Truncate(filepath.Join(tree, "web.yaml"), 0) },
		"a link is none": func() error {
			b := filepath.Join(tree, "b.yaml")
			return errors.Join(os.Remove(b), os.WriteFile(b, []byte("web.yaml"), 0o644))
		},
		"no record":        func() error { return os.Remove(filepath.Join(tree, RecordFile)) },
		"the tree is gone": func() error { return os.RemoveAll(tree) },
		"the link is gone": func() error { return os.Remove(filepath.Join(w.cfg.Dest, "current")) },
		"another link": func() error {
			link := filepath.Join(w.cfg.Dest, "current")
			return errors.Join(os.Remove(link), os.Symlink("/tmp", link))
		},
	} {
		w.must(damage())
		if err := w.sync(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.wantCurrent(id)
	}
}

// A directory that can't be written, and one that is somebody else's.
func TestDestThatIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "1"})
	w.mustSync()
	w.must(os.Chown(w.cfg.Dest, 65534, 65534))
	if err := w.sync(); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Error(err)
	}
	w.wantCurrent(w.head())
	w.cfg.Dest = filepath.Join(w.origin, "web.yaml")
	if err := w.sync(); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

const onSmallDisk = "GITSYNC_TEST_SMALL_DISK"

// A disk that is full fails the sync, and no more. The test runs itself again in
// a mount namespace, where DEST is a small disk.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(onSmallDisk); dir != "" {
		fullDisk(t, dir)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := `mount --make-rprivate / && mkdir "$1/dest" && mount -t tmpfs -o size=4m pointsman "$1/dest" && exec "$0" -test.run '^TestFullDisk$' -test.v`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script, self, dir)
	cmd.Env = append(os.Environ(), onSmallDisk+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDisk")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fullDisk(t *testing.T, dir string) {
	w := newWorld(t, dir)
	small := w.commit(files{"web.yaml": "1"})
	w.mustSync()
	// It fits into the repository, packed, and not into a tree.
	w.commit(files{"web.yaml": "2", "big.yaml": strings.Repeat("0123456789abcde\n", 1<<19)})
	if err := w.sync(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v; want no space left", err)
	}
	w.wantCurrent(small)
	// Now not even the repository takes what is new.
	fill := filepath.Join(w.cfg.Dest, "fill")
	f, err := os.Create(fill)
	w.must(err)
	for _, err = f.Write(make([]byte, 4096)); err == nil; {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	w.commit(files{"web.yaml": "3"})
	if err := w.sync(); err == nil {
		t.Error("nothing fails without any space")
	}
	w.wantCurrent(small)
	w.must(os.Remove(fill))
	w.commit(files{"web.yaml": "4", "big.yaml": ""})
	w.mustSync()
	w.wantCurrent(w.head())
}

// Whatever is pushed and whenever syncs are killed, what is published is always
// one whole tree, of a commit that may be published, and never one of before.
func TestPublishedIsAlwaysWhole(t *testing.T) {
	t.Parallel()
	plan := newWorld(t, t.TempDir())
	plan.commit(files{"web.yaml": "1"})
	steps := append(plan.steps(), "prune", "")
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(plan.origin+"/..", "run")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		h := &history{world: newWorld(t, dir), good: map[string]bool{}}
		h.push(rt)
		for range rapid.IntRange(2, 5).Draw(rt, "actions") {
			h.push(rt)
			h.attempt(rapid.SampledFrom(steps).Draw(rt, "killed at"))
		}
		h.git("reset", "-q", "--hard", h.mainline())
		id := h.commit(files{"web.yaml": "last", "bad.yaml": ""})
		h.good[id] = true
		h.mustSync()
		h.wantCurrent(id)
	})
}

// history is a world with what was pushed to it.
type history struct {
	*world
	pushed []string
	good   map[string]bool
	seen   string // what was last published
}

// push makes what somebody may push.
func (h *history) push(rt *rapid.T) {
	kind := "good"
	if len(h.pushed) > 0 {
		kind = rapid.SampledFrom([]string{"good", "good", "bad", "back", "forced", "nothing"}).Draw(rt, "push")
	}
	content := files{"web.yaml": rapid.StringMatching(`[a-z]{1,8}`).Draw(rt, "text"), "bad.yaml": ""}
	switch kind {
	case "nothing":
		return
	case "bad":
		content["bad.yaml"] = "unreadable"
	case "back", "forced":
		h.git("reset", "-q", "--hard", rapid.SampledFrom(h.pushed).Draw(rt, "to"))
		if kind == "back" {
			return
		}
	}
	id := h.commit(content)
	h.pushed = append(h.pushed, id)
	h.good[id] = kind != "bad"
}

// attempt syncs, up to a step at which all ends.
func (h *history) attempt(step string) {
	h.Helper()
	type end struct{}
	cfg := h.cfg
	cfg.at = func(s string) {
		if s == step {
			panic(end{})
		}
	}
	func() {
		defer func() {
			if r := recover(); r != nil && r != (end{}) {
				panic(r)
			}
		}()
		h.now = h.now.Add(60e9)
		if _, err := Sync(context.Background(), cfg, h.now); err != nil && !errors.As(err, new(*Refusal)) {
			h.Errorf("%v", err)
		}
	}()
	now := h.current()
	if now != "" && !h.good[now] {
		h.Errorf("%s is published", now)
	}
	if h.seen != "" && now != h.seen {
		h.git("merge-base", "--is-ancestor", h.seen, now)
	}
	h.seen = now
}

// mainline is where one may go on from.
func (h *history) mainline() string {
	if h.seen != "" {
		return h.seen
	}
	return h.pushed[0]
}
