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

// bytesSent sums up what all hosts sent.
func (s *simulation) bytesSent() (bytes, streams uint64) {
	for _, c := range s.hosts {
		if c != nil {
			v := c.View().Stats
			bytes += v.PacketBytesSent + v.StreamBytes
			streams += v.StreamsOpened
		}
	}
	return bytes, streams
}

// simulatedHosts is how many hosts a benchmark simulates.
func simulatedHosts(b *testing.B, usual int) int {
	if n, err := strconv.Atoi(os.Getenv("HOSTS")); err == nil {
		return n
	}
	return usual
}

// BenchmarkFleet reports what a fleet takes; HOSTS=1000 makes it one of 1,000.
func BenchmarkFleet(b *testing.B) {
	n := simulatedHosts(b, 100)
	for range b.N {
		synctest.Test(&testing.T{}, func(*testing.T) { measureFleet(b, n) })
	}
}

func measureFleet(b *testing.B, n int) {
	began := time.Now()
	s := newSimulation(b, n)
	defer s.stop()
	s.joined()
	b.ReportMetric(time.Since(began).Seconds(), "join-s")
	for _, c := range s.hosts {
		c.Publish(nil, 1)
	}
	time.Sleep(2 * time.Minute)
	s.measureIdle(b)

	var took []time.Duration
	for k := range 10 {
		took = append(took, s.flip(k*7%n, k)...)
		time.Sleep(3 * time.Second)
	}
	report(b, "flip", took)
	report(b, "1000-from-one", s.flips(1, 1000))
	time.Sleep(time.Minute)
	report(b, "1000-from-all", s.flips(min(n, 100), 1000/min(n, 100)))
	time.Sleep(time.Minute)

	s.kill(n - 1)
	report(b, "death", s.until("notice a death", time.Minute, func(c *Cluster) bool { return int(c.alive.Load()) == n-1 }))
	s.measureSplit(b)
}

func report(b *testing.B, what string, took []time.Duration) {
	p50, p99, all := spread(took)
	b.ReportMetric(p50.Seconds(), what+"-p50-s")
	b.ReportMetric(p99.Seconds(), what+"-p99-s")
	b.ReportMetric(all.Seconds(), what+"-max-s")
}

func (s *simulation) measureIdle(b *testing.B) {
	const idle = time.Minute
	before, streams := s.bytesSent()
	time.Sleep(idle)
	after, more := s.bytesSent()
	n := float64(len(s.hosts))
	b.ReportMetric(float64(after-before)/idle.Seconds()/n, "idle-B/s")
	b.ReportMetric(float64(more-streams)/idle.Seconds()/n, "idle-streams/s")
}

// measureSplit parts the fleet in two for 75 s, and tells how long after that
// all agree again on members and records.
func (s *simulation) measureSplit(b *testing.B) {
	alive := len(s.hosts) - 1
	half := func(a netip.Addr) bool { return a.As4()[3]%2 == 0 }
	s.network.close(func(from, to netip.Addr, _ bool) bool { return half(from) != half(to) })
	time.Sleep(70 * time.Second)
	s.hosts[0].Publish(down(77), 1)
	s.hosts[1].Publish(down(78), 1)
	time.Sleep(5 * time.Second)
	s.network.close(nil)
	report(b, "heal", s.until("agree again", 10*time.Minute, func(c *Cluster) bool {
		return int(c.alive.Load()) == alive && says(c, hostName(0), scattered(77), state.Down) && says(c, hostName(1), scattered(78), state.Down)
	}))
}
