package manifest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childDir is set in a test that runs in its own namespaces: the directory to
// work in.
const childDir = "POINTSMAN_MANIFEST_TEST_DIR"

// stranger is a user that does not exist in the child's namespace. What is
// the stranger's is closed to the child, root or not: a capability counts only
// for inodes whose owner the namespace knows.
const stranger = 54321

// inNamespaces runs a test once more, as a child in a user and a mount
// namespace of its own. There it may mount and has its own limits in
// /proc/sys/user; those in /proc/sys/fs/inotify are the whole machine's, also
// when they are written from inside.
func inNamespaces(t *testing.T, setup func(dir string), test func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(childDir); dir != "" {
		test(t, dir)
		return
	}
	dir := t.TempDir()
	setup(dir)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in its own user namespace: %v\n%s", err, out)
	}
}

// setLimit sets a limit of the child's user namespace.
func setLimit(t *testing.T, name string, n int) {
	t.Helper()
	mustDo(t, os.WriteFile(filepath.Join("/proc/sys/user", name), []byte(strconv.Itoa(n)), 0o644))
}

// teams writes a manifest into each of 50 directories.
func teams(t *testing.T, dir, body string) map[string]string {
	t.Helper()
	want := map[string]string{}
	for i := range 50 {
		name := fmt.Sprintf("team-%02d/web.yaml", i)
		writeFile(t, filepath.Join(dir, name), body)
		want[name] = body
	}
	return want
}

// short are options for a child: what is seconds and minutes otherwise.
func short() WatchOptions {
	opts := quick
	opts.Poll, opts.Inotify = 200*time.Millisecond, 100*time.Millisecond
	return opts
}

// C61: the only inotify instance is taken.
func TestWatchNoInstances(t *testing.T) {
	inNamespaces(t, func(string) {}, func(t *testing.T, dir string) {
		setLimit(t, "max_inotify_instances", 1)
		taken, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		mustDo(t, err)
		want := teams(t, dir, "1")
		w := watch(t, dir, short())
		w.files(want)
		if s := w.w.Status(); s.Inotify || !strings.Contains(s.String(), "polling every 200ms: inotify: couldn't initialize inotify: too many open files") {
			t.Errorf("%v", s)
		}
		w.files(teams(t, dir, "2"))
		mustDo(t, unix.Close(taken))
		w.status(func(s WatchStatus) bool { return s.Inotify })
		w.files(teams(t, dir, "3"))
	})
}

// C61: eight watches for 50 directories.
func TestWatchNoWatches(t *testing.T) {
	inNamespaces(t, func(string) {}, func(t *testing.T, dir string) {
		setLimit(t, "max_inotify_watches", 8)
		want := teams(t, dir, "1")
		w := watch(t, dir, short())
		w.files(want)
		if s := w.w.Status(); s.Inotify || s.Watches != 0 || s.String() != "polling every 200ms: inotify: no space left on device" {
			t.Errorf("%v", s)
		}
		w.files(teams(t, dir, "2"))
		setLimit(t, "max_inotify_watches", 1000)
		w.status(func(s WatchStatus) bool { return s.Inotify && s.Watches > 50 })
		w.files(teams(t, dir, "3"))
	})
}

// C62: a file system is mounted and unmounted over the directory. Neither
// sends an event. What is below is an empty directory.
func TestWatchUnmount(t *testing.T) {
	inNamespaces(t, func(string) {}, func(t *testing.T, dir string) {
		opts := quick
		opts.SlowPoll = 200 * time.Millisecond
		w := watch(t, dir, opts)
		w.files(map[string]string{})
		for i := range 3 {
			body := fmt.Sprint(i)
			mustDo(t, unix.Mount("none", dir, "tmpfs", 0, ""))
			writeFile(t, filepath.Join(dir, "web.yaml"), body)
			w.files(map[string]string{"web.yaml": body})
			mustDo(t, unix.Unmount(dir, unix.MNT_DETACH))
			w.files(map[string]string{})
		}
	})
}

// giveAway makes a path the stranger's alone.
func giveAway(t *testing.T, path string) {
	t.Helper()
	mustDo(t, os.Chmod(path, 0o700))
	mustDo(t, os.Chown(path, stranger, stranger))
}

// C62: a sub-directory that may not be read is an error beside the last snapshot,
// a file is a faulty one: neither is a removal of what is in it.
func TestWatchDenied(t *testing.T) {
	inNamespaces(t, func(dir string) {
		for _, name := range []string{"open/api.yaml", "locked/api.yaml", "file"} {
			writeFile(t, filepath.Join(dir, "manifests", ".store", name), "api")
		}
		writeFile(t, filepath.Join(dir, "manifests", "web.yaml"), "web")
		giveAway(t, filepath.Join(dir, "manifests", ".store", "locked"))
		giveAway(t, filepath.Join(dir, "manifests", ".store", "file"))
	}, func(t *testing.T, dir string) {
		manifests := filepath.Join(dir, "manifests")
		whole := map[string]string{"web.yaml": "web", "team/api.yaml": "api"}
		swapLink(t, ".store/open", filepath.Join(manifests, "team"))
		w := watch(t, manifests, short())
		w.files(whole)
		swapLink(t, ".store/locked", filepath.Join(manifests, "team"))
		w.failing(manifests + ": team: permission denied")
		swapLink(t, ".store/open", filepath.Join(manifests, "team"))
		w.files(whole)
		mustDo(t, os.Symlink(".store/file", filepath.Join(manifests, "file.yaml")))
		w.files(map[string]string{"web.yaml": "web", "team/api.yaml": "api", "file.yaml": "(unreadable: permission denied)"})
		mustDo(t, os.Remove(filepath.Join(manifests, "file.yaml")))
		w.files(whole)
		w.wasNeverEmpty(3)
	})
}

// A repository whose locks may not be looked at is an error: a checkout in
// place could be read half-way.
func TestTreeGitDenied(t *testing.T) {
	inNamespaces(t, func(dir string) {
		writeFile(t, filepath.Join(dir, "manifests", "web.yaml"), "web")
		gitLike(t, filepath.Join(dir, ".git"))
		giveAway(t, filepath.Join(dir, ".git"))
	}, func(t *testing.T, dir string) {
		_, err := ReadDir(filepath.Join(dir, "manifests"))
		if err == nil || !strings.Contains(err.Error(), "cannot tell whether git is at work") {
			t.Error(err)
		}
	})
}
