package reconcile

import (
	"fmt"
	"strings"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state/event"
)

// detectDrift finds out whether somebody else has changed our tables since
// they were last right, and makes the next sync read them back.
func (l *Loop) detectDrift() {
	changes, seen := l.journal.Take()
	l.seen = seen
	verdict := l.ledger.Judge(changes, seen)
	for _, t := range l.tables {
		if touched := verdict.Of(t.in); touched != 0 {
			t.kernel.Forget(touched == host.Program)
			l.drifted = true
			l.ask()
			l.waiting.note(Repair, time.Now())
		}
	}
	for _, c := range verdict {
		l.Metrics.drift.Inc()
		l.Log.Warn("somebody else changed our rules, they are repaired", "reason", event.DriftRepaired, "process", c.Process, "change", c.String())
	}
}

// foundDrift tells of rules that were replaced while nobody watched. Who did it
// isn't known.
func (l *Loop) foundDrift(f nft.Family, chains []string) {
	l.Metrics.drift.Inc()
	l.Log.Warn("somebody else changed our rules, they are repaired", "reason", event.DriftRepaired, "process", "unknown",
		"change", fmt.Sprintf("table %s pointsman: other rules than were written in chain %s", f, strings.Join(chains, ", ")))
}

// compareGeneration makes everything be read back if the journal has not come
// as far as the kernel was a whole period ago.
func (l *Loop) compareGeneration() {
	l.detectDrift()
	now, err := host.Generation()
	if err != nil {
		l.Log.Error("the ruleset's generation id could not be read", "error", err)
		return
	}
	if int32(l.seen-l.resynced) < 0 { // generation ids wrap
		l.Log.Warn("notifications of the kernel have been missed, everything is read back")
		l.forget(true)
	}
	l.resynced = now
}

// forget makes the next sync read everything back.
func (l *Loop) forget(program bool) {
	l.ask()
	for _, t := range l.tables {
		t.kernel.Forget(program)
	}
}
