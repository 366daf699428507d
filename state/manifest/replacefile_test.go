package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alone: nothing else is in a file's directory, and it holds that.
func alone(t *testing.T, path, want string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Dir(path))
	data, err2 := os.ReadFile(path)
	if err := errors.Join(err, err2); err != nil || len(names) != 1 || string(data) != want {
		t.Errorf("%v; %q, want %q: %v", names, data, want, err)
	}
}

func writing(text string) func(*os.File) error {
	return func(f *os.File) error { _, err := f.WriteString(text); return err }
}

// What a process that was killed left is no manifest, and gone after the next.
func TestReplaceFileOverLeftover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yaml")
	left := Unfinished(path)
	if IsManifest(filepath.Base(left)) {
		t.Errorf("%s is read as a manifest", left)
	}
	killed := errors.New("killed")
	func() {
		defer func() { _ = recover() }()
		_ = ReplaceFile(path, func(f *os.File) error {
			mustDo(t, f.Chmod(0o666))
			mustDo(t, writing("a longer text than the next")(f))
			panic(killed)
		})
	}()
	if _, err := os.Stat(left); err != nil {
		t.Fatal(err)
	}
	mustDo(t, ReplaceFile(path, writing("next")))
	alone(t, path, "next")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

// Two that write one file don't mix: the second is told.
func TestReplaceFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yaml")
	mustDo(t, ReplaceFile(path, func(f *os.File) error {
		err := ReplaceFile(path, writing("second"))
		if err == nil || !strings.HasSuffix(err.Error(), ".web.yaml.new is in the way: another process is writing it") {
			t.Error(err)
		}
		return writing("first")(f)
	}))
	alone(t, path, "first")
}

// What somebody else put there isn't followed.
func TestReplaceFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "web.yaml"), filepath.Join(t.TempDir(), "other")
	writeFile(t, other, "other")
	mustDo(t, os.Symlink(other, Unfinished(path)))
	if err := ReplaceFile(path, writing("web")); err == nil || !strings.Contains(err.Error(), ".web.yaml.new is in the way: ") {
		t.Error(err)
	}
	alone(t, other, "other")
	mustDo(t, os.Remove(Unfinished(path)))
	mustDo(t, os.Link(other, Unfinished(path)))
	mustDo(t, ReplaceFile(path, writing("web")))
	alone(t, other, "other")
	alone(t, path, "web")
}
