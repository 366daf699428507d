package state

import (
	"fmt"
	"net/netip"
	"testing"
)

// fleet is 10,000 Services of 10 probed endpoints each, of which some percent
// are seen down.
func fleet(percentDown int) ([]*Service, *Health) {
	var services []*Service
	judgements := map[CheckKey]*Judgement{}
	n := uint64(0)
	for i := range 10_000 {
		s := &Service{ObjectName: ObjectName{"bench", fmt.Sprint(i)}, Ports: []Port{{}}}
		for range 10 {
			n++
			key := CheckKey(n * 0x9e3779b97f4a7c15)
			s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, Endpoint{
				Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 80),
				Ready:   true, Serving: true, NodeName: "n1", Check: &Check{Key: key, Probe: &Probe{}},
			})
			verdict := Up
			if n*7919%100 < uint64(percentDown) {
				verdict = Down
			}
			judgements[key] = &Judgement{Verdict: verdict}
		}
		services = append(services, s)
	}
	h := &Health{}
	h.Verdicts = h.Verdicts.With(judgements)
	return services, h
}

func BenchmarkOverlay(b *testing.B) {
	for _, percent := range []int{0, 1, 30} {
		services, h := fleet(percent)
		flip := map[CheckKey]*Judgement{services[0].Ports[0].Endpoints[0].Check.Key: {Verdict: Down}}
		flipped := &Health{Verdicts: h.Verdicts.With(flip)}
		b.Run(fmt.Sprintf("%d%%down/first", percent), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Overlay(services, h)
			}
		})
		b.Run(fmt.Sprintf("%d%%down/unchanged", percent), func(b *testing.B) {
			benchmarkPasses(b, services, h, h)
		})
		b.Run(fmt.Sprintf("%d%%down/one-flip", percent), func(b *testing.B) {
			benchmarkPasses(b, services, h, flipped)
		})
	}
	services, h := fleet(0)
	_, worse := fleet(30)
	b.Run("0-to-30%down", func(b *testing.B) { benchmarkPasses(b, services, h, worse) })
}

// benchmarkPasses measures passes by one Overlayer over one Health and the
// other in turns.
func benchmarkPasses(b *testing.B, services []*Service, one, other *Health) {
	b.ReportAllocs()
	var o Overlayer
	o.Overlay(services, one)
	for b.Loop() {
		one, other = other, one
		o.Overlay(services, one)
	}
}
