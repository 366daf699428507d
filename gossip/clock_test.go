package gossip

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state"
)

// skewed is a simulated fleet whose hosts have clocks of their own, which can be
// set.
type skewed struct {
	*simulation
	ahead []atomic.Int64 // of the bubble's time, in nanoseconds
}

func newSkewed(t *testing.T, ahead ...time.Duration) *skewed {
	s := &skewed{&simulation{t: t, network: newNetwork()}, make([]atomic.Int64, len(ahead))}
	for i, d := range ahead {
		s.ahead[i].Store(int64(d))
		s.start(i, ClusterConfig{Clock: func() time.Time { return s.clock(i) }}).SetPeers(simulatedPeers(len(ahead)))
	}
	s.joined()
	time.Sleep(10 * time.Second) // each has answered each
	return s
}

// year is long.
const year = 366 * 24 * time.Hour

// clock gives a host's time of day. A bubble begins in the year 2000.
func (s *skewed) clock(i int) time.Time {
	return time.Now().Add(40*year + time.Duration(s.ahead[i].Load()))
}

// drainTime is short, as hours of a fleet's life take long even in a bubble.
const drainTime = 3 * time.Minute

// drain has a host drain for that time.
func (s *skewed) drain(i int) {
	s.t.Helper()
	err := s.hosts[i].Drain(state.Drain{Target: state.DrainTarget{Node: "x"}, Until: s.clock(i).Add(drainTime)})
	if err != nil {
		s.t.Fatal(err)
	}
}

func drained(n int) func(*Cluster) bool {
	return func(c *Cluster) bool { return len(c.View().Drains) == n }
}

// A drain lasts as long as was asked for, on all hosts, whatever their clocks
// say and whoever set it.
func TestDrainsWithSkewedClocks(t *testing.T) {
	for name, ahead := range map[string][]time.Duration{
		"an hour behind":    {0, 0, -time.Hour},
		"an hour ahead":     {0, 0, time.Hour},
		"far in the past":   {0, 0, -50 * year},
		"far in the future": {0, 0, 50 * year},
		"each another one":  {-2 * year, 0, 3 * time.Hour, 2 * year},
		"two of a fleet":    {0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSkewed(t, ahead...)
				defer s.stop()
				for i := range s.hosts {
					s.drain(i)
					s.until("know of it", 10*time.Second, func(c *Cluster) bool {
						d := c.View().Drains[state.DrainTarget{Node: "x"}]
						return d != nil && d.By == hostName(i)
					})
				}
				for i, c := range s.hosts {
					d := c.View().Drains[state.DrainTarget{Node: "x"}]
					if left := d.Until.Sub(s.clock(i)); left < drainTime-time.Minute || left > drainTime || d.Since.After(s.clock(i)) {
						t.Errorf("%s: from %v until %v, and it's %v", c.cfg.NodeName, d.Since, d.Until, s.clock(i))
					}
				}
				time.Sleep(drainTime - time.Minute)
				s.until("still have it", time.Second, drained(1))
				s.until("have it no more", time.Minute+maxSkew, drained(0))
			})
		})
	}
}

// A clock that is set ends no drain, and makes none last: not for a moment.
func TestDrainsWhileAClockIsSet(t *testing.T) {
	for _, jump := range []time.Duration{24 * time.Hour, -400 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSkewed(t, 0, 0, 0)
				defer s.stop()
				s.drain(1)
				s.until("know of it", time.Minute, drained(1))
				for _, i := range []int{1, 2} {
					s.ahead[i].Store(int64(jump))
					for range 200 {
						time.Sleep(100 * time.Millisecond)
						if slices.ContainsFunc(s.hosts, func(c *Cluster) bool { return !drained(1)(c) }) {
							t.Fatalf("host %d: the drain is gone", i)
						}
					}
					s.until("name it", time.Minute, func(c *Cluster) bool { return c.has(ClockOff, hostName(i)) })
					s.ahead[i].Store(0)
					time.Sleep(10 * time.Second) // so that of three never two are wrong
				}
				time.Sleep(time.Minute)
				s.until("still have it", time.Second, drained(1))
				s.until("have it no more", 2*time.Minute, drained(0))
				s.until("name none", 2*time.Minute, func(c *Cluster) bool { return !c.has(ClockOff, "") })
			})
		})
	}
}

// Half a fleet that boots without a time of day loses no drain as it learns it.
func TestDrainsWhileClocksWereNeverSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSkewed(t, 0, -50*year)
		defer s.stop()
		s.drain(1)
		s.until("know of it", time.Minute, drained(1))
		s.until("name it", time.Minute, func(c *Cluster) bool { return c.has(ClockOff, hostName(1)) })
		s.ahead[1].Store(0)
		time.Sleep(time.Minute)
		s.until("still have it", time.Second, drained(1))
		s.until("have it no more", 2*time.Minute, drained(0))
	})
}

// A host alone that boots with a clock that is far off keeps its drains, and once
// its clock is set it can end those that last too long, for all.
func TestDrainsOfAHostAloneWhoseClockIsSet(t *testing.T) {
	target := state.DrainTarget{Node: "x"}
	for _, ahead := range []time.Duration{-50 * year, 3 * year} {
		now := today.Add(ahead)
		start := func(dir string) *Cluster {
			c, err := NewCluster(ClusterConfig{NodeName: "a", StateDir: dir, Clock: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			c.expire(time.Now())
			return c
		}
		dir := t.TempDir()
		if err := start(dir).Drain(state.Drain{Target: target, Until: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		now = today.Add(min(ahead, 0))
		c := start(dir)
		if !drained(1)(c) {
			t.Fatalf("%v: the drain is lost", ahead)
		}
		if err := c.Undrain(target); err != nil || !drained(0)(c) {
			t.Errorf("%v: undrain: %v", ahead, err)
		}
		taken(t, c.store.drains[target], now)
		if err := c.Drain(state.Drain{Target: target, Since: now.Add(3 * year), Until: now.Add(time.Hour)}); err != nil { // a file's, of before
			t.Errorf("%v: drain again: %v", ahead, err)
		}
		taken(t, c.store.drains[target], now)
	}
}

// taken fails unless others take a drain.
func taken(t *testing.T, d *drain, now time.Time) {
	t.Helper()
	if read, ok := decodeDrain(d.message); !ok || !(drainMap{}).merge(read, now) {
		t.Errorf("others don't take it: %+v", d)
	}
}

// Clocks that are kept are nobody's trouble, nor is a host whose release tells
// no time.
func TestClocksThatAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSkewed(t, 0, time.Second, -2*time.Second)
		defer s.stop()
		for _, c := range s.hosts {
			c.answered(hostName(0), c.store.payload())
			c.answered(hostName(0), appendU64(c.store.payload(), 1))
			if c.has(ClockOff, "") || c.skew != 0 {
				t.Errorf("%s: %+v, skew %v", c.cfg.NodeName, c.View().Troubles, c.skew)
			}
		}
	})
}
