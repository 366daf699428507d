package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// probeAt is of another port than that of the traffic: it judges all ports of the
// backend.
const probeAt = `'pointsman/readiness-probe': '{httpGet: {path: /healthz, port: 8081}, periodSeconds: 2, timeoutSeconds: 1, failureThreshold: 3}'`

// annotated gives a manifest an annotation, which it mustn't have any of.
func annotated(manifest, annotation string) string {
	return strings.Replace(manifest, "metadata:\n", "metadata:\n  annotations: {"+annotation+"}\n", 1)
}

// TestFleetHTTPProbe: a backend hangs, answers 500, and recovers from each. One
// that two Services share, with the same probe, is probed once.
func TestFleetHTTPProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0, 0)
	w.serve(8080)
	shared, hangs, errs := w.site(w.Backends[0], 8081), w.site(w.Backends[1], 8081), w.site(w.Backends[2], 8081)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeAt), slice("web/v4", http8080, "10.20.0.11", "10.20.0.12"))
	w.write("api.yaml", service("api", "clusterIP: 10.96.0.21, "+http80, probeAt), slice("api/v4", http8080, "10.20.0.11", "10.20.0.13"))
	agents := w.fleet()
	// One backend each: four changes of one in a minute would be flapping.
	for _, f := range []struct {
		site               *site
		status             int64
		saw, backend, addr string
	}{{hangs, 0, "timed out", "b2", "10.20.0.12:8080"}, {errs, http.StatusInternalServerError, "HTTP status 500", "b3", "10.20.0.13:8080"}} {
		until(t, agents, f.addr, true, "")
		f.site.status.Store(f.status)
		t.Logf("%q is out on every host after %v", f.saw, until(t, agents, f.addr, false, f.saw))
		to := map[string]string{"b2": "10.96.0.20:80", "b3": "10.96.0.21:80"}[f.backend]
		w.everywhere(row{to: to, by: "b1"})
		for _, a := range agents {
			a.explains(to, "served by 1 of 2 endpoints", f.addr+" ", "not used fails its probes (", "n1: "+f.saw+" since 20")
			a.explains("endpoint "+f.addr, "gets connections by none", "declared ready, serving, not terminating", "n1: "+f.saw+" since 20")
		}
		f.site.status.Store(http.StatusOK)
		t.Logf("back on every host after %v", until(t, agents, f.addr, true, ""))
		w.everywhere(row{to: to, by: "b1 " + f.backend})
	}

	for _, a := range agents {
		if _, nodes, err := a.nodes(); err != nil || nodes["n1"].Checks != 3 {
			t.Errorf("%s has n1 asked for other than three probes: %v, %+v", a, err, nodes)
		}
	}
	a, b := shared.requests.Load(), errs.requests.Load()
	const enough = 12
	within(t, fleetBound, func() error {
		if n := errs.requests.Load() - b; n < enough {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	if got, want := shared.requests.Load()-a, errs.requests.Load()-b; got > want+enough/2 {
		t.Errorf("the backend of two Services was probed %d times while that of one was %d times", got, want)
	}
}

// everywhere waits until a row is true of each node: what an agent says comes a
// moment before the kernel's rules.
func (w *world) everywhere(r row) {
	w.t.Helper()
	for _, n := range w.Nodes {
		r.from = n
		await(w.t, r)
	}
}

// TestFleetFlapping: a backend whose every other answer is bad, which is a
// change of its verdict every second, doesn't have the hosts follow all of them.
func TestFleetFlapping(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 0, 0)
	w.serve(8080)
	steady, flapping := w.site(w.Backends[0], 8081), w.site(w.Backends[1], 8081)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80,
		`'pointsman/readiness-probe': '{httpGet: {port: 8081}, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1}'`),
		slice("web/v4", http8080, "10.20.0.11", "10.20.0.12"))
	agents := w.fleet()
	until(t, agents, "10.20.0.12:8080", true, "")
	flapping.flapping.Store(true)
	before, changes := steady.requests.Load(), make([]int, len(agents))
	was := []bool{true, true, true}
	within(t, fleetBound, func() error {
		for i, a := range agents {
			e, err := a.endpoint("10.20.0.12:8080")
			if err != nil {
				return err
			}
			if e.Ready != was[i] {
				was[i] = e.Ready
				changes[i]++
			}
		}
		const probes = 45 // fifteen of each host
		if n := steady.requests.Load() - before; n < probes {
			return fmt.Errorf("%d probes", n)
		}
		return nil
	})
	t.Logf("while %d probes came to different ends, the hosts changed their rules %v times", flapping.requests.Load(), changes)
	for i, n := range changes {
		if n > 6 {
			t.Errorf("%s changed its rules %d times", agents[i], n)
		}
	}
}

// TestFleetProbeKinds: what can be said about a probe, beside each other. The
// port 8090 is served nowhere, and 8091 by b1 alone.
func TestFleetProbeKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0, 0)
	w.serve(8080)
	w.Backends[0].Serve(lab.TCP, 8091)
	for _, b := range w.Backends {
		b.Serve(lab.UDP, 53)
	}
	probe := func(port string) string {
		return fmt.Sprintf(`'pointsman/readiness-probe': '{tcpSocket: {port: %s}, periodSeconds: 2, timeoutSeconds: 1, failureThreshold: 2}'`, port)
	}
	const dns53 = "ports: [{name: dns, port: 53, protocol: UDP}]"
	all := []string{"10.20.0.11", "10.20.0.12", "10.20.0.13"}
	w.write("udp.yaml", service("udp", "clusterIP: 10.96.0.30, "+dns53, probe("8091")), slice("udp/v4", "{name: dns, port: 53, protocol: UDP}", all...))
	w.write("six.yaml", service("six", `clusterIP: "2001:db8:96::31", ipFamilies: [IPv6], `+http80, probe("8091")),
		slice("six/v6", http8080, "2001:db8:20::11", "2001:db8:20::12"))
	w.write("slice.yaml", service("slice", "clusterIP: 10.96.0.32, "+http80, probe("8090")),
		annotated(slice("slice/v4", http8080, "10.20.0.11"), probe("8080")), slice("slice/v4b", http8080, "10.20.0.12"))
	w.write("from.yaml", service("from", "clusterIP: 10.96.0.33, "+http80, probe("8091"), `'pointsman/probe-from': 'kubernetes.io/hostname in (n1, n2)'`),
		slice("from/v4", http8080, all...))
	w.write("reject.yaml", service("reject", "clusterIP: 10.96.0.34, "+http80, probe("8090"), "'pointsman/when-all-fail': reject"), slice("reject/v4", http8080, all...))
	w.write("serve.yaml", service("serve", "clusterIP: 10.96.0.35, "+http80, probe("8090")), slice("serve/v4", http8080, all...))
	w.write("panic.yaml", service("panic", "clusterIP: 10.96.0.36, "+http80, probe("8091"), "'pointsman/panic-threshold': 50%"), slice("panic/v4", http8080, all...))
	w.write("calm.yaml", service("calm", "clusterIP: 10.96.0.37, "+http80, probe("8091"), "'pointsman/panic-threshold': 33%"), slice("calm/v4", http8080, all...))
	agents := w.fleet()
	t.Logf("all is judged after %v", judged(t, agents))
	for _, r := range []row{
		{proto: lab.UDP, to: "10.96.0.30:53", by: "b1"},
		{to: "[2001:db8:96::31]:80", by: "b1"},
		{to: "10.96.0.32:80", by: "b1"},
		{to: "10.96.0.33:80", by: "b1"},
		{to: "10.96.0.34:80", want: lab.Refused},
		{to: "10.96.0.35:80", by: "b1 b2 b3"},
		{to: "10.96.0.36:80", by: "b1 b2 b3"},
		{to: "10.96.0.37:80", by: "b1"},
	} {
		w.everywhere(r)
	}
	var answer endpointsAnswer
	if err := agents[2].ask(&answer, "endpoints"); err != nil {
		t.Fatal(err)
	}
	for _, e := range answer.Endpoints {
		want := 3
		if e.Service == "from" {
			want = 2
		}
		if len(e.Votes) != want {
			t.Errorf("%d hosts vote on %+v, not %d", len(e.Votes), e, want)
		}
	}
}

// judged waits until every host has heard every observer's word on every probe.
func judged(t *testing.T, agents []*daemon) time.Duration {
	t.Helper()
	return within(t, fleetBound, func() error {
		for _, a := range agents {
			var answer endpointsAnswer
			if err := a.ask(&answer, "endpoints"); err != nil {
				return err
			}
			for _, e := range answer.Endpoints {
				for _, v := range e.Votes {
					if v.Verdict == "unknown" {
						return fmt.Errorf("%s has %+v", a, e)
					}
				}
			}
		}
		return nil
	})
}

// TestFleetsOfOneAndTwo: a host alone, without any flag and with gossip but no
// peer, and two hosts, find out that a backend dies and comes back.
func TestFleetsOfOneAndTwo(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(w *world) []*daemon{
		"alone":        func(w *world) []*daemon { return []*daemon{w.agent(w.Nodes[0])} },
		"without peer": func(w *world) []*daemon { return w.fleet(w.Nodes[0]) },
		"two":          func(w *world) []*daemon { return w.fleet() },
		"two by IPv6":  func(w *world) []*daemon { return w.fleetBy((*lab.Host).Addr6, w.Nodes...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, 0)
			b1, b2 := w.Backends[0].Serve(lab.TCP, 8080), w.Backends[1].Serve(lab.TCP, 8080)
			w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeTCP), slice("web/v4", http8080, "10.20.0.11", "10.20.0.12"))
			agents := start(w)
			until(t, agents, "10.20.0.12:8080", true, "")
			b2.Close()
			t.Logf("out after %v", until(t, agents, "10.20.0.12:8080", false, "down: "))
			await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
			w.Backends[1].Serve(lab.TCP, 8080)
			t.Logf("back after %v", until(t, agents, "10.20.0.12:8080", true, ""))
			b1.Close()
			until(t, agents, "10.20.0.11:8080", false, "down: ")
			await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
		})
	}
}
