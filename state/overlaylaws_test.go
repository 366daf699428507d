package state

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// drawn is a history of worlds: the same Services while verdicts, drains and
// the declared conditions change.
type drawn struct {
	t        *rapid.T
	services []*Service
	health   Health
}

func drawEndpoint(t *rapid.T, n int) Endpoint {
	e := Endpoint{
		Ready: rapid.Bool().Draw(t, "ready"), Serving: rapid.Bool().Draw(t, "serving"),
		Terminating: rapid.Bool().Draw(t, "terminating"), NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
	}
	address := netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})
	if rapid.Bool().Draw(t, "v6") {
		address = netip.AddrFrom16([16]byte{0x20, 0x01, 15: byte(n)})
	}
	e.Address = netip.AddrPortFrom(address, 80)
	switch key := CheckKey(rapid.IntRange(0, 5).Draw(t, "key")) * 128; rapid.IntRange(0, 2).Draw(t, "check") {
	case 1:
		e.Check = &Check{Key: key, Probe: &Probe{}}
	case 2:
		e.Check = &Check{Key: key, Home: e.NodeName}
	}
	return e
}

func drawService(t *rapid.T, n int) *Service {
	s := &Service{
		ObjectName:        ObjectName{"ns", strconv.Itoa(n)},
		RejectWhenAllFail: rapid.Bool().Draw(t, "reject"),
		PanicThreshold:    rapid.SampledFrom([]int{0, 0, 50, 100}).Draw(t, "panic"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "ports") {
		var p Port
		for i := range rapid.IntRange(0, 5).Draw(t, "endpoints") {
			p.Endpoints = append(p.Endpoints, drawEndpoint(t, i))
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

func (d *drawn) step() {
	switch t := d.t; rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		i := rapid.IntRange(0, len(d.services)-1).Draw(t, "service")
		d.services[i] = drawService(t, i)
	case 1:
		target := rapid.SampledFrom([]DrainTarget{
			{Node: "n1"}, {Service: ObjectName{"ns", "0"}}, {Endpoint: netip.MustParseAddrPort("10.0.0.1:0")},
		}).Draw(t, "target")
		drains := map[DrainTarget]*Drain{target: {Target: target}}
		if rapid.Bool().Draw(t, "undrain") {
			drains = nil
		}
		d.health.Drains = drains
	default:
		change := map[CheckKey]*Judgement{}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			key := CheckKey(rapid.IntRange(0, 5).Draw(t, "key")) * 128
			change[key] = rapid.SampledFrom([]*Judgement{
				nil, {Verdict: Up}, {Verdict: Down}, {Verdict: Unknown}, {Untried: true}, {Verdict: Down, Held: true},
			}).Draw(t, "judgement")
		}
		d.health.Verdicts = d.health.Verdicts.With(change)
	}
}

func TestOverlayerIsOverlay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t: t, services: []*Service{drawService(t, 0), drawService(t, 1), drawService(t, 2)}}
		var o Overlayer
		var before, former []*Service
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			health := d.health
			got, want := o.Overlay(d.services, &health), Overlay(d.services, &health)
			for i, s := range d.services {
				if (want[i] == s) != (got[i] == s) || sameOr(want[i], got[i]) != want[i] {
					t.Fatalf("service %d differs from the stateless outcome", i)
				}
				if former != nil && s == before[i] && got[i] != former[i] && sameOr(former[i], got[i]) == former[i] {
					t.Fatalf("service %d is the same as last time, and has another pointer", i)
				}
			}
			before, former = slices.Clone(d.services), got
			d.step()
		}
	})
}

// The laws that hold whatever is declared and seen.
func TestOverlayLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t: t, services: []*Service{drawService(t, 0)}}
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			d.step()
		}
		s := d.services[0]
		got := Overlay(d.services, &d.health)[0]
		for p := range s.Ports {
			checkLaws(t, s, s.Ports[p].Endpoints, got.Ports[p].Endpoints)
		}
	})
}

func checkLaws(t *rapid.T, s *Service, declared, got []Endpoint) {
	usable := func(all []Endpoint, v6 bool) (n int) {
		for _, e := range all {
			if e.Address.Addr().Is6() == v6 && (e.Ready || e.Serving && e.Terminating) {
				n++
			}
		}
		return n
	}
	for _, v6 := range []bool{false, true} {
		if usable(declared, v6) > 0 && usable(got, v6) == 0 && !s.RejectWhenAllFail {
			t.Fatalf("health leaves nothing of %v", declared)
		}
	}
	for i, was := range declared {
		is := got[i]
		if is.Cause == nil && (is.Ready != was.Ready || is.Serving != was.Serving || is.Terminating != was.Terminating) {
			t.Fatalf("endpoint %d changed without a cause", i)
		}
		if is.Ready && !was.Ready || is.Serving && !was.Serving && !was.Ready {
			t.Fatalf("endpoint %d is better than declared", i)
		}
		if is.Ready && is.Cause != nil && is.Cause.Kind != KeptAnyway {
			t.Fatalf("endpoint %d is ready, though %s", i, is.Cause.Kind)
		}
		if s.RejectWhenAllFail && is.Cause != nil && is.Cause.Kind == KeptAnyway {
			t.Fatalf("endpoint %d is kept against its Service's wish", i)
		}
	}
}
