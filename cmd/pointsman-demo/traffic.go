package main

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"pointsman/reconcile/lab"
)

const (
	// patience is for one connection. It is less than the second after which
	// TCP sends a lost SYN again: a lost packet shall not pass for a success.
	patience = 900 * time.Millisecond

	short    = 100 * time.Millisecond // for one of many tries
	stubborn = 20 * time.Second       // for a change to take effect
	pace     = 2 * time.Millisecond   // of a client that keeps connecting
)

// tally is what became of a number of connections.
type tally struct {
	total  int
	counts map[string]int // by backend
	failed []lab.Reply
}

// connect makes n new connections, one after the other.
func (t *tally) connect(ctx context.Context, from *lab.Host, to netip.AddrPort, n int) {
	for range n {
		t.add(from.Connect(ctx, lab.TCP, to, patience))
	}
}

func (t *tally) add(r lab.Reply) {
	t.total++
	if r.Outcome != lab.OK {
		t.failed = append(t.failed, r)
		return
	}
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[r.Backend]++
}

// check tells the first failure, or a backend without a fair share. Half of
// it will do: of 300 connections to three backends, chance gives one of them
// fewer than 50 once in a billion times.
func (t *tally) check(backends ...string) error {
	if len(t.failed) > 0 {
		return fmt.Errorf("%d of %d connections failed, the first one: %s", len(t.failed), t.total, t.failed[0])
	}
	for _, b := range backends {
		if t.counts[b] < t.total/len(backends)/2 {
			return fmt.Errorf("%s got too few of %d connections: %s", b, t.total, t)
		}
	}
	return nil
}

// String gives how many connections each backend got: b1 104, b2 98, b3 98.
func (t *tally) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, t.counts[name]))
	}
	return strings.Join(parts, ", ")
}

// until makes new connections until one has the wanted outcome, and tells how
// long that took.
func until(ctx context.Context, from *lab.Host, to netip.AddrPort, wanted lab.Outcome) (time.Duration, error) {
	began := time.Now()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		got := from.Connect(ctx, lab.TCP, to, short)
		if got.Outcome == wanted {
			return time.Since(began), nil
		}
		if time.Since(began) > stubborn {
			return 0, fmt.Errorf("%s to %s is still not %s: %s", from, to, wanted, got)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// stream is a client that keeps making new connections, until it is stopped.
type stream struct {
	stop func()

	mu    sync.Mutex
	tally tally
	last  map[string]time.Time // when each backend last got a connection
}

func startStream(ctx context.Context, from *lab.Host, to netip.AddrPort) *stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{last: map[string]time.Time{}}
	done := make(chan struct{})
	s.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			// The last connection ends by itself: its failure would count.
			s.add(began, from.Connect(context.WithoutCancel(ctx), lab.TCP, to, patience))
			<-tick.C
		}
	}()
	return s
}

func (s *stream) add(began time.Time, r lab.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.add(r)
	if r.Outcome == lab.OK {
		s.last[r.Backend] = began
	}
}

// now is what became of the connections so far.
func (s *stream) now() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tally
	t.counts = maps.Clone(t.counts)
	return t
}

// lastOf is when a backend last got a connection.
func (s *stream) lastOf(backend string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[backend]
}

// wait waits until n more connections were made.
func (s *stream) wait(ctx context.Context, n int) error {
	wanted := s.now().total + n
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for s.now().total < wanted {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// waitForLast waits until a backend has had none of 100 connections in a row,
// and tells when it had its last one. While it is one of three, so many miss it
// once in 10^17 times.
func (s *stream) waitForLast(ctx context.Context, backend string) (time.Time, error) {
	deadline := time.Now().Add(stubborn)
	for time.Now().Before(deadline) {
		seen := s.lastOf(backend)
		if err := s.wait(ctx, 100); err != nil {
			return seen, err
		}
		if s.lastOf(backend).Equal(seen) {
			return seen, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s still gets new connections", backend)
}
