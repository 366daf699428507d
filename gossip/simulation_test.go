package gossip

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state"
)

// The simulations run in virtual time: how long something takes doesn't depend
// on the machine, though what hosts choose at random makes it vary.

// spread gives how a sorted list of times is spread.
func spread(took []time.Duration) (p50, p99, all time.Duration) {
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
}

func down(keys ...int) []Entry {
	var entries []Entry
	for _, k := range keys {
		entries = append(entries, Entry{Key: scattered(k), Verdict: state.Down, Failure: state.TimedOut})
	}
	return entries
}

// scattered gives keys that are as good as hashes.
func scattered(i int) state.CheckKey {
	return state.CheckKey(sum64([]byte(strconv.Itoa(i))))
}

// flip makes one host call one check down, and gives when each host knew.
func (s *simulation) flip(origin, key int) []time.Duration {
	s.hosts[origin].Publish(down(key), 1)
	return s.until(fmt.Sprintf("hear of flip %d", key), time.Minute, func(c *Cluster) bool {
		return says(c, hostName(origin), scattered(key), state.Down)
	})
}

// flips makes the hosts call checks down at once, each of them the same number,
// and gives when each host knew of all.
func (s *simulation) flips(origins, each int) []time.Duration {
	for o := range origins {
		var keys []int
		for k := range each {
			keys = append(keys, 1000000+o*each+k)
		}
		s.hosts[o].Publish(down(keys...), 1)
	}
	return s.until("hear of all flips", 5*time.Minute, func(c *Cluster) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range origins {
			o := c.store.observers[hostName(i)]
			if o == nil || !o.listsAll(i, each) {
				return false
			}
		}
		return true
	})
}

func (o *observer) listsAll(origin, each int) bool {
	r := o.view()
	for k := range each {
		if e, ok := r.Says(scattered(1000000 + origin*each + k)); !ok || e.Verdict != state.Down {
			return false
		}
	}
	return true
}

func (s *simulation) streams() (n uint64) {
	for _, c := range s.hosts {
		n += c.View().Stats.StreamsOpened
	}
	return n
}

// simulatedHosts is how many hosts a benchmark simulates.
func simulatedHosts(b *testing.B, usual int) int {
	if n, err := strconv.Atoi(os.Getenv("HOSTS")); err == nil {
		return n
	}
	return usual
}

// inFleet simulates a fleet of hosts that know each other and have nothing to
// tell; HOSTS=1000 makes it one of 1,000. A benchmark has no testing.T for the
// bubble; an empty one does.
func inFleet(b *testing.B, usual int, measure func(s *simulation)) {
	n := simulatedHosts(b, usual)
	for range b.N {
		synctest.Test(&testing.T{}, func(*testing.T) {
			s := newSimulation(b, n)
			defer s.stop()
			s.joined()
			for _, c := range s.hosts {
				c.Publish(nil, 1)
			}
			time.Sleep(time.Minute)
			measure(s)
		})
	}
}

// From one host's Publish until each host knows.
func BenchmarkFlip(b *testing.B) {
	inFleet(b, 100, func(s *simulation) {
		var took []time.Duration
		for k := range 10 {
			took = append(took, s.flip(k*7%len(s.hosts), k)...)
			time.Sleep(3 * time.Second)
		}
		report(b, took)
	})
}

// A thousand flips at once, until each host knows all of them.
func BenchmarkFlipsFromOne(b *testing.B) {
	inFleet(b, 200, func(s *simulation) { report(b, s.flips(1, 1000)) })
}

func BenchmarkFlipsFromAHundred(b *testing.B) {
	inFleet(b, 200, func(s *simulation) { report(b, s.flips(100, 10)) })
}

// What hosts send that have nothing to tell.
func BenchmarkIdle(b *testing.B) {
	inFleet(b, 100, func(s *simulation) { s.measureIdle(b) })
}

// From a host's death until each of the others knows.
func BenchmarkDeath(b *testing.B) {
	inFleet(b, 200, func(s *simulation) {
		n := len(s.hosts) - 1
		s.kill(n)
		report(b, s.until("notice a death", time.Minute, func(c *Cluster) bool { return int(c.alive.Load()) == n }))
	})
}

// A fleet that was two for 75 s, until all agree again on members and records.
func BenchmarkSplit(b *testing.B) {
	inFleet(b, 100, func(s *simulation) { report(b, s.split()) })
}

func report(b *testing.B, took []time.Duration) {
	p50, p99, all := spread(took)
	b.ReportMetric(p50.Seconds(), "p50-s")
	b.ReportMetric(p99.Seconds(), "p99-s")
	b.ReportMetric(all.Seconds(), "max-s")
	b.ReportMetric(0, "ns/op") // virtual time is what counts
}

func (s *simulation) measureIdle(b *testing.B) {
	const idle = 3 * time.Minute
	bytes, streams := s.network.bytes.Load(), s.streams()
	time.Sleep(idle)
	perHost := 1 / idle.Seconds() / float64(len(s.hosts))
	b.ReportMetric(float64(s.network.bytes.Load()-bytes)*perHost, "idle-B/s") // encryption adds 29 bytes a packet
	b.ReportMetric(float64(s.streams()-streams)*perHost, "idle-streams/s")
}

// split parts the fleet in two for 75 s, and gives how long after that each host
// took to agree with all others on members and records.
func (s *simulation) split() []time.Duration {
	n := len(s.hosts)
	half := func(a netip.Addr) bool { return a.As4()[3]%2 == 0 }
	s.network.close(func(from, to netip.Addr, _ bool) bool { return half(from) != half(to) })
	time.Sleep(70 * time.Second)
	s.hosts[0].Publish(down(77), 1)
	s.hosts[1].Publish(down(78), 1)
	time.Sleep(5 * time.Second)
	s.network.close(nil)
	return s.until("agree again", 10*time.Minute, func(c *Cluster) bool {
		return int(c.alive.Load()) == n && says(c, hostName(0), scattered(77), state.Down) && says(c, hostName(1), scattered(78), state.Down)
	})
}

// The order of magnitude that BenchmarkFlip and its like report, held loosely:
// gossip brings news within seconds, death is noticed, and halves heal.
func TestSimulatedFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 16)
		defer s.stop()
		s.joined()
		for _, c := range s.hosts {
			c.Publish(nil, 1)
		}
		time.Sleep(30 * time.Second)
		if _, p99, _ := spread(s.flip(0, 1)); p99 > 5*time.Second {
			t.Error("a flip takes", p99)
		}
		if _, p99, _ := spread(s.flips(4, 250)); p99 > 20*time.Second {
			t.Error("a thousand flips take", p99)
		}
		s.kill(15)
		s.until("notice a death", time.Minute, func(c *Cluster) bool { return int(c.alive.Load()) == 15 })
		s.hosts = s.hosts[:15]
		s.split()
	})
}
