package reconcile

import (
	"context"
	"maps"
	"path/filepath"
	"testing"
	"time"
)

func TestTriggers(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var held Triggers
	held.Note(Manifests, at(7))
	held.Note(Manifests, at(5))
	held.Note(Manifests, at(9))
	held.Note(FleetHealth, at(8))
	held.Note(Repair, time.Time{}) // nobody knows when
	w := waiting{Manifests: at(6)}
	w.join(held.take())
	if want := (waiting{Manifests: at(5), FleetHealth: at(8)}); !maps.Equal(w, want) {
		t.Errorf("waiting: %v, want %v", w, want)
	}
	if again := held.take(); len(again) != 0 {
		t.Errorf("once more: %v", again)
	}
	(*Triggers)(nil).Note(Manifests, at(1))
	if none := (*Triggers)(nil).take(); len(none) != 0 {
		t.Errorf("nothing holds %v", none)
	}
}

// TestLoopLatency: what waits is measured when the kernel is right, not before,
// however often that takes; and what the kernel had already isn't.
func TestLoopLatency(t *testing.T) {
	dir := stubNFT(t)
	triggers := &Triggers{}
	b := newLoop(t, func(c *Config) { c.Triggers = triggers })
	change := func(in *Input, want map[Cause]uint64, sum float64) {
		t.Helper()
		b.desires.set(in)
		triggers.Note(Manifests, time.Now().Add(-time.Minute))
		triggers.Note(FleetHealth, time.Now().Add(-time.Second))
		b.loop.ask()
		b.loop.notBefore = time.Time{}
		b.loop.step(context.Background())
		counts, total := b.latency()
		if !maps.Equal(counts, want) || total < sum || total > sum+60 {
			t.Errorf("%v in %v s, want %v in %v s", counts, total, want, sum)
		}
	}
	none := map[Cause]uint64{Manifests: 0, FleetHealth: 0, HostAddresses: 0, Repair: 0}
	once := map[Cause]uint64{Manifests: 1, FleetHealth: 1, HostAddresses: 0, Repair: 0}
	write(t, filepath.Join(dir, "fail"), "1")
	change(loopInput(2, 3), none, 0)
	change(loopInput(2, 3), once, 61)
	change(loopInput(2, 3), once, 61)
	change(loopInput(3, 3), map[Cause]uint64{Manifests: 2, FleetHealth: 2, HostAddresses: 0, Repair: 0}, 122)
}

// latency gives how often what waited was measured, by cause, and the sum of
// it, in seconds.
func (b *loopBench) latency() (counts map[Cause]uint64, sum float64) {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	counts = map[Cause]uint64{}
	for _, f := range families {
		if f.GetName() != "pointsman_network_programming_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			counts[Cause(m.GetLabel()[0].GetValue())] = m.GetHistogram().GetSampleCount()
			sum += m.GetHistogram().GetSampleSum()
		}
	}
	return counts, sum
}
