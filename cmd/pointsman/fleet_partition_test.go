package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// deaf has a host not hear some others on the network that they share, or not
// what matches only, until the next call. What they forward isn't heard either.
func (w *world) deaf(h *lab.Host, match string, to ...*lab.Host) {
	w.t.Helper()
	script := "table inet cut\ndelete table inet cut\n"
	if len(to) > 0 {
		var macs []string
		for _, o := range to {
			macs = append(macs, strings.TrimSpace(sh(w.t, o, "cat /sys/class/net/eth0/address")))
		}
		script += fmt.Sprintf("table inet cut { chain c { type filter hook prerouting priority -400; iifname eth0 ether saddr { %s } %s drop; }; }", strings.Join(macs, ", "), match)
	}
	sh(w.t, h, "nft '"+script+"'")
}

// split cuts the nodes in two both ways, the first n from the others, and heals
// again where n is 0.
func (w *world) split(n int) {
	for i, h := range w.Nodes {
		switch {
		case n == 0:
			w.deaf(h, "")
		case i < n:
			w.deaf(h, "", w.Nodes[n:]...)
		default:
			w.deaf(h, "", w.Nodes[:n]...)
		}
	}
}

// TestFleetSplit: two hosts of five are cut off. They say so, and go on with
// what they reach, as do the three; all is well again when that is over.
func TestFleetSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, 0, 1, 0)
	w.serve(8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeTCP), slice("web/v4", http8080, "10.20.0.11", "10.20.3.41"))
	agents := w.fleet()
	few, most := agents[:2], agents[2:]
	judged(t, agents)
	w.everywhere(row{to: "10.96.0.20:80", by: "b1 b2"})
	w.split(2)
	t.Logf("the two know that they are cut off after %v", isolated(t, few, true))
	t.Logf("the two have the others' backend out after %v", until(t, few, "10.20.3.41:8080", false, "down: "))
	t.Logf("the three have the two's backend out after %v", until(t, most, "10.20.0.11:8080", false, "down: "))
	for i, n := range w.Nodes {
		await(t, row{from: n, to: "10.96.0.20:80", by: map[bool]string{true: "b1", false: "b2"}[i < 2]})
	}
	isolated(t, most, false)
	w.split(0)
	healed := time.Now()
	isolated(t, agents, false)
	t.Logf("nobody is cut off after %v", time.Since(healed))
	for _, a := range agents {
		a.sees(5)
	}
	t.Logf("all see all after %v", time.Since(healed))
	for _, e := range []string{"10.20.0.11:8080", "10.20.3.41:8080"} {
		until(t, agents, e, true, "")
	}
	t.Logf("both backends are in on every host after %v", time.Since(healed))
	w.everywhere(row{to: "10.96.0.20:80", by: "b1 b2"})
	for _, a := range agents {
		if _, nodes, err := a.nodes(); err != nil || nodes["n1"].Isolated || nodes["n2"].Isolated {
			t.Errorf("%s: %v, %+v", a, err, nodes)
		}
	}
}

// isolated waits until agents say that they are cut off, or that they aren't.
func isolated(t *testing.T, agents []*daemon, want bool) time.Duration {
	t.Helper()
	return within(t, fleetBound, func() error {
		for _, a := range agents {
			answer, nodes, err := a.nodes()
			if err != nil {
				return err
			}
			if is := answer.Isolated != ""; is != want || nodes[answer.Self].Isolated != want {
				return fmt.Errorf("%s: %+v", a, answer)
			}
		}
		return nil
	})
}

// sightings tells since when agents see each other as they do.
func sightings(agents []*daemon) (string, error) {
	var lines []string
	for _, a := range agents {
		_, nodes, err := a.nodes()
		if err != nil {
			return "", err
		}
		for _, other := range agents {
			n := nodes[other.node.Name]
			lines = append(lines, fmt.Sprintf("%s has %s %s since %v", a, n.Name, n.State, n.Since))
		}
	}
	return strings.Join(lines, "\n"), nil
}

// nobodyMoves gives a check that no agent has lost sight of another, even if it
// came back: that would be seen by the time since when it's there. An answer that
// is missed is no more than a suspicion, which a busy machine may cause.
func nobodyMoves(t *testing.T, agents []*daemon) func() {
	t.Helper()
	before := ""
	eventually(t, func() (err error) {
		if before, err = sightings(agents); err == nil && strings.Contains(before, "suspect") {
			err = errors.New(before)
		}
		return err
	})
	return func() {
		t.Helper()
		eventually(t, func() error {
			if after, err := sightings(agents); err != nil || after != before {
				return fmt.Errorf("%v; the members were\n%s\nand are\n%s", err, before, after)
			}
			return nil
		})
	}
}

// TestC77HalfOpenPaths: what some pairs of hosts can't hear of each other is
// named, and takes neither a member nor an endpoint out.
func TestC77HalfOpenPaths(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]struct {
		match string
		from  []int               // whom n2 doesn't hear
		named map[string][]string // by whom: the trouble, and with whom
	}{
		"UDP":       {"udp dport 7946", []int{0, 2}, map[string][]string{"n1": {"udp blocked", "n2"}, "n2": {"udp blocked", "n1"}, "n3": {"udp blocked", "n2"}}},
		"large UDP": {"udp dport 7946 udp length > 1200", []int{0, 2}, map[string][]string{"n1": {"large udp blocked", "n2"}}},
		"one way":   {"", []int{0}, map[string][]string{"n1": {"no answer", "n2"}, "n2": {"no answer", "n1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, agents := fleetOfHomes(t, 3)
			w.write("probed.yaml", service("probed", "clusterIP: 10.96.0.21, "+http80, probeTCP),
				slice("probed/v4", http8080, "10.20.0.11@n1", "10.20.1.21@n2", "10.20.2.31@n3"))
			w.everywhere(row{to: "10.96.0.21:80", by: "b1 b2 b3"})
			judged(t, agents)
			var unheard []*lab.Host
			for _, i := range path.from {
				unheard = append(unheard, w.Nodes[i])
			}
			in, unmoved := stays(t, agents, "10.20.1.21:8080"), nobodyMoves(t, agents)
			w.deaf(w.Nodes[1], path.match, unheard...)
			cut := time.Now()
			for _, a := range agents {
				if want := path.named[a.node.Name]; want != nil {
					within(t, fleetBound, func() error { in(); return a.troubled(want[0], want[1:]...) })
					t.Logf("%s names it after %v", a, time.Since(cut))
				}
			}
			for range 100 {
				in()
			}
			unmoved()
		})
	}
}

// troubled says what's missing of a trouble that the agent should name, with one
// of some members.
func (a *daemon) troubled(kind string, members ...string) error {
	answer, _, err := a.nodes()
	if err != nil {
		return err
	}
	for _, tr := range answer.Troubles {
		if tr.Kind == kind && slices.Contains(members, tr.Member) {
			if tr.Since.IsZero() {
				return fmt.Errorf("since when? %+v", tr)
			}
			return nil
		}
	}
	return fmt.Errorf("%s has no %q with %s: %+v", a, kind, members, answer.Troubles)
}

// TestC74StartedInHalves: hosts that can't reach each other when they start are
// one fleet soon after they can.
func TestC74StartedInHalves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, 0, 0)
	w.split(1)
	w.nodesManifest(w.Nodes...)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080))
	ring := w.keyring("keyring", newKey(t))
	var agents []*daemon
	for _, n := range w.Nodes {
		agents = append(agents, w.begin(n, gossiping(n, ring)...))
	}
	for i, a := range agents {
		a.healthy()
		a.sees([]int{1, 2, 2}[i])
	}
	isolated(t, agents[:1], true)
	w.split(0)
	healed := time.Now()
	for _, a := range agents {
		a.sees(3)
	}
	isolated(t, agents, false)
	t.Logf("one fleet after %v", time.Since(healed))
}

// TestC73ReinstalledHost: a host comes back under its name with another address
// and nothing else that it had.
func TestC73ReinstalledHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, 0, 0)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080))
	agents := w.fleet()
	n3 := w.Nodes[2]
	agents[2].end(syscall.SIGKILL)
	n3.IP("addr del 192.0.2.13/24 dev eth0", "addr add 192.0.2.23/24 dev eth0")
	at := netip.MustParseAddr("192.0.2.23")
	w.write("nodes.yaml", nodeManifest("n1", w.Nodes[0].Addr4()), nodeManifest("n2", w.Nodes[1].Addr4()), nodeManifest("n3", at))
	began := time.Now()
	fresh := w.daemon(n3, "n3", filepath.Join(w.dir, "fresh"), "--gossip-bind", at.String(), "--gossip-keyring", filepath.Join(w.dir, "keyring"))
	fresh.start()
	fresh.healthy()
	for _, a := range []*daemon{agents[0], agents[1], fresh} {
		within(t, 2*fleetBound, func() error {
			_, nodes, err := a.nodes()
			if n := nodes["n3"]; err == nil && (n.State != "alive" || n.Address != "192.0.2.23:7946" || len(nodes) != 3) {
				err = fmt.Errorf("%s has %+v", a, nodes)
			}
			return err
		})
	}
	t.Logf("it's a member again after %v", time.Since(began))
}

// TestC73TwoOfOneName: a host is given the name of another, which lives. Neither
// takes the other's place. Both say so, if the Node manifest has both addresses;
// else it's the intruder, and those that don't let it in.
func TestC73TwoOfOneName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		intruder string // as the Node manifest of n2 has it
		troubles [3]string
	}{
		"in the manifest":     {"192.0.2.13", [3]string{"", "name conflict", "name conflict"}},
		"not in the manifest": {"192.0.2.99", [3]string{"not admitted", "", "name conflict"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0, 0, 0)
			w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080))
			agents := w.fleet(w.Nodes[:2]...)
			w.write("nodes.yaml", nodeManifest("n1", w.Nodes[0].Addr4()), nodeManifest("n2", w.Nodes[1].Addr4(), netip.MustParseAddr(c.intruder)))
			double := w.daemon(w.Nodes[2], "n2", filepath.Join(w.dir, "double"), gossiping(w.Nodes[2], filepath.Join(w.dir, "keyring"))...)
			double.start()
			double.healthy()
			for i, a := range append(agents, double) {
				if c.troubles[i] != "" {
					within(t, fleetBound, func() error { return a.troubled(c.troubles[i], "n2") })
				}
			}
			_, nodes, err := agents[0].nodes()
			if n := nodes["n2"]; err != nil || n.State != "alive" || n.Address != "192.0.2.12:7946" {
				t.Errorf("%v; n1 has %+v", err, n)
			}
		})
	}
}
