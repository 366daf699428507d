package lab

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Patience is what a client gives one connection. It is less than the second
// after which TCP sends a lost SYN again: a lost packet must not pass for a
// success.
const Patience = 900 * time.Millisecond

// Tally is what became of a number of connections.
type Tally struct {
	Total  int
	Counts map[string]int // by the backend that answered
	Failed []Reply
}

// Add counts one connection.
func (t *Tally) Add(r Reply) {
	t.Total++
	if r.Outcome != OK {
		t.Failed = append(t.Failed, r)
		return
	}
	if t.Counts == nil {
		t.Counts = map[string]int{}
	}
	t.Counts[r.Backend]++
}

// Connect makes n new connections, one after the other, and counts them.
func (t *Tally) Connect(ctx context.Context, from *Host, to netip.AddrPort, n int) {
	for range n {
		t.Add(from.Connect(ctx, TCP, to, Patience))
	}
}

// Check tells the first failure.
func (t *Tally) Check() error {
	if len(t.Failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d connections failed, the first one: %s", len(t.Failed), t.Total, t.Failed[0])
}

// String gives how many connections each backend got: b1 104, b2 98, b3 98.
func (t *Tally) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.Counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, t.Counts[name]))
	}
	return strings.Join(parts, ", ")
}

// Stream is a client that keeps making new connections until it is stopped:
// what a change must not disturb.
type Stream struct {
	every time.Duration
	stop  func()

	mu    sync.Mutex
	tally Tally
	last  map[string]time.Time
}

// Stream starts a client that makes a new connection as often as every says
// (and as fast as the answers come, where they are slower).
func (h *Host) Stream(ctx context.Context, proto string, to netip.AddrPort, every time.Duration) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{every: every, last: map[string]time.Time{}}
	done := make(chan struct{})
	s.stop = func() { cancel(); <-done }
	h.lab.onClose(s.stop)
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			// The last connection ends by itself: cut off, it would count as failed.
			s.add(began, h.Connect(context.WithoutCancel(ctx), proto, to, Patience))
			<-tick.C
		}
	}()
	return s
}

func (s *Stream) add(began time.Time, r Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.Add(r)
	if r.Outcome == OK {
		s.last[r.Backend] = began
	}
}

// Stop ends the stream and tells what became of its connections.
func (s *Stream) Stop() Tally {
	s.stop()
	return s.Now()
}

// Now is what became of the connections so far.
func (s *Stream) Now() Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tally
	t.Counts, t.Failed = maps.Clone(t.Counts), slices.Clone(t.Failed)
	return t
}

// Last is when a backend last got a connection: when that one began.
func (s *Stream) Last(backend string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[backend]
}

// Wait waits until n more connections were made.
func (s *Stream) Wait(ctx context.Context, n int) error {
	wanted := s.Now().Total + n
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for s.Now().Total < wanted {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
