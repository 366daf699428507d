// Package lab makes network namespaces act as hosts, for the tests and the
// demo: real kernels' routing, conntrack and nftables between a client, nodes
// and backends, on one machine, with nothing left behind.
//
//	l := lab.New(t).L1()
//	b := l.Backends[0].Serve(lab.TCP, 80)
//	got := l.Client.Connect(ctx, lab.TCP, addr, time.Second)
//
// It needs root and iproute2. Everything it makes lives in namespaces of its
// own, named pm-<pid>-<n>-<host>; the host's interfaces, routes and rules are
// never touched.
package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

const (
	namespaces = "/run/netns"
	ours       = "pm-"
)

// labs numbers the labs of this process, so that parallel tests have
// namespaces of different names.
var labs atomic.Int64

// Lab is a set of hosts and the networks between them.
//
// The methods that build (Host, Network, Join, Route, Sysctl, Serve, ...) do not
// return errors: under a test the first one ends it, elsewhere Err tells it
// and Close is still to be called. They are called from one goroutine, the
// test's own; the methods that use what was built may be called from any.
type Lab struct {
	prefix string
	tb     testing.TB // nil outside tests
	err    error
	bridge *Host // holds every network's bridge, as a switch would
	ports  int

	mu        sync.Mutex
	hosts     []*Host
	processes []*Process
	closers   []func()
}

// New makes an empty lab that is closed at the end of the test.
func New(tb testing.TB) *Lab {
	tb.Helper()
	l, err := open(tb)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	return l
}

// Open makes an empty lab outside a test. The caller closes it, also when
// interrupted.
func Open() (*Lab, error) { return open(nil) }

func open(tb testing.TB) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("lab: network namespaces need root: run it under sudo")
	}
	removeLeftovers()
	l := &Lab{prefix: fmt.Sprintf("%s%d-%d-", ours, os.Getpid(), labs.Add(1)), tb: tb}
	l.bridge = l.Host("switch")
	if l.err != nil {
		return nil, errors.Join(l.err, l.Close())
	}
	return l, nil
}

// Err is the first error of building, outside tests.
func (l *Lab) Err() error { return l.err }

// check keeps the first error, or ends the test with it.
func (l *Lab) check(err error) {
	if err == nil {
		return
	}
	if l.tb != nil {
		l.tb.Helper()
		l.tb.Fatal(err)
	}
	if l.err == nil {
		l.err = err
	}
}

// Close ends the processes, closes the servers and removes the namespaces. It
// may be called again.
func (l *Lab) Close() error {
	l.mu.Lock()
	hosts, processes, closers := l.hosts, l.processes, l.closers
	l.hosts, l.processes, l.closers = nil, nil, nil
	l.mu.Unlock()

	for _, p := range processes {
		p.Kill()
		if l.tb != nil && l.tb.Failed() {
			l.tb.Logf("%s:\n%s", p, p.Output())
		}
	}
	for _, stop := range closers {
		stop()
	}
	var names []string
	for _, h := range hosts {
		h.ns.Close()
		names = append(names, h.Namespace)
	}
	return removeNamespaces(names)
}

// onClose has stop called when the lab is closed.
func (l *Lab) onClose(stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, stop)
}

// removeLeftovers removes the namespaces of processes that ended without
// closing their lab: a test that timed out, a kill -9.
func removeLeftovers() {
	entries, _ := os.ReadDir(namespaces)
	var dead []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), ours)
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			dead = append(dead, e.Name())
		}
	}
	// Another process may be removing the same ones: what is gone is gone.
	_ = removeNamespaces(dead)
}

func removeNamespaces(names []string) error {
	var batch strings.Builder
	for _, name := range names {
		fmt.Fprintf(&batch, "netns del %s\n", name)
	}
	if batch.Len() == 0 {
		return nil
	}
	return ip(batch.String(), "-force", "-batch", "-")
}

// ip runs the ip command with the given standard input.
func ip(stdin string, args ...string) error {
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("lab: ip %s: %w: %s\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out), stdin)
	}
	return nil
}
