package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// TestServiceMemory: a cold start and a restart with 250,000 endpoints fit into
// the memory that the unit gives the service: the agent and the nft that it
// runs, together.
func TestServiceMemory(t *testing.T) {
	t.Parallel()
	const services, endpoints = 2500, 100
	w := newWorld(t, 1)
	s := newUnitService(t, w.Nodes[0])
	s.host.write("etc/config.yaml", "manifests: /etc/pointsman/manifests\n")
	for i := range services {
		s.host.write(fmt.Sprintf("etc/manifests/svc-%d.yaml", i), crowded(i, endpoints))
	}
	limit := s.unit.bytes(t, "MemoryMax")
	for i, start := range []string{"a cold start", "a restart"} {
		s.start()
		peak := watchMemory(s.Process, func() bool { return s.host.count("READY=1") > i })
		t.Logf("%s: %d MiB at the peak, of %d", start, peak>>20, limit>>20)
		// A quarter is for what this doesn't see: the kernel charges the service for
		// the rules and for messages on their way.
		if peak > limit/4*3 || s.host.count("READY=1") <= i {
			t.Fatalf("%s: %d MiB at the peak are too many for %d, or it has failed: %s", start, peak>>20, limit>>20, s.Output())
		}
		s.heard(fmt.Sprintf("STATUS=serving %d Services with %d endpoints", services, services*endpoints), i+1)
		s.end(syscall.SIGTERM)
	}
}

// crowded gives a Service of many endpoints, and its slice.
func crowded(i, endpoints int) string {
	addresses := make([]string, endpoints)
	for j := range addresses {
		x := i*endpoints + j
		addresses[j] = fmt.Sprintf("10.%d.%d.%d", 128+x>>16, x>>8&255, x&255)
	}
	name := fmt.Sprint("svc", i)
	return service(name, fmt.Sprintf("clusterIP: 10.96.%d.%d, %s", i/250, i%250+1, http80)) + "\n---\n" + slice(name+"/1", http8080, addresses...)
}

// watchMemory gives the largest sum of what a process and its children hold
// of memory, in bytes, until something is done or the process has ended.
func watchMemory(p *lab.Process, done func() bool) (peak int64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-p.Done():
			return peak
		case <-tick.C:
			peak = max(peak, residentTree(p.Pid()))
		}
	}
	return peak
}

// residentTree sums up the resident memory of a process and its children. One
// that has gone meanwhile holds none.
func residentTree(pid int) (sum int64) {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	pids := []string{strconv.Itoa(pid)}
	for _, c := range children {
		text, _ := os.ReadFile(c)
		pids = append(pids, strings.Fields(string(text))...)
	}
	for _, p := range pids {
		var size, resident int64
		text, _ := os.ReadFile(filepath.Join("/proc", p, "statm"))
		if _, err := fmt.Sscan(string(text), &size, &resident); err == nil {
			sum += resident * int64(os.Getpagesize())
		}
	}
	return sum
}
