package gossip

import "time"

// A comparison decides when two members exchange what they hold: when the hash
// of one was other than this host's own, and that of one a second later still
// is. Before, it's gossip's business.
type comparison struct {
	differs time.Time     // since when; zero: the last one was equal
	last    time.Time     // the last exchange
	wait    time.Duration // from one exchange to the next, at least
}

const (
	minExchange = time.Second
	maxExchange = 30 * time.Second
)

// seen takes notice of another's hash, and tells whether it's time for an
// exchange with that one.
func (c *comparison) seen(equal bool, now time.Time) bool {
	switch {
	case equal:
		*c = comparison{last: c.last}
		return false
	case c.differs.IsZero():
		c.differs = now
	}
	if now.Sub(c.differs) < minExchange || now.Sub(c.last) < max(c.wait, minExchange) {
		return false
	}
	// Hosts with other manifests, or of another release, may never agree. Until
	// an exchange brings news the next one waits twice as long.
	c.last, c.differs = now, now
	c.wait = min(max(c.wait, minExchange)*2, maxExchange)
	return true
}

// brought takes notice of news from an exchange.
func (c *comparison) brought() { c.wait = 0 }
