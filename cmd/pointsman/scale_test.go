package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// TestC92OneAmongMany: a change costs what it is, not what is around it.
func TestC92OneAmongMany(t *testing.T) {
	t.Parallel()
	const services, changed = 300, 50
	w := newWorld(t, 2)
	w.serve(8080)
	for i := range services {
		w.numbered(i, "10.20.0.11")
	}
	n1, c := w.agent(w.Nodes[0]), w.Client
	written := func() float64 { return n1.metric("pointsman_nftables_elements_written_total") }
	at := written()
	var slowest time.Duration
	for i := 1; i <= 10; i++ {
		address, name := backendOf(i)
		w.numbered(7, address)
		slowest = max(slowest, await(t, row{from: c, to: "10.96.7.1:80", by: name}))
		if n := written() - at; n > 6 {
			t.Errorf("change %d: %v elements were written for one endpoint", i, n)
		}
		at = written()
	}
	t.Logf("one of %d: the slowest change took effect after %s", services, slowest)

	// Fifty slices in one commit: the directory is swapped as git-sync does.
	next := filepath.Join(w.dir, "next")
	if err := os.CopyFS(next, os.DirFS(w.manifests)); err != nil {
		t.Fatal(err)
	}
	served := w.manifests
	w.manifests = next
	for i := 100; i < 100+changed; i++ {
		w.numbered(i, "10.20.0.12")
	}
	for _, r := range [][2]string{{served, served + "-old"}, {next, served}} {
		if err := os.Rename(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	took := await(t, row{from: c, to: fmt.Sprintf("10.96.%d.1:80", 99+changed), by: "b2"})
	t.Logf("%d of %d took effect after %s", changed, services, took)
	for _, i := range []int{100, 120} {
		check(t, row{from: c, to: fmt.Sprintf("10.96.%d.1:80", i), by: "b2"})
	}
	check(t, row{from: c, to: "10.96.99.1:80", by: "b1"})
	if n := written() - at; n > 6*changed {
		t.Errorf("%v elements were written for %d endpoints", n, changed)
	}
}

// numbered writes the i-th of many Services.
func (w *world) numbered(i int, backend string) {
	w.t.Helper()
	w.simple(fmt.Sprint("svc", i), fmt.Sprintf("10.96.%d.%d", i%256, 1+i/256), backend)
}

// TestC91ColdStart: many Services load while other traffic is forwarded, which
// doesn't notice; over a kernel that is right, nothing is written. How long
// either takes is measured by BenchmarkAgent.
func TestC91ColdStart(t *testing.T) {
	t.Parallel()
	const services = 1000
	w := newWorld(t, 2)
	w.serve(8080)
	var docs []string
	for i := range services {
		docs = append(docs, manyFaced(i)...)
	}
	w.write("all.yaml", docs...)
	forwarded := w.Client.Stream(t.Context(), lab.TCP, addrPort("10.20.0.11:8080"), tenPerSecond)
	n1 := w.agent(w.Nodes[0])
	tally := forwarded.Stop()
	if err := tally.Check(); err != nil {
		t.Errorf("forwarded meanwhile: %v; %s", err, &tally)
	}
	check(t, row{name: "plain", from: w.Client, to: "10.96.7.1:80", by: "b1 b2"})
	check(t, row{name: "second port", from: w.Client, to: "10.96.7.1:443", by: "b1 b2"})
	t.Logf("%d services: %v elements", services, n1.metric("pointsman_nftables_elements_written_total"))
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		n1.restart(s)
		if n := n1.metric("pointsman_nftables_elements_written_total"); n != 0 {
			t.Errorf("a start over a right kernel wrote %v elements", n)
		}
	}
}

// manyFaced gives a Service of two ports and five endpoints a port; one in ten
// has affinity. Those whose number is 7 reach real backends.
func manyFaced(i int) []string {
	name, affinity := fmt.Sprint("svc", i), "None"
	if i%10 == 0 {
		affinity = "ClientIP"
	}
	endpoints := []string{"10.20.0.101", "10.20.0.102", "10.20.0.103", "10.20.0.104", "10.20.0.105"}
	if i == 7 {
		endpoints = []string{"10.20.0.11", "10.20.0.12"}
	}
	spec := fmt.Sprintf("clusterIP: 10.96.%d.%d, sessionAffinity: %s, ports: [{name: http, port: 80}, {name: https, port: 443}]",
		i%256, 1+i/256, affinity)
	return []string{service(name, spec), slice(name+"/a", "{name: http, port: 8080}, {name: https, port: 8080}", endpoints...)}
}
