package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/gossip"
	"pointsman/reconcile/lab"
	"pointsman/state"
)

// fleetOfHomes is a fleet with a backend behind each node, all of one Service without a
// probe: they follow their hosts.
func fleetOfHomes(t *testing.T, nodes int) (*world, []*daemon) {
	t.Helper()
	behind, endpoints := make([]int, nodes), make([]string, nodes)
	for i := range nodes {
		behind[i], endpoints[i] = 1, fmt.Sprintf("10.20.%d.%d1@n%d", i, i+1, i+1)
	}
	w := newWorld(t, behind...)
	w.serve(8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080, endpoints...))
	return w, w.fleet()
}

// TestFleetAgentGone: an agent that is killed or frozen for a while, whose host
// goes on. No connection fails, and the host's backend stays in.
func TestFleetAgentGone(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ stop, resume func(*daemon) }{
		"killed": {func(a *daemon) { a.end(syscall.SIGKILL) }, func(a *daemon) { a.start(); a.healthy() }},
		"frozen": {func(a *daemon) { a.signal(syscall.SIGSTOP) }, func(a *daemon) { a.signal(syscall.SIGCONT) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, agents := fleetOfHomes(t, 3)
			gone, others := agents[1], []*daemon{agents[0], agents[2]}
			streams := []*lab.Stream{
				w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond),
				w.Nodes[2].Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond),
			}
			way.stop(gone)
			t.Logf("the others know after %v", othersSee(t, others, "n2", "dead"))
			in := stays(t, others, "10.20.1.21:8080")
			for streams[0].Now().Total < 600 { // a minute
				in()
			}
			way.resume(gone)
			t.Logf("it's back after %v", othersSee(t, agents, "n2", "alive"))
			if err := streams[0].Wait(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			in()
			for _, s := range streams {
				tally := s.Stop()
				if err := tally.Check(); err != nil || tally.Counts["b2"] == 0 {
					t.Errorf("%v; %s", err, &tally)
				}
			}
		})
	}
}

func (a *daemon) signal(s syscall.Signal) {
	a.t.Helper()
	if err := a.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// othersSee waits until agents have a member in a state.
func othersSee(t *testing.T, agents []*daemon, name, state string) time.Duration {
	t.Helper()
	return within(t, fleetBound, func() error {
		for _, a := range agents {
			_, nodes, err := a.nodes()
			if err == nil && nodes[name].State != state {
				err = fmt.Errorf("%s has %+v", a, nodes[name])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// stays gives a check that an endpoint is in on all agents.
func stays(t *testing.T, agents []*daemon, address string) func() {
	tick := time.NewTicker(50 * time.Millisecond)
	t.Cleanup(tick.Stop)
	return func() {
		t.Helper()
		<-tick.C
		for _, a := range agents {
			if e, err := a.endpoint(address); err != nil || !e.Ready {
				t.Fatalf("%s: %v, %+v", a, err, e)
			}
		}
	}
}

// TestFleetHostDies: all cables of a host are pulled, and its agent is dead. Its
// backends, which nobody probes, are out on the others; they come back with it.
func TestFleetHostDies(t *testing.T) {
	t.Parallel()
	w, agents := fleetOfHomes(t, 4)
	dead, others := agents[3], agents[:3]
	for nic := range 3 {
		w.plug(dead.node, fmt.Sprintf("eth%d", nic), false)
	}
	dead.end(syscall.SIGKILL)
	t.Logf("a dead host's backends are out on every host after %v", until(t, others, "10.20.3.41:8080", false, "down: "))
	for _, a := range others {
		await(t, row{from: a.node, to: "10.96.0.20:80", by: "b1 b2 b3"})
	}
	for nic := range 3 {
		w.plug(dead.node, fmt.Sprintf("eth%d", nic), true)
	}
	t.Logf("its cables are back, and so are the backends after %v", until(t, others, "10.20.3.41:8080", true, ""))
	dead.start()
	dead.healthy()
	t.Logf("it's a member after %v", othersSee(t, agents, "n4", "alive"))
	until(t, agents, "10.20.3.41:8080", true, "")
	w.everywhere(row{to: "10.96.0.20:80", by: "b1 b2 b3 b4"})
}

// plug plugs a host's cable in, at the switch, or pulls it.
func (w *world) plug(h *lab.Host, nic string, in bool) {
	w.t.Helper()
	port := strings.TrimSpace(sh(w.t, h, "cat /sys/class/net/"+nic+"/iflink"))
	ns := strings.TrimSuffix(h.Namespace, h.Name) + "switch"
	to := map[bool]string{true: "up", false: "down"}[in]
	script := fmt.Sprintf(`ip link set "$(ip -o link | sed -n 's/^%s: \([^@]*\)@.*/\1/p')" %s`, port, to)
	if out, err := exec.CommandContext(w.t.Context(), "ip", "netns", "exec", ns, "sh", "-c", script).CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// TestFleetOfTwo: the word of both hosts is needed to take a backend out, as long
// as both are there; when one dies the other goes on by itself.
func TestFleetOfTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 0)
	w.Backends[0].Serve(lab.TCP, 8080)
	b2 := w.Backends[1].Serve(lab.TCP, 8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeTCP), slice("web/v4", http8080, "10.20.0.11", "10.20.0.12"))
	agents := w.fleet()
	judged(t, agents)
	sh(t, w.Nodes[1], "nft 'table inet cut { chain c { type filter hook prerouting priority -400; ip saddr 10.20.0.12 drop; }; }'")
	in := stays(t, agents, "10.20.0.12:8080")
	within(t, fleetBound, func() error {
		in()
		if e, err := agents[0].endpoint("10.20.0.12:8080"); err != nil || len(e.Votes) != 2 || e.Votes[0].Verdict != "up" || e.Votes[1].Verdict != "down" {
			return fmt.Errorf("%v, %+v", err, e)
		}
		return nil
	})
	for range 20 {
		in()
	}
	agents[1].end(syscall.SIGKILL)
	t.Logf("the other host is known to be dead after %v", othersSee(t, agents[:1], "n2", "dead"))
	if answer, _, err := agents[0].nodes(); err != nil || answer.Isolated != "" {
		t.Errorf("%v, %+v", err, answer)
	}
	b2.Close()
	t.Logf("a dead process is out by one host's word after %v", until(t, agents[:1], "10.20.0.12:8080", false, "down: n1: connection refused ("))
	await(t, row{from: w.Nodes[0], to: "10.96.0.20:80", by: "b1"})
}

// TestFleetRestartsKnowWhatIsDown: all agents are restarted at once while a
// backend is down. Nothing is sent to it before it's heard of again.
func TestFleetRestartsKnowWhatIsDown(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(w *world) []*daemon{
		"alone": func(w *world) []*daemon { return []*daemon{w.agent(w.Nodes[0])} },
		"three": func(w *world) []*daemon { return w.fleet() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, 0, 0)
			w.Backends[0].Serve(lab.TCP, 8080)
			w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeTCP), slice("web/v4", http8080, "10.20.0.11", "10.20.0.12"))
			agents := start(w)
			until(t, agents, "10.20.0.12:8080", false, "down: ")
			await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
			for _, a := range agents {
				a.saved()
			}
			s := w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond)
			for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
				for _, a := range agents {
					a.end(signal)
				}
				for _, a := range agents {
					a.start()
				}
				for _, a := range agents {
					a.healthy()
				}
				t.Logf("after %v it's heard of again after %v", signal, until(t, agents, "10.20.0.12:8080", false, "down: n1: "))
			}
			tally := s.Stop()
			if err := tally.Check(); err != nil {
				t.Error(err)
			}
			t.Log(&tally)
		})
	}
}

// saved waits until the agent's file of verdicts has one that is down.
func (a *daemon) saved() {
	a.t.Helper()
	within(a.t, fleetBound, func() error {
		data, err := os.ReadFile(filepath.Join(a.state, "verdicts"))
		if err != nil {
			return err
		}
		all, err := gossip.DecodeVerdicts(data, time.Now())
		for _, j := range all {
			if j.Verdict == state.Down {
				return nil
			}
		}
		return fmt.Errorf("%v: nothing is down in %s", err, a.state)
	})
}
