package gossip

import (
	"cmp"
	"slices"
	"time"

	"pointsman/state"
)

const (
	// dampSpacing is the least time between two publications about a Check.
	dampSpacing = time.Second

	// dampFlips in dampWindow are flapping. Then a verdict must be stable for
	// dampFirst before it's published, twice as long each time that happens
	// again, up to dampLongest. A quiet time of dampLongest halves that.
	dampFlips   = 4
	dampWindow  = time.Minute
	dampFirst   = 30 * time.Second
	dampLongest = 5 * time.Minute

	// dampReason is the least time until another Failure alone is published.
	dampReason = 30 * time.Second
)

// Damper decides when what this host's probes found is published, each Check by
// itself: a change at once, but flapping not at all until it ends. A fleet takes
// notice of every change, so one bad backend must not keep a thousand hosts busy.
// It's pure: time is told by the caller, and must not go backwards.
type Damper struct {
	checks map[state.CheckKey]*damped
	due    dueQueue
}

// damped is the history of a Check's verdicts.
type damped struct {
	latest, published Entry
	changedAt         time.Time // when latest got its verdict
	publishedAt       time.Time // zero: never
	flips             []time.Time
	demand            time.Duration // how long latest must have been stable
	queued            time.Time     // when it's due next; zero: it isn't
}

// Observe takes what a probe found. If it must be stable for longer now, since it
// flaps, flaps is how long.
func (d *Damper) Observe(e Entry, now time.Time) (flaps time.Duration) {
	c := d.checks[e.Key]
	if c == nil {
		if d.checks == nil {
			d.checks = map[state.CheckKey]*damped{}
		}
		c = &damped{latest: Entry{Key: e.Key}, published: Entry{Key: e.Key}}
		d.checks[e.Key] = c
	}
	if e.Verdict != c.latest.Verdict {
		before := c.demand
		if c.flip(now); c.demand > before {
			flaps = c.demand
		}
	}
	c.latest = e
	d.queue(c)
	return flaps
}

// Forget drops a Check that this host observes no more.
func (d *Damper) Forget(k state.CheckKey) { delete(d.checks, k) }

// Due gives what is to be published now, by key, as published.
func (d *Damper) Due(now time.Time) []Entry {
	var out []Entry
	for x, ok := d.due.pop(now); ok; x, ok = d.due.pop(now) {
		c := d.checks[x.key]
		if c == nil || !c.queued.Equal(x.at) {
			continue
		}
		c.queued = time.Time{}
		if at, waits := c.ready(); waits && !now.Before(at) {
			c.published, c.publishedAt = c.latest, now
			out = append(out, c.latest)
		}
		d.queue(c)
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Next says when Due may have something; false if never.
func (d *Damper) Next() (time.Time, bool) { return d.due.next() }

// queue notes when a Check is to be looked at, unless that's noted for an earlier
// time already: so it's in the queue once or twice, however much it flaps.
func (d *Damper) queue(c *damped) {
	at, waits := c.ready()
	if waits && (c.queued.IsZero() || at.Before(c.queued)) {
		c.queued = at
		d.due.push(due{at, c.latest.Key})
	}
}

// flip notes that the verdict changed. The first verdict of all isn't a flip.
func (c *damped) flip(now time.Time) {
	quiet := max(0, now.Sub(c.changedAt))
	c.changedAt = now
	if c.latest.Verdict == state.Unknown {
		return
	}
	c.demand >>= min(quiet/dampLongest, 62)
	if c.demand < dampFirst {
		c.demand = 0
	}
	c.flips = slices.DeleteFunc(c.flips, func(t time.Time) bool { return now.Sub(t) > dampWindow })
	c.flips = append(c.flips, now)
	if len(c.flips) >= dampFlips {
		c.flips = c.flips[:0]
		c.demand = min(max(dampFirst, 2*c.demand), dampLongest)
	}
}

// ready says from when on the latest is to be published, and whether it waits for
// that at all.
func (c *damped) ready() (time.Time, bool) {
	switch {
	case c.latest == c.published:
		return time.Time{}, false
	case c.latest.Verdict == c.published.Verdict:
		return c.publishedAt.Add(dampReason), true
	}
	at := c.changedAt.Add(c.demand)
	if spaced := c.publishedAt.Add(dampSpacing); at.Before(spaced) {
		at = spaced
	}
	return at, true
}
