package pin

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s: %q, %v", path, got, err)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shop", "web.yaml")
	put(t, path, "old", 0o640)
	if os.Getuid() == 0 {
		if err := os.Chown(path, 4711, 4712); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := (File{Path: "shop/web.yaml", Before: []byte("old"), After: []byte("new")}).Write(dir); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new")
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	if before.Mode() != after.Mode() || was.Uid != is.Uid || was.Gid != is.Gid {
		t.Errorf("%v %d:%d, before %v %d:%d", after.Mode(), is.Uid, is.Gid, before.Mode(), was.Uid, was.Gid)
	}
	alone(t, path)
}

// alone: nothing else is left in a file's directory.
func alone(t *testing.T, path string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("%v %v", names, err)
	}
}

// A link stays a link, and what it leads to is written where it is.
func TestWriteThroughALink(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real", "web.yaml")
	link := filepath.Join(dir, "manifests", "web.yaml")
	put(t, real, "old", 0o644)
	put(t, filepath.Join(dir, "manifests", "x"), "", 0o644)
	if err := os.Symlink("../real/web.yaml", link); err != nil {
		t.Fatal(err)
	}
	if err := (File{Path: "web.yaml", Before: []byte("old"), After: []byte("new")}).Write(filepath.Dir(link)); err != nil {
		t.Fatal(err)
	}
	holds(t, real, "new")
	alone(t, real)
	if to, err := os.Readlink(link); err != nil || to != "../real/web.yaml" {
		t.Error(to, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	put(t, path, "edited", 0o644)
	err := (File{Path: "web.yaml", Before: []byte("old"), After: []byte("new")}).Write(dir)
	if err == nil || !strings.HasPrefix(err.Error(), "web.yaml: it changed while") {
		t.Error(err)
	}
	holds(t, path, "edited")
	alone(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := replace(dir, info, nil); err == nil {
		t.Error("a file took the place of a directory")
	}
	if left, err := filepath.Glob(filepath.Dir(dir) + "/.*"); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if err := (File{Path: "gone.yaml"}).Write(dir); err == nil || err.Error() != "gone.yaml: no such file or directory" {
		t.Error(err)
	}
}
