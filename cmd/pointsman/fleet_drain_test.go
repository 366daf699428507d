package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// drains waits until every agent has just these drains.
func drains(t *testing.T, agents []*daemon, want ...string) time.Duration {
	t.Helper()
	return within(t, fleetBound, func() error {
		for _, a := range agents {
			var answer drainsAnswer
			if err := a.ask(&answer, "drains"); err != nil {
				return err
			}
			var got []string
			for _, d := range answer.Drains {
				got = append(got, d.Target+" by "+d.By)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s has drained %q, not %q", a, got, want)
			}
		}
		return nil
	})
}

// open opens a connection from the client to an address that a backend answers.
func (w *world) open(to, backend string) *lab.Conn {
	w.t.Helper()
	for range many {
		c := must[*lab.Conn](w.t)(w.Client.Dial(w.t.Context(), lab.TCP, addrPort(to), 0))
		if c.Ask("hello", deadline).Backend == backend {
			w.t.Cleanup(func() { _ = c.Close() })
			return c
		}
		_ = c.Close()
	}
	w.t.Fatalf("%d connections to %s, and none by %s", many, to, backend)
	return nil
}

// TestFleetDrainEndpoint: an endpoint is drained on one host, and gets no new
// connections by any; the open ones go on. Another host ends that.
func TestFleetDrainEndpoint(t *testing.T) {
	t.Parallel()
	w, agents := fleetOfHomes(t, 3)
	conn := w.open("10.96.0.20:80", "b2")
	for _, target := range []string{"10.20.1.21:8080", "10.20.1.21"} {
		agents[2].do("drain", "endpoint", target, "--reason", "disk")
		t.Logf("%s is out on every host after %v", target, until(t, agents, "10.20.1.21:8080", false, "drained by n3 until"))
		e := must[endpointAnswer](t)(agents[1].endpoint("10.20.1.21:8080"))
		if !e.Serving || !e.Terminating || !strings.HasSuffix(e.Why, ": disk") {
			t.Errorf("n2 has %+v", e)
		}
		if n := agents[1].metric("pointsman_drains"); n != 1 {
			t.Errorf("n2 counts %v drains", n)
		}
		w.everywhere(row{to: "10.96.0.20:80", by: "b1 b3"})
		if r := conn.Ask("still", deadline); r.Backend != "b2" {
			t.Errorf("the open connection: %s", r)
		}
		agents[0].explains("10.96.0.20:80 --from "+w.Client.Addr4().String(), "served by 2 of 3 endpoints", "is draining (endpoint "+target+", by n3 until ", ": disk)",
			"10.20.1.21:8080 1 open 0 closing gets no new ones; stays until it ends", "to 10.20.1.21:8080, as ")
		agents[0].do("undrain", "endpoint", target)
		t.Logf("back on every host after %v", until(t, agents, "10.20.1.21:8080", true, ""))
		w.everywhere(row{to: "10.96.0.20:80", by: "b1 b2 b3"})
	}
	agents[0].do("drain", "endpoint", "10.20.1.21:8080", "--for", "3s")
	until(t, agents, "10.20.1.21:8080", false, "drained by n1")
	t.Logf("it ended by itself after %v", until(t, agents, "10.20.1.21:8080", true, ""))
	drains(t, agents)
}

// TestFleetDrainAll: what is drained goes on serving where nothing else is left:
// a Service as a whole, and the last of its endpoints.
func TestFleetDrainAll(t *testing.T) {
	t.Parallel()
	w, agents := fleetOfHomes(t, 2)
	w.write("one.yaml", service("one", "clusterIP: 10.96.0.21, "+http80), slice("one/v4", http8080, "10.20.1.21"))
	await(t, row{from: w.Client, to: "10.96.0.21:80", by: "b2"})
	s := w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.21:80"), tenPerSecond)
	agents[0].do("drain", "service", "default/web")
	agents[1].do("drain", "endpoint", "10.20.1.21")
	t.Logf("known to all after %v", drains(t, agents, "endpoint 10.20.1.21 by n2", "service default/web by n1"))
	for _, e := range []string{"10.20.0.11:8080", "10.20.1.21:8080"} {
		until(t, agents, e, false, "drained by n")
	}
	w.everywhere(row{to: "10.96.0.20:80", by: "b1 b2"})
	w.everywhere(row{to: "10.96.0.21:80", by: "b2"})
	if out := sh(t, w.Nodes[0], "pointsman get drains --socket "+agents[0].socket()); !strings.Contains(out, "service default/web") {
		t.Error(out)
	}
	agents[1].do("undrain", "service", "default/web")
	agents[0].do("undrain", "endpoint", "10.20.1.21")
	drains(t, agents)
	tally := s.Stop()
	if err := tally.Check(); err != nil {
		t.Error(err)
	}
}

// ready waits until /healthz of each agent answers with a code.
func ready(t *testing.T, agents []*daemon, codes ...int) {
	t.Helper()
	within(t, fleetBound, func() error {
		for i, a := range agents {
			if code, h, err := a.health(); err != nil || code != codes[i] || h.Drained != (codes[i] != http.StatusOK) {
				return fmt.Errorf("%s: %v, %d %+v", a, err, code, h)
			}
		}
		return nil
	})
}

// TestFleetDrainNode: a node is drained from another, which balancers see on it
// alone. All agents forget nothing when they are restarted at once.
func TestFleetDrainNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1, 1)
	w.serve(8080)
	w.write("web.yaml", localLB("web", "30080", "30900", "10.20.0.11@n1", "10.20.1.21@n2", "10.20.2.31@n3")...)
	agents := w.fleet()
	const ok, no = http.StatusOK, http.StatusServiceUnavailable
	balancers := func(codes ...int) {
		t.Helper()
		for i, n := range w.Nodes {
			within(t, fleetBound, func() error {
				if code, _, err := httpGet(w.Client, fmt.Sprintf("http://%s:30900/healthz", n.Addr4())); err != nil || code != codes[i] {
					return fmt.Errorf("%s: %v, %d", n, err, code)
				}
				return nil
			})
		}
	}
	balancers(ok, ok, ok)
	agents[0].do("drain", "node", "n2")
	t.Logf("its endpoint is out on every host after %v", until(t, agents, "10.20.1.21:8080", false, "drained by n1"))
	balancers(ok, no, ok)
	ready(t, agents, ok, no, ok)
	for _, a := range agents {
		a.end(syscall.SIGTERM)
	}
	for _, a := range agents {
		a.start()
	}
	ready(t, agents, ok, no, ok)
	t.Logf("after the restart all know it within %v", drains(t, agents, "node n2 by n1"))
	balancers(ok, no, ok)
	if _, nodes, err := agents[2].nodes(); err != nil || !nodes["n2"].Drained || nodes["n1"].Drained {
		t.Errorf("%v, %+v", err, nodes)
	}
	agents[2].do("undrain", "node", "n2")
	drains(t, agents)
	balancers(ok, ok, ok)
	ready(t, agents, ok, ok, ok)
}

// TestFleetDrainUntilBoot: the drain that a shutdown sets is over when the
// agent runs after the next boot, and not when it is but restarted.
func TestFleetDrainUntilBoot(t *testing.T) {
	t.Parallel()
	w, agents := fleetOfHomes(t, 2)
	rest, n2 := agents[:1], agents[1]
	n2.do("drain", "node", "--until-boot", "--reason", "shutdown")
	until(t, agents, "10.20.1.21:8080", false, "drained by n2")
	n2.end(syscall.SIGTERM)
	n2.start()
	ready(t, agents, http.StatusOK, http.StatusServiceUnavailable)
	n2.end(syscall.SIGTERM)
	drains(t, rest, "node n2 by n2")
	boot := filepath.Join(w.dir, "boot_id")
	replace(t, boot, "00000000-0000-4000-8000-000000000001\n")
	// Each command of `ip netns exec` has a mount namespace of its own.
	script := fmt.Sprintf(`mount --bind %s /proc/sys/kernel/random/boot_id && exec env "$@"`, boot)
	n2.Process = must[*lab.Process](t)(n2.node.Start("sh", append([]string{"-c", script, "sh"}, n2.args...)...))
	n2.healthy()
	t.Logf("it's over after %v", drains(t, agents))
	until(t, agents, "10.20.1.21:8080", true, "")
}

// TestC20DrainedNodeUnderLocal: the only endpoint of a node is drained under
// externalTrafficPolicy Local. Its balancer is told at once, and what comes by
// the node nevertheless is served; all else goes to the other node.
func TestC20DrainedNodeUnderLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	docs := localLB("web", "30080", "30900", "10.20.0.11@n1", "10.20.1.21@n2")
	docs[0] = annotated(strings.Replace(docs[0], "  annotations: {}\n", "", 1), "pointsman/load-balancer-ips: 192.0.2.200")
	docs[0] = strings.Replace(docs[0], "type: LoadBalancer", "type: LoadBalancer, clusterIP: 10.96.0.20", 1)
	w.write("web.yaml", docs...)
	w.route(w.Nodes[0], "192.0.2.200")
	agents := w.fleet()
	await(t, row{from: w.Client, to: "192.0.2.200:80", by: "b1"})
	external := w.Client.Stream(t.Context(), lab.TCP, addrPort("192.0.2.200:80"), tenPerSecond)
	internal := w.Nodes[1].Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond)
	agents[1].do("drain", "endpoint", "10.20.0.11:8080")
	until(t, agents, "10.20.0.11:8080", false, "drained by n2")
	within(t, fleetBound, func() error {
		if code, body, err := httpGet(w.Client, "http://192.0.2.11:30900/healthz"); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(string(body), `"localEndpoints":0`) {
			return fmt.Errorf("%v, %d %s", err, code, body)
		}
		return nil
	})
	await(t, row{from: w.Nodes[1], to: "10.96.0.20:80", by: "b2"})
	await(t, row{from: w.Client, to: "192.0.2.200:80", by: "b1"})
	for _, s := range []*lab.Stream{external, internal} {
		if err := s.Wait(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		tally := s.Stop()
		if err := tally.Check(); err != nil {
			t.Errorf("%v; %s", err, &tally)
		}
	}
}
