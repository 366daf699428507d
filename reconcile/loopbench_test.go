package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
)

// fakeDesires is a Desires that a test sets.
type fakeDesires struct {
	changed chan struct{}
	latest  atomic.Pointer[Desired]
}

func (d *fakeDesires) Changed() <-chan struct{} { return d.changed }
func (d *fakeDesires) Latest() *Desired         { return d.latest.Load() }

func (d *fakeDesires) set(in *Input) {
	d.latest.Store(&Desired{Services: in.Services})
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// logbook keeps what is logged.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// loopBench is a loop and what surrounds it.
type loopBench struct {
	t        testing.TB
	desires  *fakeDesires
	loop     *Loop
	watcher  *host.Watcher
	registry *prometheus.Registry
	log      *logbook
}

func newLoop(t testing.TB, change func(*Config)) *loopBench {
	t.Helper()
	b := &loopBench{t: t, desires: &fakeDesires{changed: make(chan struct{}, 1)}, registry: prometheus.NewRegistry(), log: &logbook{}}
	cfg := Config{NodeName: "n1", Resync: time.Hour, FullResync: time.Hour,
		Log: slog.New(slog.NewTextHandler(b.log, nil)), Metrics: NewMetrics(b.registry), Health: &Health{}}
	if change != nil {
		change(&cfg)
	}
	var err error
	if b.watcher, err = host.NewWatcher(time.Millisecond, cfg.Log); err != nil {
		t.Fatal(err)
	}
	if b.loop, err = NewLoop(cfg, b.desires, b.watcher); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start runs everything until the end of the test.
func (b *loopBench) start() {
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.watcher.Run(ctx) })
	g.Go(func() error { return b.loop.Journal().Run(ctx) })
	g.Go(func() error { return b.loop.Run(ctx) })
	b.t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			b.t.Error(err)
		}
		if b.t.Failed() {
			b.t.Log(b.log)
		}
	})
}

// startLoop starts a loop that has programmed an input.
func startLoop(t testing.TB, in *Input) *loopBench {
	t.Helper()
	b := newLoop(t, nil)
	b.desires.set(in)
	b.start()
	b.programmed(in)
	return b
}

// patience is what a test waits for something that is certain to come.
const patience = time.Minute

// eventually waits for a condition, and gives the time that took.
func eventually(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		if time.Since(began) > patience {
			t.Fatalf("in vain: %s", what)
		}
		<-poll.C
	}
	return time.Since(began)
}

// kernelLines gives what the kernel holds of a family, or nil while there's no
// program.
func kernelLines(t testing.TB, f nft.Family) []string {
	t.Helper()
	k, err := nft.Open(f, schema, host.Generation)
	if err != nil {
		t.Fatal(err)
	}
	return Canonical(readGroups(t, k))
}

// programmed waits until both families' elements are what an input means.
func (b *loopBench) programmed(in *Input) time.Duration {
	b.t.Helper()
	return eventually(b.t, "the kernel is programmed", func() bool {
		for _, f := range families() {
			if !slices.Equal(kernelLines(b.t, f), Canonical(NewPlanner(f).Plan(in, nil).Groups)) {
				return false
			}
		}
		return true
	})
}

// counter is sumOf the loop's metrics.
func (b *loopBench) counter(name string) float64 {
	b.t.Helper()
	return sumOf(b.t, b.registry, name)
}

// sumOf gives the sum of a counter or gauge, or the number of a histogram's samples.
func sumOf(t testing.TB, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

const (
	driftCounter    = "pointsman_nftables_drift_total"
	failuresCounter = "pointsman_sync_proxy_rules_nftables_sync_failures_total"
	syncsCounter    = "pointsman_sync_proxy_rules_duration_seconds"
)

// stubNFT puts an nft first in PATH that does, before the real one, what files
// in the directory say: "fail" holds how many transactions fail, "hang" makes
// it hang. It crashes on every list (C47).
func stubNFT(t testing.TB) (dir string) {
	t.Helper()
	real, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
cd %s
case " $* " in *" list "*) kill -SEGV $$ ;; esac
if [ -e hang ]; then exec sleep 1000; fi
n=$(cat fail 2>/dev/null || echo 0)
if [ "$1" = -f ] && [ "$n" -gt 0 ]; then
	echo $((n - 1)) >fail.new
	mv fail.new fail
	echo 'Error: the stub says no' >&2
	exit 1
fi
exec %s "$@"
`, dir, real)
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// degraded gives why the loop's health is not what it should be.
func (b *loopBench) degraded() string {
	return strings.Join(b.loop.Health.Status(time.Now()).Degraded, "; ")
}
