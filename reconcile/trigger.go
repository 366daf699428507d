package reconcile

import (
	"sync"
	"time"
)

// Cause is why the kernel is to be programmed.
type Cause string

// The causes.
const (
	Manifests     Cause = "manifests" // files have changed, or a change that was held was let through
	FleetHealth   Cause = "health"    // a verdict or a drain
	HostAddresses Cause = "addresses" // this host has others
	Repair        Cause = "repair"    // somebody else changed our tables
)

// causes are all of them.
var causes = []Cause{Manifests, FleetHealth, HostAddresses, Repair}

// Triggers hold since when changes wait to be in the kernel, by cause: of
// several the first, for it waits longest. The zero value holds none, and nil
// never does.
type Triggers struct {
	mu   sync.Mutex
	held waiting
}

// Note adds a change that was known, or made, at a time; the zero time is one
// that nobody knows, and isn't noted. It's to be called once Desires.Latest has
// the change: then no sync that comes too early is taken for the one that
// brought it.
func (t *Triggers) Note(c Cause, at time.Time) {
	if t == nil || at.IsZero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = waiting{}
	}
	t.held.note(c, at)
}

// take gives what was noted since the last call.
func (t *Triggers) take() waiting {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.held
	t.held = nil
	return held
}

// waiting is since when changes wait, by cause.
type waiting map[Cause]time.Time

// note keeps the earlier time.
func (w waiting) note(c Cause, at time.Time) {
	if since, ok := w[c]; !ok || at.Before(since) {
		w[c] = at
	}
}

func (w waiting) join(o waiting) {
	for c, at := range o {
		w.note(c, at)
	}
}
