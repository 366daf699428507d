package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the links, a path leads where filepath.EvalSymlinks says, and the
// names on the way have no link in their directories.
func TestResolveProperty(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	mustDo(t, err)
	n := 0
	part := rapid.SampledFrom([]string{"a", "b", "c", "..", ".", ""})
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n), "x", "y")
		if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
			t.Fatal(err)
		}
		path := func(label string) string {
			return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, label), "/")
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "links") {
			target := path(fmt.Sprint("target ", i))
			if rapid.Bool().Draw(t, "absolute") {
				target = dir + "/" + target
			}
			if target == "" {
				continue
			}
			at := rapid.SampledFrom([]string{"b", "c", "a/a", "a/c", "a/b/a"}).Draw(t, "at")
			_ = os.Symlink(target, filepath.Join(dir, at)) // one may be there
		}
		given := dir + "/" + path("path")
		r, err := resolvePath(given)
		info, statErr := os.Stat(given)
		if (err == nil) != (statErr == nil) {
			t.Fatalf("%s: %v, stat says %v", given, err, statErr)
		}
		if err == nil {
			real, err := os.Stat(r.real)
			if err != nil || !os.SameFile(info, real) {
				t.Fatalf("%s is not %s: %v", r.real, given, err)
			}
		}
		for _, name := range append(r.names, r.real) {
			if in, err := filepath.EvalSymlinks(filepath.Dir(name)); err != nil || in != filepath.Dir(name) {
				t.Fatalf("%s: the way leads by %s, in %s, %v", given, name, in, err)
			}
		}
	})
}

func TestResolveMissing(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	mustDo(t, err)
	mustDo(t, os.Symlink("gone/services", filepath.Join(dir, "current")))
	r, err := resolvePath(filepath.Join(dir, "current", "web"))
	if !errors.Is(err, os.ErrNotExist) || !slices.Equal(r.names[len(r.names)-2:], []string{dir + "/current", dir + "/gone"}) {
		t.Errorf("%v, %v", r.names, err)
	}
	mustDo(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	if _, err := resolvePath(filepath.Join(dir, "loop")); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	t.Chdir(dir)
	if r, err := resolvePath("."); r.real != dir || err != nil {
		t.Errorf("%s, %v", r.real, err)
	}
}
