package manifest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"pointsman/state/event"
)

// WatchOptions adjust a Watcher; what is zero has the value given here.
type WatchOptions struct {
	Log *slog.Logger // nowhere

	Quiet time.Duration // 250 ms: a tree is read when nothing happened for this time,
	Most  time.Duration // 1 s: or when this long has passed since the first event

	Poll     time.Duration // 2 s: within this time a change is published without inotify
	SlowPoll time.Duration // 15 s: and with it, where no event came
	Inotify  time.Duration // 1 min: after it failed, inotify is tried again

	// Waits is told when the file system is asked, and, with the zero time, when it
	// has answered: one on a server may not. Nobody.
	Waits func(since time.Time)
}

func (o WatchOptions) withDefaults() WatchOptions {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Waits == nil {
		o.Waits = func(time.Time) {}
	}
	o.Quiet = cmp.Or(o.Quiet, 250*time.Millisecond)
	o.Most = cmp.Or(o.Most, time.Second)
	o.Poll = cmp.Or(o.Poll, 2*time.Second)
	o.SlowPoll = cmp.Or(o.SlowPoll, 15*time.Second)
	o.Inotify = cmp.Or(o.Inotify, time.Minute)
	return o
}

// WatchStatus says how a Watcher comes to know of changes.
type WatchStatus struct {
	Inotify  bool          // events are had
	Reason   string        // why not, or why they are not relied on; else empty
	Poll     time.Duration // a change is published within this time without an event
	Watches  int           // directories watched
	LastRead time.Time     // when the tree was last found whole and still

	LastFailed time.Time // when it could last not be read
	Failure    error     // why not then
}

// String is for a log line or a status page.
func (s WatchStatus) String() string {
	switch {
	case !s.Inotify:
		return fmt.Sprintf("polling every %v: %s", s.Poll, s.Reason)
	case s.Reason != "":
		return fmt.Sprintf("inotify on %d directories, and polling every %v: %s", s.Watches, s.Poll, s.Reason)
	}
	return fmt.Sprintf("inotify on %d directories, and a look every %v", s.Watches, s.Poll)
}

// Watcher publishes a new Snapshot whenever a manifests directory has changed.
// A tree that is missing or cannot be read whole is an error beside the last
// Snapshot, never an empty one, and is tried again until it can be read.
type Watcher struct {
	opts WatchOptions
	open newWatcher

	// Only the goroutine of Run has these.
	tree    *Tree
	draft   *draft
	backoff backoff
	eyes    *eyes     // nil without inotify
	openAt  time.Time // not before this is inotify tried again
	remote  string
	after   func(err error) // after each reading, for the tests

	dirty, reload, changed chan struct{} // capacity 1, without data

	mu      sync.Mutex
	snap    *Snapshot
	err     error
	unasked bool // nobody has asked for snap yet
	status  WatchStatus
}

// NewWatcher returns a Watcher for a directory, which need not exist yet.
func NewWatcher(dir string, opts WatchOptions) *Watcher {
	return &Watcher{
		opts:    opts.withDefaults(),
		open:    fsnotify.NewWatcher,
		tree:    NewTree(dir),
		dirty:   make(chan struct{}, 1),
		reload:  make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		after:   func(error) {},
	}
}

// Changed signals that Latest returns something else than before.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Latest returns the last Snapshot, nil before the first, and what is wrong
// with the tree now. The same pointer means the same files.
func (w *Watcher) Latest() (*Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unasked = false
	return w.snap, w.err
}

// Status returns how changes come to be known.
func (w *Watcher) Status() WatchStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Reload has the tree read now.
func (w *Watcher) Reload() { poke(w.reload) }

// Run reads the tree and watches it until ctx ends, which is no error.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.shut()
	l := loop{
		settle: settling{quiet: w.opts.Quiet, most: w.opts.Most},
		reader: w,
		dirty:  w.dirty,
		reload: w.reload,
	}
	l.run(ctx)
	return nil
}

func (w *Watcher) shut() {
	if w.eyes != nil {
		w.eyes.close()
		w.eyes = nil
	}
}

// scan is the first step of a reading.
func (w *Watcher) scan() (err error) {
	defer w.asking()()
	w.watching(func(sp spotter) error {
		w.draft, err = w.tree.prepare(sp)
		return err
	})
	return err
}

// verify is the second.
func (w *Watcher) verify() error {
	defer w.asking()()
	return w.tree.verify(w.draft)
}

// asking tells that the file system is asked, and gives what tells of its answer.
func (w *Watcher) asking() (answered func()) {
	w.opts.Waits(time.Now())
	return func() { w.opts.Waits(time.Time{}) }
}

// poll looks whether the tree has changed. It renews the watches, too: those
// of a file system that was unmounted and mounted again are gone without a
// word.
func (w *Watcher) poll() (moved bool) {
	defer w.asking()()
	w.watching(func(sp spotter) error {
		moved = w.tree.moved(sp)
		return nil
	})
	return moved
}

// publish is the last step.
func (w *Watcher) publish(noticed time.Time, err error) time.Duration {
	defer w.asking()()
	var snap *Snapshot
	if err == nil {
		snap = w.accept(noticed)
		w.remote = remoteFS(w.draft.sight.real)
	}
	w.draft = nil
	delay, report := w.backoff.next(time.Now(), err)
	if snap != nil || report != nil {
		w.set(snap, report)
	}
	w.after(err)
	return delay
}

// accept takes the draft over. A Snapshot that nobody has asked for is replaced by
// a later one, whose change has waited as long as both.
func (w *Watcher) accept(noticed time.Time) *Snapshot {
	snap := w.tree.accept(w.draft)
	w.mu.Lock()
	defer w.mu.Unlock()
	if snap == w.snap {
		return snap
	}
	if w.unasked && !w.snap.Noticed.IsZero() {
		noticed = w.snap.Noticed
	}
	snap.Noticed, w.unasked = noticed, true
	return snap
}

// set makes the outcome of a reading known, if it is new.
func (w *Watcher) set(snap *Snapshot, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.err
	if snap == nil {
		snap = w.snap
		w.status.LastFailed, w.status.Failure = time.Now(), err
	} else {
		w.status.LastRead = time.Now()
	}
	if snap == w.snap && sameError(err, was) {
		return
	}
	w.snap, w.err = snap, err
	switch {
	case err != nil:
		w.opts.Log.Error("the manifests cannot be read, the last state is kept", "reason", event.LastStateKept, "error", err)
	case was != nil:
		w.opts.Log.Info("the manifests can be read again", "files", len(snap.Files))
	}
	poke(w.changed)
}

// sameError reports whether two errors say the same. A tree that does not hold
// still is caught with another file each time, which is no news.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error() || isUnsteady(a) && isUnsteady(b)
}

// blind reports whether changes must be found by looking.
func (w *Watcher) blind() bool { return w.eyes == nil || w.remote != "" }

// period returns the time between two looks, so that a change found by one is
// published within the time that is promised: the quiet time comes after it.
func (w *Watcher) period() time.Duration { return w.promised() * 3 / 4 }

func (w *Watcher) promised() time.Duration {
	if w.blind() {
		return w.opts.Poll
	}
	return w.opts.SlowPoll
}

// watching calls look with the eyes there are, after trying to have some. Eyes
// that failed are closed: a part of the watches is of no use for a tree that
// must be polled anyway, and others on this host may need them.
func (w *Watcher) watching(look func(spotter) error) {
	failure := w.openEyes(time.Now())
	if w.eyes == nil {
		_ = look(nil)
		w.noteStatus(failure)
		return
	}
	w.eyes.begin()
	if err := look(w.eyes); err == nil {
		w.eyes.sweep()
	}
	if _, err, _ := w.eyes.state(); err != nil {
		w.shut()
		w.openAt = time.Now().Add(w.opts.Inotify)
		failure = err
	}
	w.noteStatus(failure)
}

// openEyes opens eyes if there are none or if events were lost, in which case
// nobody knows which. It returns why there are none, nil where that is known
// since an earlier attempt.
func (w *Watcher) openEyes(now time.Time) error {
	if w.eyes != nil {
		_, _, broken := w.eyes.state()
		if broken == nil {
			return nil
		}
		w.opts.Log.Info("file events were lost, watching anew", "error", broken)
		w.shut()
	}
	if now.Before(w.openAt) {
		return nil
	}
	eyes, err := openEyes(w.open, w.dirty)
	if err != nil {
		w.openAt = now.Add(w.opts.Inotify)
		return err
	}
	w.eyes = eyes
	return nil
}

// noteStatus brings the status up to date; failure is why inotify has failed
// just now.
func (w *Watcher) noteStatus(failure error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.status
	now := WatchStatus{Inotify: w.eyes != nil, Poll: w.promised(), LastRead: was.LastRead, LastFailed: was.LastFailed, Failure: was.Failure}
	switch {
	case failure != nil:
		now.Reason = "inotify: " + failure.Error()
	case w.eyes == nil:
		now.Reason = was.Reason
	case w.remote != "":
		now.Reason = "changes made elsewhere send no events on " + w.remote
	}
	if w.eyes != nil {
		now.Watches, _, _ = w.eyes.state()
	}
	w.status = now
	switch {
	case !now.Inotify && now.Reason != was.Reason:
		w.opts.Log.Warn("no inotify, falling back to polling (raise fs.inotify.max_user_watches or max_user_instances)",
			"error", failure, "period", now.Poll)
	case now.Inotify && !was.Inotify && was.Reason != "":
		w.opts.Log.Info("inotify works again", "watches", now.Watches)
	}
}
