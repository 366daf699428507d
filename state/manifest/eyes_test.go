package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// Of the directories on the way only the names of the way count; of the tree,
// everything does; and of what was swept, nothing.
func TestEyesMatter(t *testing.T) {
	e, err := openEyes(fsnotify.NewWatcher, make(chan struct{}, 1))
	mustDo(t, err)
	defer e.close()
	check := func(want map[string]bool) {
		t.Helper()
		for name, matters := range want {
			if e.matters(name) != matters {
				t.Errorf("%s matters: %v", name, !matters)
			}
		}
	}
	e.begin()
	e.names([]string{"/tmp", "/tmp/current"})
	e.dir("/tmp/rev-1")
	check(map[string]bool{
		"//tmp": true, "//etc": false, "/": false, "/tmp": true, "/tmp/current": true, "/tmp/other": false,
		"/tmp/rev-1": true, "/tmp/rev-1/web.yaml": true, "/tmp/rev-1/.x.swp": true, "/tmp/rev-1/a/b": false,
	})
	e.begin()
	e.names([]string{"/tmp", "/tmp/current"})
	e.dir("/tmp/rev-2")
	check(map[string]bool{"/tmp/rev-1/web.yaml": true, "/tmp/rev-2/web.yaml": true}) // until the scan is whole
	e.sweep()
	check(map[string]bool{"/tmp/rev-1/web.yaml": false, "/tmp/rev-2/web.yaml": true, "/tmp/current": true})
}

// What is missing is no reason to give up inotify.
func TestEyesMissingDirectories(t *testing.T) {
	e, err := openEyes(fsnotify.NewWatcher, make(chan struct{}, 1))
	mustDo(t, err)
	defer e.close()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), "")
	mustDo(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	e.begin()
	for _, name := range []string{"none", "file/below", "loop", "none/a/b"} {
		e.dir(filepath.Join(dir, name))
	}
	e.dir(dir)
	if n, failure, broken := e.state(); n != 1 || failure != nil || broken != nil {
		t.Errorf("%d watches, %v, %v", n, failure, broken)
	}
}

func TestRemoteFS(t *testing.T) {
	if got := remoteFS("/proc/self"); got != "" {
		t.Errorf("/proc is %q", got)
	}
	if got := remoteFS("/does/not/exist"); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

// On a file system that others write to, polling goes on beside inotify, and
// the status says why.
func TestWatchRemote(t *testing.T) {
	w := NewWatcher(t.TempDir(), WatchOptions{})
	w.remote = "NFS"
	w.watching(func(spotter) error { return nil })
	defer w.shut()
	if s := w.Status(); !s.Inotify || s.Poll != w.opts.Poll || s.Reason != "changes made elsewhere send no events on NFS" || !w.blind() {
		t.Errorf("%v", s)
	}
}

// A failure that is over leaves no trace in the reasons.
func TestWatchStatusAfterFailure(t *testing.T) {
	w := NewWatcher(t.TempDir(), WatchOptions{Inotify: 1})
	w.open = noInotify
	w.watching(func(spotter) error { return nil })
	w.open = fsnotify.NewWatcher
	w.watching(func(spotter) error { return errors.New("the tree is missing") })
	defer w.shut()
	if s := w.Status(); !s.Inotify || s.Reason != "" || s.Poll != w.opts.SlowPoll {
		t.Errorf("%v", s)
	}
}
