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

func (s *skewed) clock(i int) time.Time {
	return time.Now().Add(time.Duration(s.ahead[i].Load()))
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
	year := 366 * 24 * time.Hour
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
