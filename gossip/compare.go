package gossip

import "time"

// A comparison decides when this host and another go through what they hold:
// when the hash of one was other than this host's own, and that of one some time
// later still is. Before, it's gossip's business.
type comparison struct {
	pace    pace
	differs time.Time     // since when; zero: the last one was equal
	last    time.Time     // when it was last gone through
	wait    time.Duration // from then to the next time, at least
}

// pace is how long hashes must differ, and the least and most from one time to
// the next.
type pace struct{ settle, least, most time.Duration }

// seen takes notice of another's hash, and tells whether it's time to go through
// all with that one.
func (c *comparison) seen(equal bool, now time.Time) bool {
	switch {
	case equal:
		c.differs, c.wait = time.Time{}, 0
		return false
	case c.differs.IsZero():
		c.differs = now
	}
	if now.Sub(c.differs) < c.pace.settle || now.Sub(c.last) < max(c.wait, c.pace.least) {
		return false
	}
	// Hosts with other manifests, or of another release, may never agree. Until
	// something comes of it the next time is twice as far.
	c.last, c.differs = now, now
	c.wait = min(max(c.wait, c.pace.least)*2, c.pace.most)
	return true
}

// brought takes notice of news that came of it.
func (c *comparison) brought() { c.wait = 0 }
