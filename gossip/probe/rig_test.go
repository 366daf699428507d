package probe

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state"
)

// rig is a Prober with a fake for its probes, in a bubble of synctest.
type rig struct {
	*Prober
	began time.Time

	mu       sync.Mutex
	answer   func(k state.CheckKey, at time.Duration) (takes time.Duration, ok bool)
	starts   map[state.CheckKey][]time.Duration
	running  map[state.CheckKey]int
	most     int  // in flight at once
	overlap  bool // two of one Check
	reports  []report
	inFlight int
}

// report is a Result, and when it came.
type report struct {
	Result
	at time.Duration
}

// newRig starts a Prober; it ends with the test.
func newRig(t *testing.T, cfg Config) *rig {
	r := &rig{began: time.Now(), starts: map[state.CheckKey][]time.Duration{}, running: map[state.CheckKey]int{}}
	r.answer = func(state.CheckKey, time.Duration) (time.Duration, bool) { return time.Millisecond, true }
	cfg.Report = func(res Result) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reports = append(r.reports, report{res, time.Since(r.began)})
	}
	r.Prober = New(cfg)
	r.probe = r.fake
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

func (r *rig) fake(ctx context.Context, c *state.Check, _ *state.Probe) outcome {
	r.mu.Lock()
	at := time.Since(r.began)
	r.starts[c.Key] = append(r.starts[c.Key], at)
	r.running[c.Key]++
	r.inFlight++
	r.most, r.overlap = max(r.most, r.inFlight), r.overlap || r.running[c.Key] > 1
	takes, ok := r.answer(c.Key, at)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running[c.Key]--
		r.inFlight--
		r.mu.Unlock()
	}()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return outcome{failure: state.TimedOut}
	}
	if !ok {
		return outcome{failure: state.Refused}
	}
	return outcome{}
}

func (r *rig) answers(f func(k state.CheckKey, at time.Duration) (time.Duration, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// until lets time pass until so long after the start.
func (r *rig) until(at time.Duration) {
	<-time.After(at - time.Since(r.began))
	synctest.Wait()
}

func (r *rig) wantReports(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, rep := range r.reports {
		got = append(got, fmt.Sprintf("%d %v (%v)", rep.Key, rep.Verdict, rep.Failure))
	}
	if !slices.Equal(got, want) {
		t.Errorf("reports %q, want %q", got, want)
	}
}

// tcpCheck is a Check with a probe by TCP.
func tcpCheck(key int, period, timeout time.Duration, rise, fall int) *state.Check {
	return &state.Check{
		Key: state.CheckKey(key), Target: netip.MustParseAddrPort("192.0.2.1:80"),
		Probe: &state.Probe{Period: period, Timeout: timeout, SuccessThreshold: rise, FailureThreshold: fall},
	}
}

// many gives n Checks with a period of ten seconds.
func many(n int) []Assignment {
	var all []Assignment
	for i := range n {
		all = append(all, Assignment{Check: tcpCheck(i, 10*time.Second, time.Second, 1, 3)})
	}
	return all
}
