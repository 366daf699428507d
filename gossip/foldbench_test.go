package gossip

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func BenchmarkFold(b *testing.B) {
	names, checks := hosts(100), manyChecks(100_000, hosts(100))
	a := Assign(checks, Fleet{Live: names})
	generation := Generation(checks)
	f := NewFolder(names[0], nil)
	f.Assign(a, generation, noon)
	for _, name := range names {
		f.Hear(name, said(name, generation))
	}
	now := noon.Add(silenceGrace)
	f.Fold(now)
	b.Run("all100000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.touchAll()
			f.Fold(now)
		}
	})
	b.Run("assign100000", func(b *testing.B) {
		for b.Loop() {
			f.Assign(a, generation, now)
		}
	})
	for _, flips := range []int{1, 100} {
		b.Run(fmt.Sprintf("%dflips", flips), func(b *testing.B) { benchmarkFlips(b, f, names[1], flips, now) })
	}
}

// benchmarkFlips has one observer list some of its checks, and none, in turns.
func benchmarkFlips(b *testing.B, f *Folder, observer string, flips int, now time.Time) {
	keys := slices.Sorted(slices.Values(f.voters[observer].keys))[:flips]
	var entries []Entry
	for _, k := range keys {
		entries = append(entries, isDown(k))
	}
	records := [2]*Record{said(observer, f.generation), said(observer, f.generation, entries...)}
	i := 0
	for b.Loop() {
		i++
		f.Hear(observer, records[i%2])
		f.Fold(now)
	}
}
