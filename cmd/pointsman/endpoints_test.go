package main

import (
	"testing"

	"pointsman/reconcile/lab"
)

// TestC10PortNames: a Service's port and a slice's are matched by name, never
// by number. A mismatch is refused at once, and mended without a restart.
func TestC10PortNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(5432)
	for _, db := range []struct{ name, service, slice, fixed string }{
		{"slice named", "ports: [{port: 5432}]", "{name: pg, port: 5432}", "{port: 5432}"},
		{"Service named", "ports: [{name: pg, port: 5432}]", "{port: 5432}", "{name: pg, port: 5432}"},
	} {
		w.write("db.yaml", service("db", "clusterIP: 10.96.0.54, "+db.service), slice("db/1", db.slice, "10.20.0.11"))
		a := w.agent(w.Nodes[0])
		a.said("db.yaml:")
		check(t, row{name: db.name, from: w.Client, to: "10.96.0.54:5432", want: lab.Refused})
		w.write("db.yaml", service("db", "clusterIP: 10.96.0.54, "+db.service), slice("db/1", db.fixed, "10.20.0.11"))
		await(t, row{from: w.Client, to: "10.96.0.54:5432", by: "b1"})
		a.Kill()
	}
}

// TestC13SeveralSlices: the slices of a Service are joined, and an endpoint
// that is in two of them has one share.
func TestC13SeveralSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.serve(8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/a", http8080, "10.20.0.11", "10.20.0.12"))
	w.write("more.yaml", slice("web/b", http8080, "10.20.0.12", "10.20.0.13"))
	w.agent(w.Nodes[0])
	const n = 1500
	var tally lab.Tally
	tally.Connect(t.Context(), w.Client, addrPort("10.96.0.20:80"), n)
	if err := tally.Check(); err != nil {
		t.Error(err)
	}
	for _, b := range []string{"b1", "b2", "b3"} {
		// A fair share is 500, and five times its standard deviation 91.
		if got := tally.Counts[b]; got < n/3-91 || got > n/3+91 {
			t.Errorf("%s: %s has no third of %d", &tally, b, n)
		}
	}
	w.remove("more.yaml")
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
}

// TestC14OneAddressTwoPorts: two processes of one host are two endpoints.
func TestC14OneAddressTwoPorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	b1 := w.Backends[0]
	first, second := b1.Serve(lab.TCP, 8080), b1.Serve(lab.TCP, 8081)
	slices := []string{slice("web/s1", "{name: web, port: 8080}", "10.20.0.11"), slice("web/s2", "{name: web, port: 8081}", "10.20.0.11"),
		slice("sticky/s1", "{name: web, port: 8080}", "10.20.0.11"), slice("sticky/s2", "{name: web, port: 8081}", "10.20.0.11")}
	w.write("web.yaml", append(slices, service("web", "clusterIP: 10.96.0.20, ports: [{name: web, port: 80}]"),
		service("sticky", "clusterIP: 10.96.0.21, sessionAffinity: ClientIP, ports: [{name: web, port: 80}]"))...)
	w.agent(w.Nodes[0])
	var tally lab.Tally
	tally.Connect(t.Context(), w.Client, addrPort("10.96.0.20:80"), 100)
	if err := tally.Check(); err != nil || first.Received() == 0 || second.Received() == 0 {
		t.Errorf("8080 got %d and 8081 %d: %v", first.Received(), second.Received(), err)
	}
	before := [2]int{first.Received(), second.Received()}
	tally.Connect(t.Context(), w.Client, addrPort("10.96.0.21:80"), 20)
	got := [2]int{first.Received() - before[0], second.Received() - before[1]}
	if err := tally.Check(); err != nil || got != [2]int{20, 0} && got != [2]int{0, 20} {
		t.Errorf("with affinity 8080 got %d and 8081 %d: %v", got[0], got[1], err)
	}
}

// TestC16SliceWithoutPorts: such a slice has no endpoints for anybody, and a
// bad number is an error of its own slice: nothing of it reaches the kernel,
// and all else is served.
func TestC16SliceWithoutPorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, ports: [{name: web, port: 80}]"), slice("web/s2", "{name: web, port: 8080}", "10.20.0.11"))
	w.write("none.yaml", slice("web/s1", "", "10.20.0.12"))
	w.write("other.yaml", service("other", "clusterIP: 10.96.0.21, "+http80), slice("other/1", http8080, "10.20.0.12"))
	for i, port := range []string{"{name: web}", "{name: web, port: 0}", "{name: web, port: 70000}", "{name: web, port: -3}"} {
		w.write("bad-"+string(rune('a'+i))+".yaml", slice("web/bad"+string(rune('a'+i)), port, "10.20.0.12"))
	}
	a := w.agent(w.Nodes[0])
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"}, row{from: w.Client, to: "10.96.0.21:80", by: "b2"})
	for _, bad := range []string{"bad-a.yaml", "bad-b.yaml", "bad-c.yaml", "bad-d.yaml"} {
		a.said(bad)
	}
	a.said("ports[0].port")
}

// TestC94Namespaces: a Service and its slices are of one namespace.
func TestC94Namespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.serve(8080)
	w.write("a.yaml", service("a/web", "clusterIP: 10.96.0.1, "+http80))
	w.write("a-slice.yaml", slice("a/web/1", http8080, "10.20.0.11"))
	w.write("b.yaml", service("b/web", "clusterIP: 10.96.0.2, "+http80), slice("b/web/1", http8080, "10.20.0.12"))
	w.write("stray.yaml", slice("a/only-in-b/1", http8080, "10.20.0.13"), service("b/only-in-b", "clusterIP: 10.96.0.3, "+http80))
	w.agent(w.Nodes[0])
	check(t, row{from: w.Client, to: "10.96.0.1:80", by: "b1"}, row{from: w.Client, to: "10.96.0.2:80", by: "b2"},
		row{from: w.Client, to: "10.96.0.3:80", want: lab.Refused})
	w.remove("a.yaml")
	w.write("c.yaml", service("c", "clusterIP: 10.96.0.4, "+http80), slice("c/1", http8080, "10.20.0.13"))
	await(t, row{from: w.Client, to: "10.96.0.4:80", by: "b3"})
	check(t, row{from: w.Client, to: "10.96.0.2:80", by: "b2"}, row{from: w.Client, to: "10.96.0.1:80", want: lab.Unreachable})
}
