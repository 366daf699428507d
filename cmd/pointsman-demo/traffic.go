package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"pointsman/reconcile/lab"
)

const (
	short    = 100 * time.Millisecond // for one of many tries
	stubborn = 20 * time.Second       // for a change to take effect
	pace     = 2 * time.Millisecond   // of a client that keeps connecting
)

// check tells the first failure, or a backend without a fair share. Half of
// it will do: of 300 connections to three backends, chance gives one of them
// fewer than 50 once in a billion times.
func check(t *lab.Tally, backends ...string) error {
	if err := t.Check(); err != nil {
		return err
	}
	for _, b := range backends {
		if t.Counts[b] < t.Total/len(backends)/2 {
			return fmt.Errorf("%s got too few of %d connections: %s", b, t.Total, t)
		}
	}
	return nil
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

// waitForLast waits until a backend has had none of 100 connections in a row,
// and tells when it had its last one. While it is one of three, so many miss it
// once in 10^17 times.
func waitForLast(ctx context.Context, s *lab.Stream, backend string) (time.Time, error) {
	deadline := time.Now().Add(stubborn)
	for time.Now().Before(deadline) {
		seen := s.Last(backend)
		if err := s.Wait(ctx, 100); err != nil {
			return seen, err
		}
		if s.Last(backend).Equal(seen) {
			return seen, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s still gets new connections", backend)
}

// waitForNext waits until a backend gets another connection.
func waitForNext(ctx context.Context, s *lab.Stream, backend string) error {
	deadline, seen := time.Now().Add(stubborn), s.Last(backend)
	for time.Now().Before(deadline) {
		if err := s.Wait(ctx, 10); err != nil {
			return err
		}
		if s.Last(backend).After(seen) {
			return nil
		}
	}
	return fmt.Errorf("%s gets no connections any more", backend)
}
