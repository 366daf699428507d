package probe

import (
	"net/http"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"pointsman/state"
)

// BenchmarkProbe is the whole cost of a probe, that of the server in the same
// process included.
func BenchmarkProbe(b *testing.B) {
	plain := serve(b, false, func(http.ResponseWriter, *http.Request) {})[0]
	secure := serve(b, true, func(http.ResponseWriter, *http.Request) {})[0]
	grpc := health(b, func(w http.ResponseWriter, _ *http.Request) {
		grpcAnswer(w, "0", []byte("\x00\x00\x00\x00\x02\x08\x01"))
	})[0]
	for _, bb := range []struct {
		name   string
		target netip.AddrPort
		probe  state.Probe
	}{
		{"tcp", plain, state.Probe{}}, {"http", plain, state.Probe{HTTP: &state.HTTPProbe{Path: "/"}}},
		{"https", secure, state.Probe{HTTP: &state.HTTPProbe{Path: "/", TLS: true}}}, {"grpc", grpc, state.Probe{GRPC: &state.GRPCProbe{}}}, {"exec", plain, state.Probe{Exec: []string{"true"}}},
	} {
		bb.probe.Timeout = time.Minute
		p := New(Config{AllowExec: true})
		b.Run(bb.name, func(b *testing.B) {
			var before, after syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if out := p.work(b.Context(), &state.Check{Target: bb.target, Probe: &bb.probe}); out.failure != state.NoFailure {
					b.Fatal(out.failure, out.detail)
				}
			}
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
				b.Fatal(err)
			}
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkSet replaces 60,000 Checks, of which a thousandth changes.
func BenchmarkSet(b *testing.B) {
	s := newSchedule(Config{Workers: 1, Report: func(Result) {}})
	now := time.Now()
	sets := [][]Assignment{many(60_000), many(60_060)[60:]}
	s.replace(sets[0], now)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		s.replace(sets[n%2], now)
	}
}

// BenchmarkSchedule is what a probe costs besides being made, with 60,000.
func BenchmarkSchedule(b *testing.B) {
	s := newSchedule(Config{Workers: 1, Report: func(Result) {}})
	now := time.Now()
	s.replace(many(60_000), now)
	for b.Loop() {
		now = now.Add(s.wait(now))
		t := s.next(now)
		s.settle(ended{target: t, began: now}, now)
	}
}
