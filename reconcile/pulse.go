package reconcile

import (
	"sync/atomic"
	"time"
)

// pulse tells a loop that is at work from one that is stuck: whoever does
// something says by when it will have done it.
type pulse struct{ due atomic.Pointer[time.Time] }

// beatPeriod is that in which the loop, idle, shows that it still turns.
const beatPeriod = 5 * time.Second

// readBackTime is what a family may take besides its transactions. Reading back
// 250,000 endpoints and planning them takes 2 s on an idle machine.
const readBackTime = time.Minute

func (p *pulse) expect(within time.Duration) {
	due := time.Now().Add(within)
	p.due.Store(&due)
}

// stuck says why a loop doesn't beat, "" if it does. No loop at all isn't stuck.
func (p *pulse) stuck(now time.Time) string {
	if p == nil {
		return ""
	}
	if due := p.due.Load(); due != nil && !now.Before(*due) {
		return "the reconcile loop is stuck: it should have come back by " + due.UTC().Format(time.RFC3339)
	}
	return ""
}

// Alive reports whether the loop does what it said it would, within the time it
// said. It isn't alive any more if it hangs: where nothing does, but for a bug of
// ours or the kernel's, and then only a restart helps. A loop that hasn't begun
// is alive.
func (l *Loop) Alive(now time.Time) bool { return l.alive.stuck(now) == "" }
