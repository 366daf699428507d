package gitsync

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
		"no record":        func() error { return os.Remove(filepath.Join(tree, recordFile)) },
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

// A disk that is full, or read-only, fails the sync, and no more. The test runs itself again in
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
	w.must(unix.Mount("", w.cfg.Dest, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := w.sync(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v; want a read-only filesystem", err)
	}
	w.wantCurrent(small)
	w.must(unix.Mount("", w.cfg.Dest, "", unix.MS_REMOUNT, ""))
	w.commit(files{"web.yaml": "4", "big.yaml": ""})
	w.mustSync()
	w.wantCurrent(w.head())
}

// A filesystem that can't exchange two names: NFS, or overlayfs on some kernels.
func TestPlaceWithoutExchange(t *testing.T) {
	t.Parallel()
	for _, why := range []error{syscall.EINVAL, syscall.ENOSYS, syscall.EIO} {
		dir := t.TempDir()
		tree, name := filepath.Join(dir, ".new"), filepath.Join(dir, "commit")
		for file, text := range map[string]string{tree: "new", name: "damaged"} {
			if err := errors.Join(os.Mkdir(file, 0o755), os.WriteFile(filepath.Join(file, "web.yaml"), []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		err := place(tree, name, func(string, string) error { return why })
		want := files{"commit/web.yaml": "new"}
		if errors.Is(why, syscall.EIO) {
			want = files{".new/web.yaml": "new", "commit/web.yaml": "damaged"}
		}
		if got := read(t, dir); !maps.Equal(got, want) || (err != nil) != errors.Is(why, syscall.EIO) {
			t.Errorf("%v: %q, %v", why, got, err)
		}
	}
}
