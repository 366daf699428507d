package gossip

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A drain ends at a time of day, and that is all that hosts need to agree on the
// time for. A host may have another idea of it: its clock was never set, or NTP
// steps it. So each tells its own with its answers to pings, and drains go by the
// one in the middle of all. Between two answers another's clock is counted on by
// the monotonic one, which nobody sets.

// maxSkew is by how much clocks differ that nobody looks after. Those that NTP
// keeps differ by milliseconds, so where all is well drains go by each host's own.
const maxSkew = 5 * time.Second

// farthest bounds what a clock may tell: differences of such times must not
// overflow.
const farthest = 100 * 365 * 24 * time.Hour

// readClock takes the time of day that a member told, if its release tells any.
func (m *memberEntry) readClock(r *wireReader, now time.Time) {
	if told := r.u64(); !r.bad {
		m.clock, m.clockRead = time.UnixMilli(int64(told)), now
	}
}

// ahead gives by how much each member's clock is ahead of wall, which is this
// host's own. Members that are dead, or told nothing, aren't in it.
func (m *members) ahead(now, wall time.Time) map[string]time.Duration {
	all := map[string]time.Duration{m.self: 0}
	for name, e := range m.all {
		if name != m.self && e.alive && !e.clock.IsZero() && m.known(name) {
			differ := e.clock.Add(now.Sub(e.clockRead)).Sub(wall.Round(0))
			all[name] = min(max(differ, -farthest), farthest)
		}
	}
	return all
}

// neverSet is when no agent ran that told its time: a clock that is behind it was
// not set since the host booted, which half of a fleet may do at once.
var neverSet = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// middle gives the one in the middle of those that were set, if any was. Of two
// it's the one that is behind: rather does a drain last longer than that it's lost.
func middle(ahead map[string]time.Duration, wall time.Time) time.Duration {
	all := slices.Sorted(maps.Values(ahead))
	isSet := func(d time.Duration) bool { return wall.Add(d).After(neverSet) }
	if first := slices.IndexFunc(all, isSet); first > 0 {
		all = all[first:]
	}
	return all[(len(all)-1)/2]
}

// fleetTime gives the time of day that drains go by. It's skew ahead of this
// host's clock; small changes are none, else every drain would be another one
// with every answer.
func (c *Cluster) fleetTime() time.Time {
	wall := c.cfg.Clock()
	skew := middle(c.members.ahead(time.Now(), wall), wall)
	if (skew - c.skew).Abs() >= maxSkew {
		c.skew = skew.Round(time.Second)
		c.changedLocked()
	}
	return wall.Round(0).Add(c.skew)
}

// noteClocks names the hosts whose clocks are wrong, this one among them.
func (c *Cluster) noteClocks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.cfg.Clock()
	ahead := c.members.ahead(time.Now(), wall)
	mid := middle(ahead, wall)
	for _, name := range slices.Sorted(maps.Keys(ahead)) {
		off, way := ahead[name]-mid, "ahead of"
		if off < 0 {
			off, way = -off, "behind"
		}
		if off >= maxSkew {
			c.noteLocked(Trouble{Kind: ClockOff, Member: name, Detail: fmt.Sprintf(
				"its clock is %v %s the one in the middle of the fleet's, by which drains end", off.Round(time.Second), way)})
		}
	}
}
