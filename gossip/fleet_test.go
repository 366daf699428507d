package gossip

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state"
)

// What befalls a fleet, in virtual time. The limits are far beyond what it
// takes; how long it takes is BenchmarkFleet's.

func (c *Cluster) has(k TroubleKind, member string) bool {
	return slices.ContainsFunc(c.View().Troubles, func(t Trouble) bool { return t.Kind == k && (member == "" || t.Member == member) })
}

func (c *Cluster) sees(name string, state MemberState) bool {
	return slices.ContainsFunc(c.View().Members, func(m Member) bool { return m.Name == name && m.State == state })
}

func seesAlive(n int) func(c *Cluster) bool {
	return func(c *Cluster) bool { return c.View().Alive() == n }
}

func TestLossDelaysAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 10)
		defer s.stop()
		s.joined()
		s.network.setLoss(0.3)
		for i, c := range s.hosts {
			c.Publish(down(i), 1)
		}
		if err := s.hosts[0].Drain(state.Drain{Target: state.DrainTarget{Node: "n1"}, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		s.until("hold the same", 5*time.Minute, func(c *Cluster) bool {
			for i := range s.hosts {
				if !says(c, hostName(i), scattered(i), state.Down) {
					return false
				}
			}
			return len(c.View().Drains) == 1
		})
	})
}

// C74: two halves that were never one.
func TestStartedInTwoHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		s.network.close(func(from, to netip.Addr, _ bool) bool {
			return (from == hostAddress(0).Addr()) != (to == hostAddress(0).Addr())
		})
		for i := range 3 {
			s.start(i, ClusterConfig{}).SetPeers(simulatedPeers(3))
		}
		time.Sleep(time.Minute)
		if !seesAlive(1)(s.hosts[0]) || !seesAlive(2)(s.hosts[1]) || !slices.Equal(s.hosts[0].View().Absent, []string{hostName(1), hostName(2)}) {
			t.Error("the halves aren't halves")
		}
		s.network.close(nil)
		s.until("are one", time.Minute, seesAlive(3))
	})
}

// C73: a machine is set up anew, under its name and another address.
func TestReinstalledElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 4)
		defer s.stop()
		s.joined()
		for range 3 {
			s.hosts[3].Publish(down(1), 1)
			s.hosts[3].Publish(down(2), 1)
			time.Sleep(time.Second)
		}
		s.kill(3)
		s.until("notice the death", time.Minute, seesAlive(3))
		moved := hostAddress(300)
		peers := simulatedPeers(4)
		peers[3].Addresses = []netip.Addr{moved.Addr()}
		for _, c := range s.hosts[:3] {
			c.SetPeers(peers)
		}
		again := s.start(3, ClusterConfig{Bind: moved})
		again.SetPeers(peers)
		again.Publish(down(5), 1)
		s.until("take it back", 2*time.Minute, seesAlive(4))
		s.until("hear it", time.Minute, func(c *Cluster) bool { return says(c, hostName(3), scattered(5), state.Down) })
	})
}

// Two live machines with one name: neither evicts the other, and both are told of.
func TestNameConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		for i := range 3 {
			s.start(i, ClusterConfig{Join: []string{hostAddress(0).String()}})
		}
		s.joined()
		time.Sleep(2 * time.Minute)
		s.start(3, ClusterConfig{NodeName: hostName(1), Join: []string{hostAddress(0).String()}})
		for i, c := range s.hosts {
			c.Publish(down(i), 1)
		}
		s.until("tell of it", time.Minute, func(c *Cluster) bool { return c == s.hosts[2] || c.has(NameConflict, hostName(1)) })
		if !s.hosts[0].sees(hostName(1), Alive) {
			t.Error("the first one of the name is gone")
		}
	})
}

func TestOnlyPeersAreMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		defer s.stop()
		s.joined()
		s.start(2, ClusterConfig{Join: []string{hostAddress(0).String()}})
		time.Sleep(time.Minute)
		if !seesAlive(2)(s.hosts[0]) || !s.hosts[0].has(NotAdmitted, hostName(2)) {
			t.Errorf("%+v", s.hosts[0].View())
		}
		for _, c := range s.hosts {
			c.SetPeers(simulatedPeers(3))
		}
		s.until("admit it", time.Minute, seesAlive(3))
		s.hosts[2].Publish(down(1), 1)
		s.until("hear it", time.Minute, func(c *Cluster) bool { return says(c, hostName(2), scattered(1), state.Down) })
		s.hosts[0].SetPeers(simulatedPeers(2))
		if v := s.hosts[0].View(); v.Alive() != 2 || v.Records[hostName(2)] != nil {
			t.Error("it is still there")
		}
	})
}

// C76: the right way to change the key, and the wrong one.
func TestKeyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		dir := t.TempDir()
		write := func(i int, keys ...[]byte) {
			if err := os.WriteFile(filepath.Join(dir, hostName(i)), []byte(keyringText(keys...)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			write(i, key(1))
			s.start(i, ClusterConfig{KeyringFile: filepath.Join(dir, hostName(i))}).SetPeers(simulatedPeers(3))
		}
		s.joined()
		for _, ring := range [][][]byte{{key(1), key(2)}, {key(2), key(1)}, {key(2)}} {
			for i := range 3 {
				write(i, ring...)
				time.Sleep(10 * time.Second)
				if !seesAlive(3)(s.hosts[0]) {
					t.Fatalf("%+v after a step", s.hosts[0].View().Members)
				}
			}
		}
		write(1, key(3))
		s.until("lose the one with another key", 2*time.Minute, func(c *Cluster) bool { return c == s.hosts[1] || c.has(CannotDecrypt, hostName(1)) })
		write(1)
		time.Sleep(10 * time.Second)
		if !s.hosts[1].has(BadKeyring, "") {
			t.Error("an empty keyring is no trouble")
		}
		write(1, key(2))
		s.until("are one again", 2*time.Minute, seesAlive(3))
	})
}

// A host that missed that another is alive finds out from the hash of members,
// long before memberlist's own push/pull.
func TestLostAliveMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 6)
		defer s.stop()
		s.joined()
		time.Sleep(time.Minute)
		before := s.hosts[0].View().Stats.Rejoins
		c := s.hosts[0]
		c.mu.Lock()
		c.members.sum ^= 1 // as if it had others than those
		c.mu.Unlock()
		time.Sleep(20 * time.Second)
		if v := c.View().Stats; v.MemberSyncs == 0 || v.MemberSyncs > 3 || v.Rejoins != before {
			t.Errorf("%+v", v)
		}
		time.Sleep(4 * time.Minute)
		if v := c.View().Stats; v.MemberSyncs < 4 || v.MemberSyncs > 8 {
			t.Errorf("%+v after a while", v)
		}
	})
}

// C77: packets don't get from one host to another; streams do.
func TestPacketsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 3)
		defer s.stop()
		s.joined()
		to := hostAddress(1).Addr()
		s.network.close(func(_, t netip.Addr, stream bool) bool { return t == to && !stream })
		s.hosts[0].Publish(down(1), 1)
		s.until("tell of it", 2*time.Minute, func(c *Cluster) bool { return c == s.hosts[1] || c.has(UDPBlocked, hostName(1)) })
		if !seesAlive(3)(s.hosts[0]) {
			t.Error("it is dead to the others")
		}
		s.until("know all the same", 5*time.Minute, func(c *Cluster) bool { return says(c, hostName(0), scattered(1), state.Down) })
	})
}

// C77: all that one host sends another is lost; a third one reaches both.
func TestOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 4)
		defer s.stop()
		s.joined()
		s.network.close(func(from, to netip.Addr, _ bool) bool {
			return from == hostAddress(0).Addr() && to == hostAddress(1).Addr()
		})
		for range 60 {
			time.Sleep(time.Second)
			for _, c := range s.hosts {
				if !seesAlive(4)(c) {
					t.Fatalf("%+v", c.View())
				}
			}
		}
		if !s.hosts[0].has(NoAnswer, hostName(1)) || !s.hosts[1].has(NoAnswer, hostName(0)) || s.hosts[2].has(NoAnswer, "") {
			t.Errorf("%+v and %+v", s.hosts[0].View().Troubles, s.hosts[1].View().Troubles)
		}
		s.network.close(nil)
		s.until("have no trouble", 5*time.Minute, func(c *Cluster) bool { return len(c.View().Troubles) == 0 })
	})
}

func TestDrainsOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 3)
		defer s.stop()
		s.joined()
		target := state.DrainTarget{Service: state.ObjectName{Namespace: "shop", Name: "web"}}
		drained := func(n int) func(*Cluster) bool {
			return func(c *Cluster) bool { return len(c.View().Drains) == n }
		}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(s.hosts[0].Drain(state.Drain{Target: target, Reason: strings.Repeat("x", 1000), Until: time.Now().Add(time.Hour)}))
		s.until("know of it", time.Minute, drained(1))
		if d := s.hosts[2].View().Drains[target]; d.By != hostName(0) || len(d.Reason) != maxReason {
			t.Errorf("%+v", d)
		}
		must(s.hosts[2].Undrain(target))
		must(s.hosts[2].Undrain(target))
		s.until("know it's over", time.Minute, drained(0))
		must(s.hosts[1].Drain(state.Drain{Target: target, Until: time.Now().Add(time.Minute)}))
		s.until("know of the next", 30*time.Second, drained(1))
		time.Sleep(time.Minute)
		s.until("know it expired", time.Second, drained(0))
	})
}

// A host that drained itself comes back: its drain holds until it has booted.
func TestDrainSelfAndReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		dir := t.TempDir()
		for i := range 3 {
			s.start(i, ClusterConfig{BootID: "one", StateDir: filepath.Join(dir)}).SetPeers(simulatedPeers(3))
			dir = t.TempDir()
		}
		s.joined()
		if err := s.hosts[2].DrainSelf(state.Drain{Reason: "shutdown", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		drained := func(n int) func(*Cluster) bool {
			return func(c *Cluster) bool { return len(c.View().Drains) == n }
		}
		s.until("know of it", time.Minute, drained(1))
		for boot, n := range map[string]int{"one": 1} {
			s.kill(2)
			s.start(2, ClusterConfig{BootID: boot}).SetPeers(simulatedPeers(3))
			time.Sleep(time.Minute)
			s.until("still know of it", time.Minute, drained(n))
		}
		s.kill(2)
		s.start(2, ClusterConfig{BootID: "two"}).SetPeers(simulatedPeers(3))
		s.until("know it's over", 2*time.Minute, drained(0))
	})
}

// An operator's drain of a host outlasts its shutdowns and what ends theirs; a
// shutdown's can be ended without a boot.
func TestDrainSelfBesideDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		dir, here := t.TempDir(), state.DrainTarget{Node: hostName(0)}
		start := func(boot string) *Cluster { return s.start(0, ClusterConfig{BootID: boot, StateDir: dir}) }
		is := func(when string, c *Cluster, reason string) {
			t.Helper()
			got := ""
			if d := c.View().Drains[here]; d != nil {
				got = d.Reason
			}
			if got != reason {
				t.Errorf("%s: drained for %q, want %q", when, got, reason)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		hour := func(reason string) state.Drain {
			return state.Drain{Target: here, Reason: reason, Until: time.Now().Add(time.Hour)}
		}
		c := start("one")
		must(c.DrainSelf(hour("shutdown")))
		is("shutdown", c, "shutdown")
		must(c.UndrainSelf())
		is("the unit starts", c, "")
		must(c.DrainSelf(hour("shutdown")))
		must(c.Drain(hour("disks")))
		is("an operator comes", c, "disks")
		must(c.DrainSelf(hour("shutdown")))
		is("another shutdown", c, "disks")
		s.kill(0)
		c = start("two")
		time.Sleep(time.Minute)
		must(c.UndrainSelf())
		is("booted", c, "disks")
		must(c.Undrain(here))
		is("the operator is done", c, "")
	})
}

// What a host said stands until it says something else, whether or not it kept
// its state dir.
func TestRestart(t *testing.T) {
	for name, dir := range map[string]string{"with state": t.TempDir(), "without": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, 3)
				defer s.stop()
				restart := func() *Cluster {
					s.kill(2)
					c := s.start(2, ClusterConfig{StateDir: dir})
					c.SetPeers(simulatedPeers(3))
					return c
				}
				s.joined()
				restart().Publish(down(1), 1)
				hear := func(key int) {
					t.Helper()
					s.until("hear it", time.Minute, func(c *Cluster) bool { return says(c, hostName(2), scattered(key), state.Down) })
				}
				hear(1)
				c := restart()
				time.Sleep(10 * time.Second)
				hear(1)
				c.SetMeta(Meta{Release: "v2"})
				c.Publish(down(2), 1)
				hear(2)
				if v := s.hosts[0].View(); v.Records[hostName(2)].Incarnation < 2 || v.Members[2].Meta.Release != "v2" {
					t.Errorf("%+v, %+v", v.Records[hostName(2)], v.Members[2])
				}
			})
		})
	}
}

// A record that didn't change is the same pointer, so that nothing is judged
// twice.
func TestViewSharesRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 2)
		defer s.stop()
		s.joined()
		s.hosts[0].Publish(down(1), 1)
		s.until("hear it", time.Minute, func(c *Cluster) bool { return says(c, hostName(0), scattered(1), state.Down) })
		before := s.hosts[1].View()
		s.hosts[1].Publish(down(2), 1)
		synctest.Wait()
		after := s.hosts[1].View()
		if before.Records[hostName(0)] != after.Records[hostName(0)] || after.Records[hostName(1)] == nil || before.Records[hostName(1)] != nil {
			t.Error("not as it should be")
		}
	})
}

// An address that isn't there yet keeps nobody from starting.
func TestAddressComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := goodConfig()
		cfg.Bind, cfg.Insecure = netip.MustParseAddrPort("192.0.2.1:7946"), true
		c, err := NewCluster(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		c.Publish(down(1), 1)
		time.Sleep(time.Minute)
		if !c.has(CannotListen, "") || !says(c, "n1", scattered(1), state.Down) {
			t.Errorf("%+v", c.View())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The same over real sockets, encrypted.
func TestLoopback(t *testing.T) {
	ring := filepath.Join(t.TempDir(), "keyring")
	if err := os.WriteFile(ring, []byte(keyringText(key(1))), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.2:0") // only to find a free port
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var all []*Cluster
	for i, name := range []string{"n1", "n2"} {
		bind := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)}), port)
		c, err := NewCluster(ClusterConfig{NodeName: name, Bind: bind, KeyringFile: ring, Join: []string{"127.0.0.1"}, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		all = append(all, c)
	}
	all[0].Publish(down(1), 1)
	limit := time.After(time.Minute)
	for !says(all[1], "n1", scattered(1), state.Down) || all[1].View().Alive() != 2 {
		select {
		case <-all[1].Changed():
		case <-limit:
			t.Fatalf("%+v", all[1].View())
		}
	}
}
