package change

import (
	"slices"
	"testing"

	"pointsman/state"
)

// BenchmarkJudge judges, for 10,000 Services with 100,000 endpoints, a change to
// one Service, as nearly all are, and one that takes a tenth of them away.
func BenchmarkJudge(b *testing.B) {
	before := fleet(10_000, 10)
	one := slices.Clone(before)
	one[5000] = with(one[5000], func(s *state.Service) { s.Ports[0].Endpoints = s.Ports[0].Endpoints[1:] })
	for name, after := range map[string][]*state.Service{"one": one, "tenth": before[1000:]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Judge(before, after, "n1", Limits{Percent: 30})
			}
		})
	}
}
