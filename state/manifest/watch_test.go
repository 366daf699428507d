package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must happen; on an idle machine
// it is there within 300 ms.
const patience = 60 * time.Second

// watched is a Watcher that runs, and all it has published.
type watched struct {
	t     *testing.T
	w     *Watcher
	reads chan error // of every reading that has ended
	logs  *logBuffer

	mu    sync.Mutex
	snaps []*Snapshot
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// watch runs a Watcher until the test ends.
func watch(t *testing.T, dir string, opts WatchOptions, adjust ...func(*Watcher)) *watched {
	t.Helper()
	w := &watched{t: t, reads: make(chan error, 1000), logs: &logBuffer{}}
	opts.Log = slog.New(slog.NewTextHandler(w.logs, nil))
	w.w = NewWatcher(dir, opts)
	w.w.after = func(err error) {
		s, _ := w.w.Latest()
		w.mu.Lock()
		defer w.mu.Unlock()
		if s != nil && (len(w.snaps) == 0 || w.snaps[len(w.snaps)-1] != s) {
			w.snaps = append(w.snaps, s)
		}
		select {
		case w.reads <- err:
		default:
		}
	}
	for _, f := range adjust {
		f(w.w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%v\n%s", w.w.Status(), w.logs)
		}
	})
	return w
}

// published returns all snapshots until now, in order.
func (w *watched) published() []*Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.snaps)
}

// until waits for a state of the Watcher.
func (w *watched) until(what string, ok func(*Snapshot, error) bool) *Snapshot {
	w.t.Helper()
	timeout := time.After(patience)
	for {
		s, err := w.w.Latest()
		if ok(s, err) {
			return s
		}
		select {
		case <-w.w.Changed():
		case <-timeout:
			w.t.Fatalf("no %s: %v, %v", what, s, err)
		}
	}
}

// files waits until the snapshot holds exactly these.
func (w *watched) files(want map[string]string) *Snapshot {
	w.t.Helper()
	return w.until(fmt.Sprint(want), func(s *Snapshot, err error) bool {
		return s != nil && err == nil && maps.Equal(contents(s), want)
	})
}

// failing waits for an error that says so.
func (w *watched) failing(text string) {
	w.t.Helper()
	w.until("error "+text, func(_ *Snapshot, err error) bool {
		return err != nil && strings.Contains(err.Error(), text)
	})
}

// read waits for the end of the next reading.
func (w *watched) read() error {
	w.t.Helper()
	select {
	case err := <-w.reads:
		return err
	case <-time.After(patience):
		w.t.Fatal("nothing was read")
		return nil
	}
}

// readWhole waits for the end of a reading that did not fail: one that comes at
// once may find a file too young.
func (w *watched) readWhole() {
	w.t.Helper()
	for err := w.read(); err != nil; err = w.read() {
		w.t.Log("not yet: ", err)
	}
}

// quick are options that make a test short. The slow poll stays out of the way.
var quick = WatchOptions{Quiet: 60 * time.Millisecond, Most: 240 * time.Millisecond, SlowPoll: time.Hour}

// noInotify is the kernel's answer when fs.inotify.max_user_instances are open.
func noInotify() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }

// bothWays runs a test with inotify and without.
func bothWays(t *testing.T, test func(t *testing.T, opts WatchOptions, adjust func(*Watcher))) {
	t.Run("inotify", func(t *testing.T) { test(t, quick, func(*Watcher) {}) })
	t.Run("polling", func(t *testing.T) {
		opts := quick
		opts.Poll = 100 * time.Millisecond
		test(t, opts, func(w *Watcher) { w.open = noInotify })
	})
}

// C58: git-sync swaps a link and deletes the tree that was behind it.
func TestWatchFlips(t *testing.T) {
	for _, path := range []string{"current", "current/services"} {
		t.Run(path, func(t *testing.T) {
			bothWays(t, func(t *testing.T, opts WatchOptions, adjust func(*Watcher)) {
				dir := t.TempDir()
				revision := func(n int) map[string]string {
					body := fmt.Sprint("revision ", n)
					writeFile(t, filepath.Join(dir, fmt.Sprint("rev-", n), "services", "web.yaml"), body)
					swapLink(t, fmt.Sprint("rev-", n), filepath.Join(dir, "current"))
					return map[string]string{strings.TrimPrefix("current/services/web.yaml", path+"/"): body}
				}
				want := revision(0)
				w := watch(t, filepath.Join(dir, path), opts, adjust)
				w.files(want)
				for n := 1; n <= 10; n++ {
					want := revision(n)
					mustDo(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint("rev-", n-1))))
					w.files(want)
				}
				w.wasNeverEmpty(11)
			})
		})
	}
}

// wasNeverEmpty checks that this many snapshots were published and none lacked
// its files.
func (w *watched) wasNeverEmpty(n int) {
	w.t.Helper()
	snaps := w.published()
	for len(snaps) < n { // the last is made known before it is noted here
		_ = w.read()
		snaps = w.published()
	}
	if len(snaps) != n {
		w.t.Errorf("%d snapshots for %d states", len(snaps), n)
	}
	for i, s := range snaps {
		if len(s.Files) == 0 {
			w.t.Errorf("snapshot %d is empty", i)
		}
	}
}

// C59: a projected volume.
func TestWatchProjectedVolume(t *testing.T) {
	bothWays(t, func(t *testing.T, opts WatchOptions, adjust func(*Watcher)) {
		dir := t.TempDir()
		publish := projected(t, dir)
		w := watch(t, dir, opts, adjust)
		want := func(rev string) map[string]string {
			return map[string]string{"web.yaml": "web " + rev, "team/api.yaml": "api " + rev}
		}
		w.files(want("0"))
		for i := range 10 {
			publish(fmt.Sprint("v", i))
			w.files(want(fmt.Sprint("v", i)))
		}
		w.wasNeverEmpty(11)
		writeFile(t, filepath.Join(dir, "..data", "web.yaml"), "in place") // in a hidden directory
		w.files(map[string]string{"web.yaml": "in place", "team/api.yaml": "api v9"})
	})
}

// edits are the ways in which files come to hold something else.
func edits(t *testing.T, dir string) []struct {
	name string
	do   func(path, body string)
} {
	return []struct {
		name string
		do   func(path, body string)
	}{
		{"in place", func(path, body string) { writeFile(t, path, body) }},
		{"renamed over", func(path, body string) {
			writeFile(t, path+".tmp", body)
			mustDo(t, os.Rename(path+".tmp", path))
		}},
		{"vim", func(path, body string) {
			writeFile(t, filepath.Join(dir, ".web.yaml.swp"), "swap")
			writeFile(t, filepath.Join(dir, "4913"), "")
			mustDo(t, os.Remove(filepath.Join(dir, "4913")))
			mustDo(t, os.Rename(path, path+"~"))
			writeFile(t, path, body)
			mustDo(t, os.Remove(path+"~"))
			mustDo(t, os.Remove(filepath.Join(dir, ".web.yaml.swp")))
		}},
		{"emacs", func(path, body string) {
			mustDo(t, os.Symlink("me@host.1:2", filepath.Join(dir, ".#web.yaml")))
			writeFile(t, filepath.Join(dir, "#web.yaml#"), "auto-saved")
			mustDo(t, os.Rename(path, path+"~"))
			writeFile(t, path, body)
			mustDo(t, os.Remove(filepath.Join(dir, "#web.yaml#")))
			mustDo(t, os.Remove(filepath.Join(dir, ".#web.yaml")))
		}},
		{"sed -i", func(path, body string) {
			mustDo(t, exec.Command("sed", "-i", "s/.*/"+body+"/", path).Run())
		}},
		{"directory replaced", func(path, body string) {
			writeFile(t, filepath.Join(dir+".new", "web.yaml"), body)
			mustDo(t, os.Rename(dir, dir+".old"))
			mustDo(t, os.Rename(dir+".new", dir))
			mustDo(t, os.RemoveAll(dir+".old"))
		}},
		{"directory made anew", func(path, body string) {
			mustDo(t, os.RemoveAll(dir))
			writeFile(t, path, body)
		}},
		{"directory becomes a link", func(path, body string) {
			writeFile(t, filepath.Join(dir+".real", "web.yaml"), body)
			mustDo(t, os.RemoveAll(dir))
			mustDo(t, os.Symlink(dir+".real", dir))
		}},
		{"behind the link", func(path, body string) { writeFile(t, path, body) }},
		{"link becomes a directory", func(path, body string) {
			mustDo(t, os.Remove(dir))
			writeFile(t, path, body)
		}},
		{"same size and time", func(path, body string) {
			writeFile(t, path, body)
			mustDo(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
		}},
	}
}

// C59: each kind of edit is published, once.
func TestWatchEdits(t *testing.T) {
	bothWays(t, func(t *testing.T, opts WatchOptions, adjust func(*Watcher)) {
		dir := filepath.Join(t.TempDir(), "a", "manifests")
		path := filepath.Join(dir, "web.yaml")
		writeFile(t, path, "first")
		w := watch(t, dir, opts, adjust)
		w.files(map[string]string{"web.yaml": "first"})
		for round := range 2 {
			for i, edit := range edits(t, dir) {
				body := fmt.Sprintf("edit %d %02d", round, i)
				edit.do(path, body)
				w.files(map[string]string{"web.yaml": body})
				if t.Failed() {
					t.Fatalf("after %s", edit.name)
				}
			}
		}
		w.wasNeverEmpty(1 + 2*len(edits(t, dir)))
	})
}

// C59: chmod, touch, a rewrite of the same and what is no manifest are noticed
// and change nothing.
func TestWatchNothingNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	writeFile(t, path, "web")
	w := watch(t, dir, quick)
	first := w.files(map[string]string{"web.yaml": "web"})
	w.readWhole()
	select {
	case <-w.w.Changed():
	default: // it was taken while waiting for the files
	}
	for name, do := range map[string]func(){
		"chmod":   func() { mustDo(t, os.Chmod(path, 0o600)) },
		"touch":   func() { mustDo(t, os.Chtimes(path, time.Now(), time.Now())) },
		"rewrite": func() { writeFile(t, path, "web") },
		"hidden":  func() { writeFile(t, filepath.Join(dir, ".x.yaml"), "x") },
		"readme":  func() { writeFile(t, filepath.Join(dir, "README"), "x") },
		"mkdir":   func() { mustDo(t, os.Mkdir(filepath.Join(dir, "team"), 0o755)) },
		"reload":  func() { w.w.Reload() },
	} {
		do()
		w.readWhole()
		if s, err := w.w.Latest(); s != first || err != nil {
			t.Errorf("%s: another snapshot, %v", name, err)
		}
	}
	select {
	case <-w.w.Changed():
		t.Error("signalled")
	default:
	}
}

// A directory that appears is watched, and what was put into it before that is
// not missed; nor what is in directories below it.
func TestWatchNewDirectories(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), "web")
	w := watch(t, dir, quick)
	want := map[string]string{"web.yaml": "web"}
	w.files(want)
	for i := range 10 {
		name := fmt.Sprintf("team-%d/a/b/c/d/x.yaml", i)
		writeFile(t, filepath.Join(dir, name), "new")
		want[name] = "new"
		w.files(want)
		writeFile(t, filepath.Join(dir, name), "edited")
		want[name] = "edited"
		w.files(want)
	}
	mustDo(t, os.RemoveAll(filepath.Join(dir, "team-3")))
	delete(want, "team-3/a/b/c/d/x.yaml")
	w.files(want)
}

// A neighbour that is busy has nothing read: the tree may be in /tmp.
func TestWatchNeighbours(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "manifests")
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	w := watch(t, dir, quick)
	w.files(map[string]string{"web.yaml": "1"})
	w.readWhole()
	for i := range 100 {
		writeFile(t, filepath.Join(parent, fmt.Sprintf("x-%d.yaml", i)), "x")
	}
	writeFile(t, filepath.Join(dir, "web.yaml"), "2")
	w.files(map[string]string{"web.yaml": "2"})
	w.readWhole()
	select {
	case err := <-w.reads:
		t.Errorf("read once more (%v)", err)
	default:
	}
}

// A writer that appends in steps is waited for: nothing of it is published
// before it is done. The events are the kernel's, and the time between them isn't:
// a machine that is busy makes no pause.
func TestWatchSlowWriter(t *testing.T) {
	kernel, err := fsnotify.NewWatcher() // whose goroutine waits for the kernel, and no bubble's time passes meanwhile
	mustDo(t, err)
	synctest.Test(t, func(t *testing.T) {
		told := make(chan fsnotify.Event)
		t.Cleanup(func() { close(told) })
		path := filepath.Join(t.TempDir(), "web.yaml")
		writeFile(t, path, "first")
		w := watch(t, filepath.Dir(path), WatchOptions{}, func(w *Watcher) {
			w.open = func() (*fsnotify.Watcher, error) {
				eyes := *kernel
				eyes.Events, eyes.Errors = told, make(chan error)
				return &eyes, nil
			}
		})
		w.files(map[string]string{"web.yaml": "first"})
		whole := appendSlowly(t, path, func() { told <- <-kernel.Events })
		w.files(map[string]string{"web.yaml": whole})
		synctest.Wait() // it's made known before it's noted
		if all := w.published(); len(all) != 2 {
			for _, s := range all {
				t.Errorf("published %q", contents(s))
			}
		}
	})
}

// appendSlowly writes a file anew in steps, of which each is told.
func appendSlowly(t *testing.T, path string, tell func()) (whole string) {
	t.Helper()
	f, err := os.Create(path)
	mustDo(t, err)
	defer f.Close()
	tell()
	for i := range 15 {
		line := fmt.Sprintf("line %d\n", i)
		_, err := f.WriteString(line)
		mustDo(t, err)
		tell()
		whole += line
		time.Sleep(60 * time.Millisecond)
	}
	return whole
}

// C62: what looks like a removal of everything is an error beside the last
// snapshot, and passes by itself.
func TestWatchDisappears(t *testing.T) {
	bothWays(t, func(t *testing.T, opts WatchOptions, adjust func(*Watcher)) {
		dir := filepath.Join(t.TempDir(), "srv", "manifests")
		w := watch(t, dir, opts, adjust)
		w.failing("no such file")
		if s, _ := w.w.Latest(); s != nil {
			t.Error("a snapshot of nothing")
		}
		writeFile(t, filepath.Join(dir, "web.yaml"), "1")
		first := w.files(map[string]string{"web.yaml": "1"})
		mustDo(t, os.RemoveAll(filepath.Dir(dir)))
		w.failing("no such file")
		if s, _ := w.w.Latest(); s != first {
			t.Error("the last snapshot is not kept")
		}
		writeFile(t, dir, "a file")
		w.failing("not a directory")
		mustDo(t, os.Remove(dir))
		writeFile(t, filepath.Join(dir, "web.yaml"), "2")
		w.files(map[string]string{"web.yaml": "2"})
		w.wasNeverEmpty(2)
	})
}

// An empty directory is no error but a snapshot without files: it may be
// meant. Whoever keeps the last state tells it by that.
func TestWatchEmpty(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, dir, quick)
	w.files(map[string]string{})
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	w.files(map[string]string{"web.yaml": "1"})
	mustDo(t, os.Remove(filepath.Join(dir, "web.yaml")))
	w.files(map[string]string{})
}

// An error and its end are signalled once each.
func TestWatchErrorSignals(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	w := watch(t, dir, quick)
	w.files(map[string]string{"web.yaml": "1"})
	mustDo(t, os.Symlink("/etc", filepath.Join(dir, "x.yaml")))
	w.failing("x.yaml: link to /etc")
	for len(w.reads) > 0 {
		<-w.reads
	}
	for range 2 {
		if w.read() == nil {
			t.Error("it is not tried again")
		}
	}
	select {
	case <-w.w.Changed():
		t.Error("the same error is signalled again")
	default:
	}
	mustDo(t, os.Remove(filepath.Join(dir, "x.yaml")))
	w.files(map[string]string{"web.yaml": "1"})
	logs := w.logs.String()
	if strings.Count(logs, "cannot be read") != 1 || strings.Count(logs, "can be read again") != 1 {
		t.Errorf("logs:\n%s", logs)
	}
}

// C61: without inotify it is polled, which is said, and inotify is tried again.
func TestWatchInotifyExhausted(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	var mu sync.Mutex
	var free bool
	opts := quick
	opts.Poll, opts.Inotify = 100*time.Millisecond, 10*time.Millisecond
	w := watch(t, dir, opts, func(w *Watcher) {
		w.open = func() (*fsnotify.Watcher, error) {
			mu.Lock()
			defer mu.Unlock()
			if free {
				return fsnotify.NewWatcher()
			}
			return noInotify()
		}
	})
	w.files(map[string]string{"web.yaml": "1"})
	s := w.w.Status()
	if s.Inotify || s.Poll != 100*time.Millisecond || s.String() != "polling every 100ms: inotify: too many open files" {
		t.Errorf("%v", s)
	}
	writeFile(t, filepath.Join(dir, "web.yaml"), "2")
	w.files(map[string]string{"web.yaml": "2"})
	mu.Lock()
	free = true
	mu.Unlock()
	w.status(func(s WatchStatus) bool { return s.Inotify && s.Poll == time.Hour && s.Watches > 1 })
	writeFile(t, filepath.Join(dir, "web.yaml"), "3")
	w.files(map[string]string{"web.yaml": "3"})
	logs := w.logs.String()
	if strings.Count(logs, "falling back to polling") != 1 || strings.Count(logs, "inotify works again") != 1 {
		t.Errorf("logs:\n%s", logs)
	}
}

// status waits for a status. Nothing signals it, so reading is made to happen.
func (w *watched) status(ok func(WatchStatus) bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok(w.w.Status()) {
		if time.Now().After(deadline) {
			w.t.Fatalf("status: %v", w.w.Status())
		}
		w.w.Reload()
		_ = w.read()
	}
}

// C61: where no events come, the slow poll finds the change. An unmount takes
// the watches with it like that, and NFS never sends any.
func TestWatchDeaf(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	opts := quick
	opts.SlowPoll = 100 * time.Millisecond
	w := watch(t, dir, opts, func(w *Watcher) {
		w.open = func() (*fsnotify.Watcher, error) {
			fs, err := fsnotify.NewWatcher()
			if err == nil {
				fs.Events = make(chan fsnotify.Event) // nothing is ever sent here
			}
			return fs, err
		}
	})
	w.files(map[string]string{"web.yaml": "1"})
	writeFile(t, filepath.Join(dir, "web.yaml"), "2")
	w.files(map[string]string{"web.yaml": "2"})
}

// C61: the event queue overflows. The watcher is made anew and the tree read.
func TestWatchOverflow(t *testing.T) {
	dir := t.TempDir()
	for i := range 20_000 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%05d.txt", i)), "")
	}
	writeFile(t, filepath.Join(dir, "web.yaml"), "1")
	held := make(chan *eyes, 1)
	w := watch(t, dir, quick, func(w *Watcher) {
		after := w.after
		w.after = func(err error) {
			select {
			case held <- w.eyes:
			default:
			}
			after(err)
		}
	})
	w.files(map[string]string{"web.yaml": "1"})
	e := <-held
	e.mu.Lock() // the reader stands still, the kernel's queue fills up
	now := time.Now()
	for i := range 20_000 {
		mustDo(t, os.Chtimes(filepath.Join(dir, fmt.Sprintf("%05d.txt", i)), now, now))
	}
	writeFile(t, filepath.Join(dir, "web.yaml"), "2")
	e.mu.Unlock()
	w.files(map[string]string{"web.yaml": "2"})
	deadline := time.After(patience)
	for !strings.Contains(w.logs.String(), "file events were lost") {
		select {
		case <-w.reads:
		case <-deadline:
			t.Fatal("no overflow was seen")
		}
	}
	writeFile(t, filepath.Join(dir, "web.yaml"), "3")
	w.files(map[string]string{"web.yaml": "3"})
}

// A burst of new files is published whole, in few steps.
func TestWatchBurst(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, dir, quick)
	w.files(map[string]string{})
	want := map[string]string{}
	for i := range 5_000 {
		name := fmt.Sprintf("team-%d/%d.yaml", i%50, i)
		writeFile(t, filepath.Join(dir, name), "x")
		want[name] = "x"
	}
	w.files(want)
}

// Watches of trees that are not looked at any more are given back.
func TestWatchGivesBack(t *testing.T) {
	dir := t.TempDir()
	flip := func(n int) map[string]string {
		want := map[string]string{}
		for i := range 20 {
			name := fmt.Sprintf("team-%d/web.yaml", i)
			want[name] = fmt.Sprint("revision ", n)
			writeFile(t, filepath.Join(dir, fmt.Sprint("rev-", n), name), want[name])
		}
		swapLink(t, fmt.Sprint("rev-", n), filepath.Join(dir, "current"))
		return want
	}
	want := flip(0)
	var fs *fsnotify.Watcher
	w := watch(t, filepath.Join(dir, "current"), quick, func(w *Watcher) {
		w.open = func() (_ *fsnotify.Watcher, err error) { fs, err = fsnotify.NewWatcher(); return fs, err }
	})
	w.files(want)
	before := w.w.Status().Watches
	for n := 1; n <= 5; n++ {
		w.files(flip(n))
	}
	after := w.w.Status().Watches
	if kernel := len(fs.WatchList()); after != before || kernel != before || before < 22 {
		t.Errorf("%d watches, then %d, of fsnotify %d", before, after, kernel)
	}
}

func TestWatchStops(t *testing.T) {
	w := NewWatcher(t.TempDir(), WatchOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for status, want := range map[WatchStatus]string{
		{Inotify: true, Watches: 3, Poll: 15 * time.Second}:               "inotify on 3 directories, and a look every 15s",
		{Inotify: true, Watches: 3, Poll: 2 * time.Second, Reason: "NFS"}: "inotify on 3 directories, and polling every 2s: NFS",
	} {
		if got := status.String(); got != want {
			t.Errorf("%q", got)
		}
	}
}
