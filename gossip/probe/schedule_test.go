package probe

import (
	"context"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

// Whatever a probe's numbers are, a backend that fails, by refusing or by
// silence, is down within the bound that is promised.
func TestDownWithinTheBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(1, most).Draw(rt, name)) * time.Second
		}
		period, timeout := seconds("period", 12), seconds("timeout", 5)
		fall := rapid.IntRange(1, 4).Draw(rt, "fall")
		dies := time.Duration(rapid.IntRange(15_000, 40_000).Draw(rt, "dies")) * time.Millisecond
		takes := rapid.SampledFrom([]time.Duration{0, 700 * time.Millisecond, time.Hour}).Draw(rt, "takes")
		bound := period + time.Duration(fall)*max(time.Second, timeout) + time.Second
		var last report
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{Seed: rapid.Uint64().Draw(rt, "seed")})
			r.answers(func(_ state.CheckKey, at time.Duration) (time.Duration, bool) {
				if at < dies {
					return time.Millisecond, true
				}
				return takes, false
			})
			r.Set([]Assignment{{Check: tcpCheck(1, period, timeout, 1, fall)}})
			r.until(dies + bound)
			last = r.reports[len(r.reports)-1]
		})
		if last.Verdict != state.Down {
			rt.Fatalf("still %v %v after it died", last.Verdict, bound)
		}
		if last.at < dies {
			rt.Fatalf("down before it died: %v < %v", last.at, dies)
		}
	})
}

// The first probes are spread over the period, and go on that way; another node
// has another order, and the same node always the same.
func TestStartsAreSpread(t *testing.T) {
	run := func(seed uint64) (starts map[state.CheckKey][]time.Duration, load Stats) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{Seed: seed})
			r.Set(many(2000))
			r.until(40*time.Second - time.Nanosecond)
			starts, load = maps.Clone(r.starts), r.Load()
		})
		return starts, load
	}
	starts, load := run(1)
	perSecond := map[int]int{}
	for k, at := range starts {
		if len(at) != 4 {
			t.Fatalf("check %d began at %v, with a period of 10s", k, at)
		}
		for _, a := range at {
			perSecond[int(a.Seconds())]++
		}
	}
	for second, n := range perSecond {
		if n < 100 || n > 300 {
			t.Errorf("%d probes began in second %d; the mean is 200", n, second)
		}
	}
	if want := (Stats{Checks: 2000, PerSecond: 200, Started: 8000}); load.PerSecond < 199.9 || load.PerSecond > 200.1 || load.Checks != want.Checks || load.Started != want.Started || load.Late != 0 {
		t.Errorf("load %+v, want %+v", load, want)
	}
	again, _ := run(1)
	other, _ := run(2)
	same := func(a, b map[state.CheckKey][]time.Duration) bool { return maps.EqualFunc(a, b, slices.Equal) }
	if !same(starts, again) || same(starts, other) {
		t.Error("the schedule isn't a function of the seed")
	}
}

// Whoever sets the same Checks again and again disturbs nothing.
func TestSetAgainChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		down := func(k state.CheckKey, _ time.Duration) (time.Duration, bool) { return 0, k != 7 }
		r.answers(down)
		for at := time.Duration(0); at < 60*time.Second; at += 300 * time.Millisecond {
			r.Set(many(20))
			r.until(at)
		}
		r.until(60*time.Second - time.Nanosecond)
		for k := range state.CheckKey(20) {
			if n := len(r.starts[k]); k != 7 && n != 6 {
				t.Errorf("check %d began %d times in a minute", k, n)
			}
		}
		if n := len(r.starts[7]); n < 6 || n > 8 {
			t.Errorf("the failing one began %d times", n)
		}
		if n := r.Load().Checks; n != 20 {
			t.Errorf("%d checks", n)
		}
	})
}

// More than there are workers for are made late, one after the other, and no
// backend is probed twice at once even if a probe takes longer than its period
// or its Check goes and comes back.
func TestWorkersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Workers: 50})
		r.answers(func(state.CheckKey, time.Duration) (time.Duration, bool) { return time.Hour, false })
		var all []Assignment
		for i := range 5000 {
			all = append(all, Assignment{Check: tcpCheck(i, time.Second, 3*time.Second, 1, 3)})
		}
		for i := range 20 {
			r.Set(all[:5000-2500*(i%2)])
			r.until(time.Duration(i) * 700 * time.Millisecond)
		}
		r.Set(all)
		r.until(340 * time.Second)
		if r.most != 50 || r.overlap {
			t.Errorf("%d in flight, two of one Check: %v", r.most, r.overlap)
		}
		if len(r.starts) < 5000 {
			t.Errorf("only %d of 5000 were ever made", len(r.starts))
		}
		if r.Load().Late == 0 || r.Load().InFlight != 50 {
			t.Errorf("load %+v", r.Load())
		}
	})
}

// A Check that goes and comes back while its probe is in flight isn't probed
// twice at once.
func TestGoneAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.answers(func(state.CheckKey, time.Duration) (time.Duration, bool) { return 4 * time.Second, true })
		one := []Assignment{{Check: tcpCheck(1, time.Second, 5*time.Second, 1, 1), Urgent: true}}
		r.Set(one)
		r.until(time.Second)
		r.Set(nil)
		r.until(2 * time.Second)
		if n := r.Load().Checks; n != 0 {
			t.Errorf("%d checks", n)
		}
		r.Set(one)
		r.until(19 * time.Second)
		if r.overlap || len(r.starts[1]) != 5 {
			t.Errorf("began at %v, two at once: %v", r.starts[1], r.overlap)
		}
		r.wantReports(t, "1 up (answers)")
		r.Set(nil)
		r.until(60 * time.Second)
		if n := len(r.starts[1]); n != 5 {
			t.Errorf("began %d times, also after it had gone", n)
		}
	})
}

// What is urgent begins at once, also where it was there before, and one
// failure decides.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		home := &state.Check{Key: 1, Protocol: state.TCP}
		probed := tcpCheck(2, time.Hour, time.Second, 1, 3)
		r.answers(func(_ state.CheckKey, at time.Duration) (time.Duration, bool) { return 0, at > 10*time.Second })
		r.Set([]Assignment{{Check: home, Urgent: true}, {Check: probed}})
		r.until(0)
		r.wantReports(t, "1 down (connection refused)")
		r.Set([]Assignment{{Check: home, Urgent: true}, {Check: probed, Urgent: true}})
		r.until(time.Second)
		r.wantReports(t, "1 down (connection refused)", "2 down (connection refused)")
		r.until(13 * time.Second)
		r.wantReports(t, "1 down (connection refused)", "2 down (connection refused)", "1 up (answers)")
		if want := []time.Duration{0, 2 * time.Second, 4 * time.Second}; !slices.Equal(r.starts[1][:3], want) {
			t.Errorf("began at %v, want %v", r.starts[1], want)
		}
	})
}

// A backend of a dead home that can't be asked is dead after half a minute, but
// not if the home is back by then.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		check := func(k state.CheckKey, p state.Protocol) Assignment {
			return Assignment{Check: &state.Check{Key: k, Protocol: p}, Urgent: true}
		}
		r.Set([]Assignment{check(1, state.UDP), check(2, state.SCTP), check(3, state.UDP)})
		r.until(29 * time.Second)
		r.wantReports(t)
		r.Set([]Assignment{check(1, state.UDP), check(2, state.SCTP)})
		r.until(31 * time.Second)
		slices.SortFunc(r.reports, func(a, b report) int { return int(a.Key) - int(b.Key) })
		r.wantReports(t, "1 down (its host is dead)", "2 down (its host is dead)")
		r.Set([]Assignment{check(1, state.UDP), check(3, state.UDP)})
		r.until(60 * time.Second)
		r.wantReports(t, "1 down (its host is dead)", "2 down (its host is dead)")
		r.until(62 * time.Second)
		r.wantReports(t, "1 down (its host is dead)", "2 down (its host is dead)", "3 down (its host is dead)")
		if len(r.starts) > 0 {
			t.Error("they were probed")
		}
	})
}

// A probe that this host couldn't make says nothing about the backend.
func TestVoidIsNoWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		fake := r.fake
		r.probe = func(ctx context.Context, c *state.Check, p *state.Probe) outcome {
			if out := fake(ctx, c, p); out.failure == state.NoFailure {
				return out
			}
			return outcome{void: true, detail: "too many open files"}
		}
		r.answers(func(_ state.CheckKey, at time.Duration) (time.Duration, bool) { return 0, at < 10*time.Second })
		r.Set([]Assignment{{Check: tcpCheck(1, time.Second, time.Second, 1, 1)}})
		r.until(20 * time.Second)
		r.wantReports(t, "1 up (answers)")
		if n := r.Load().Void; n != 10 {
			t.Errorf("%d probes said nothing", n)
		}
	})
}

// The end of Run ends the probes in flight, which says nothing about backends.
func TestStopReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{began: time.Now(), starts: map[state.CheckKey][]time.Duration{}, running: map[state.CheckKey]int{}}
		r.answer = func(state.CheckKey, time.Duration) (time.Duration, bool) { return time.Hour, true }
		r.Prober = New(Config{Report: func(res Result) { t.Errorf("reported %+v", res) }})
		r.probe = r.fake
		ctx, cancel := context.WithCancel(t.Context())
		r.Set([]Assignment{{Check: tcpCheck(1, time.Hour, time.Minute, 1, 1), Urgent: true}})
		go func() {
			<-time.After(time.Second)
			cancel()
		}()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(r.starts) != 1 || r.inFlight != 0 || time.Since(r.began) > 2*time.Second {
			t.Errorf("began %v, %d in flight, after %v", r.starts, r.inFlight, time.Since(r.began))
		}
	})
}

// Thousands of Checks that are due at once, with real executors, make no more
// goroutines than there are workers for.
func TestGoroutinesAreBounded(t *testing.T) {
	const workers = 40
	before := runtime.NumGoroutine()
	var most, dials atomic.Int64
	enough := make(chan struct{})
	p := New(Config{Workers: workers, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		most.Store(max(most.Load(), int64(runtime.NumGoroutine()-before)))
		if dials.Add(1) == 2000 {
			close(enough)
		}
		return nil, syscall.ECONNREFUSED
	}})
	var all []Assignment
	for i := range 3000 {
		c := tcpCheck(i, time.Hour, time.Minute, 1, 1)
		c.Probe.HTTP = &state.HTTPProbe{Path: "/", TLS: i%2 == 0}
		all = append(all, Assignment{Check: c, Urgent: true})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	p.Set(all)
	<-enough
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := most.Load(); n > workers+10 {
		t.Errorf("%d goroutines for %d workers", n, workers)
	}
}
