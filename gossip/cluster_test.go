package gossip

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state"
)

// simulation is a fleet in memory, to be made in a synctest bubble.
type simulation struct {
	t       testing.TB
	network *network
	hosts   []*Cluster
	stops   []context.CancelFunc
	running sync.WaitGroup
}

func hostName(i int) string { return fmt.Sprintf("n%03d", i) }

func hostAddress(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), DefaultPort)
}

func simulatedPeers(n int) []Peer {
	var peers []Peer
	for i := range n {
		peers = append(peers, Peer{hostName(i), []netip.Addr{hostAddress(i).Addr()}})
	}
	return peers
}

// newSimulation starts n hosts that know each other from manifests.
func newSimulation(t testing.TB, n int) *simulation {
	s := &simulation{t: t, network: newNetwork()}
	for i := range n {
		s.start(i, ClusterConfig{})
		time.Sleep(rand.N(2 * gossipInterval / 3)) // else all tick together, and each hop takes a whole interval
	}
	for _, c := range s.hosts {
		c.SetPeers(simulatedPeers(n))
	}
	return s
}

// start runs a host; what's left out of the configuration is filled in.
func (s *simulation) start(i int, cfg ClusterConfig) *Cluster {
	cfg.NodeName = cmp.Or(cfg.NodeName, hostName(i))
	cfg.Bind = cmp.Or(cfg.Bind, hostAddress(i))
	cfg.Insecure = cfg.KeyringFile == ""
	if cfg.Transport == nil {
		cfg.Transport = s.network.host(cfg.Bind)
	}
	c, err := NewCluster(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.running.Go(func() {
		if err := c.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	for len(s.hosts) <= i {
		s.hosts, s.stops = append(s.hosts, nil), append(s.stops, nil)
	}
	s.hosts[i], s.stops[i] = c, stop
	return c
}

// kill stops a host without a word.
func (s *simulation) kill(i int) {
	s.stops[i]()
	s.hosts[i] = nil
}

func (s *simulation) stop() {
	for _, stop := range s.stops {
		stop()
	}
	s.running.Wait()
	time.Sleep(time.Minute) // a bubble's time stops with its first goroutine: let memberlist's time-outs end
}

// until waits until all hosts that run satisfy ok, and gives how long each took
// at most. It fails after limit.
func (s *simulation) until(what string, limit time.Duration, ok func(c *Cluster) bool) []time.Duration {
	s.t.Helper()
	began := time.Now()
	var took []time.Duration
	open := map[*Cluster]bool{}
	for _, c := range s.hosts {
		if c != nil {
			open[c] = true
		}
	}
	for len(open) > 0 {
		for c := range open {
			if ok(c) {
				delete(open, c)
				took = append(took, time.Since(began))
			}
		}
		if time.Since(began) > limit {
			s.t.Fatalf("%s: %d of %d hosts don't after %v", what, len(open), len(s.hosts), limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return took
}

func (s *simulation) joined() {
	s.t.Helper()
	n := len(s.hosts)
	s.until("know all members", 5*time.Minute, func(c *Cluster) bool { return int(c.alive.Load()) == n })
}

// says tells whether c knows what an observer says about a key.
func says(c *Cluster, observer string, k state.CheckKey, v state.Verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.store.observers[observer]
	if o == nil {
		return false
	}
	e, ok := o.view().Says(k)
	return ok && e.Verdict == v
}

func TestRecordReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 12)
		defer s.stop()
		s.joined()
		s.hosts[3].Publish([]Entry{{Key: 7, Verdict: state.Down, Failure: state.Refused}}, 99)
		s.until("hear of 7", time.Minute, func(c *Cluster) bool { return says(c, hostName(3), 7, state.Down) })
		s.until("have the record", time.Minute, func(c *Cluster) bool {
			r := c.View().Records[hostName(3)]
			return r.Complete && r.Generation == 99 && r.Incarnation == 1
		})
		s.hosts[3].Publish(nil, 99)
		s.until("hear that 7 is up", time.Minute, func(c *Cluster) bool { return says(c, hostName(3), 7, state.Up) })
	})
}
