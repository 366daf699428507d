package gitsync

import (
	"context"
	"hash/fnv"
	"time"
)

// Loop calls do at once, whenever wake says so, and else once a period. When
// in the period is a matter of the host's name: hosts that started together
// don't ask the server together, and each keeps to its own time.
func Loop[T any](ctx context.Context, period time.Duration, host string, wake <-chan T, do func()) {
	for {
		do()
		timer := time.NewTimer(untilTurn(time.Now(), period, host))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// untilTurn gives the time from now to a host's next turn, which is longer than
// half a period: what was just done needn't be done again.
func untilTurn(now time.Time, period time.Duration, host string) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(host)) // of a hash, it never fails
	turn := time.Duration(h.Sum64() % uint64(period))
	wait := (turn - time.Duration(now.UnixNano()%int64(period)) + period) % period
	if wait <= period/2 {
		wait += period
	}
	return wait
}
