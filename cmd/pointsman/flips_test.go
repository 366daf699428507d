package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/state"
	"pointsman/state/event"
)

// at is a time that tests show.
var at = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

// fleetSaw is a judgement of two hosts that say the same.
func fleetSaw(v state.Verdict) *state.Judgement {
	votes := []state.Vote{{Observer: "n1", Verdict: v}, {Observer: "n2", Verdict: v}}
	if v == state.Down {
		votes[0].Failure, votes[1].Failure = state.Refused, state.TimedOut
	}
	return &state.Judgement{Verdict: v, Since: at, Votes: votes}
}

// The causes of the tests, by the word for each.
var causes = map[string]*state.Cause{
	"":        nil,
	"down":    {Kind: state.SeenDown, Judgement: fleetSaw(state.Down)},
	"untried": {Kind: state.Untried},
	"drained": {Kind: state.Drained, Drain: &state.Drain{By: "n3", Until: at, Reason: "upgrade"}},
	"kept":    {Kind: state.KeptAnyway, Judgement: fleetSaw(state.Down)},
}

// served makes a Service whose endpoints 10.0.0.1:80 and so on are as a word each says;
// - is none.
func served(name string, words ...string) *state.Service {
	s := &state.Service{ObjectName: state.ObjectName{Namespace: "shop", Name: name}, Ports: []state.Port{{Protocol: state.TCP}}}
	for i, w := range words {
		if w == "-" {
			continue
		}
		address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i + 1)}), 80)
		s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, state.Endpoint{Address: address, NodeName: "n9", Cause: causes[w], Check: &state.Check{Key: state.CheckKey(i)}})
	}
	return s
}

func TestFlips(t *testing.T) {
	same := served("same", "down")
	for _, c := range []struct {
		name          string
		before, after []*state.Service
		want          string // reason and address of each
	}{
		{"nothing", nil, nil, ""},
		{"the same", []*state.Service{same}, []*state.Service{same}, ""},
		{"down", []*state.Service{served("a", "", "")}, []*state.Service{served("a", "", "down")}, "EndpointDown 10.0.0.2:80"},
		{"up", []*state.Service{served("a", "down", "")}, []*state.Service{served("a", "", "")}, "EndpointUp 10.0.0.1:80"},
		{"the first verdict", []*state.Service{served("a", "untried", "untried")}, []*state.Service{served("a", "", "down")}, "EndpointUp 10.0.0.1:80, EndpointDown 10.0.0.2:80"},
		{"waits", []*state.Service{served("a", "")}, []*state.Service{served("a", "untried")}, ""},
		{"drained", []*state.Service{served("a", "down", "", "kept")}, []*state.Service{served("a", "drained", "drained", "drained")},
			"EndpointDrained 10.0.0.1:80, EndpointDrained 10.0.0.2:80, EndpointDrained 10.0.0.3:80"},
		{"no longer drained", []*state.Service{served("a", "drained", "drained", "drained", "drained")}, []*state.Service{served("a", "down", "", "untried", "kept")},
			"EndpointDown 10.0.0.1:80, EndpointUndrained 10.0.0.2:80, EndpointUndrained 10.0.0.3:80, EndpointUndrained 10.0.0.4:80"},
		{"kept is told of the Service", []*state.Service{served("a", "down", "")}, []*state.Service{served("a", "kept", "kept")}, ""},
		{"no longer kept", []*state.Service{served("a", "kept", "kept")}, []*state.Service{served("a", "down", "")}, "EndpointDown 10.0.0.1:80, EndpointUp 10.0.0.2:80"},
		{"what comes and goes by the manifests", []*state.Service{served("a", "", "-", "down"), served("b", "down")},
			[]*state.Service{served("0", "down"), served("a", "-", "down", "down"), served("c", "down")}, ""},
		{"among others", []*state.Service{served("a", ""), served("b", ""), served("c", "")},
			[]*state.Service{served("a", ""), served("c", "down"), served("d", "down")}, "EndpointDown 10.0.0.1:80"},
	} {
		var got []string
		for _, f := range flips(c.before, c.after) {
			got = append(got, fmt.Sprintf("%s %s", f.reason, f.endpoint.Address))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, not %s", c.name, text, c.want)
		}
	}
}

// TestFlipsOnce: an endpoint behind two ports flips once, and ports are told apart
// by name and protocol.
func TestFlipsOnce(t *testing.T) {
	two := func(first, second string) *state.Service {
		s := served("a", first)
		s.Ports = append(s.Ports, served("a", second).Ports[0])
		s.Ports[1].Name = "other"
		return s
	}
	if got := flips([]*state.Service{two("", "")}, []*state.Service{two("down", "down")}); len(got) != 1 {
		t.Errorf("%d flips", len(got))
	}
	if got := flips([]*state.Service{two("", "down")}, []*state.Service{two("", "down")}); len(got) != 0 {
		t.Errorf("%d flips", len(got))
	}
}

func TestFlipText(t *testing.T) {
	none := state.Verdicts{}
	up := none.With(map[state.CheckKey]*state.Judgement{0: fleetSaw(state.Up)})
	for _, c := range []struct {
		was, is  string
		verdicts state.Verdicts
		want     string
	}{
		{"", "down", none, "10.0.0.1:80 of shop/a is down: n1: connection refused, n2: timed out (since 2026-11-30T03:00:00Z)"},
		{"down", "", up, "10.0.0.1:80 of shop/a is up: n1: answers, n2: answers (since 2026-11-30T03:00:00Z)"},
		{"down", "", none, "10.0.0.1:80 of shop/a is up: nobody says otherwise"},
		{"", "drained", none, "10.0.0.1:80 of shop/a is drained by n3 until 2026-11-30T03:00:00Z: upgrade"},
		{"drained", "", none, "10.0.0.1:80 of shop/a is no longer drained"},
	} {
		all := flips([]*state.Service{served("a", c.was)}, []*state.Service{served("a", c.is)})
		if got := all[0].text(&c.verdicts); got != c.want {
			t.Errorf("%s -> %s: %s\nnot %s", c.was, c.is, got, c.want)
		}
	}
}

// TestMassFlip: when a rack dies, the first endpoints are told of each by itself,
// and of the rest there's a sum.
func TestMassFlip(t *testing.T) {
	log := event.NewLog("n1", event.Most)
	var before, after []*state.Service
	for i := range 1000 {
		name := fmt.Sprintf("s%04d", i)
		is := slices.Repeat([]string{"down"}, 10)
		if i == 999 {
			is[9] = "drained"
		}
		before, after = append(before, served(name, slices.Repeat([]string{""}, 10)...)), append(after, served(name, is...))
	}
	tellFlips(slog.New(&event.Tap{Level: slog.LevelInfo, Take: log.Take}), flips(before, after), &state.Verdicts{})
	events, _ := log.After(0)
	if len(events) != maxFlips+2 {
		t.Fatalf("%d events", len(events))
	}
	for i, want := range []string{
		"and 9949 more endpoints down, of 995 Services: shop/s0005 (10), shop/s0006 (10), shop/s0007 (10), shop/s0008 (10), shop/s0009 (10), 990 more",
		"and 1 more endpoint drained, of 1 Service: shop/s0999 (1)",
	} {
		if got := events[maxFlips+i]; got.Message != want || got.Object != "Node n1" {
			t.Errorf("%s: %s, not %s", got.Object, got.Message, want)
		}
	}
	if e := events[0]; e.Type != event.Warning || e.Object != "Service shop/s0000" || e.Endpoint != "10.0.0.1:80" || e.Node != "n9" {
		t.Errorf("%+v", e)
	}
}

func TestKeptText(t *testing.T) {
	got := keptText(served("a", "kept", "", "kept", "kept", "kept"))
	want := "shop/a is served by endpoints that fail their probes, since too few would be left: " +
		"10.0.0.1:80: n1: connection refused, n2: timed out (since 2026-11-30T03:00:00Z); " +
		"10.0.0.3:80: n1: connection refused, n2: timed out (since 2026-11-30T03:00:00Z); " +
		"10.0.0.4:80: n1: connection refused, n2: timed out (since 2026-11-30T03:00:00Z); 1 more"
	if got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}

// BenchmarkFlips: 10,000 Services of 10 endpoints, of which one, or all, are
// another pointer.
func BenchmarkFlips(b *testing.B) {
	var before []*state.Service
	for i := range 10000 {
		before = append(before, served(fmt.Sprintf("s%05d", i), slices.Repeat([]string{""}, 10)...))
	}
	one, all := slices.Clone(before), []*state.Service{}
	one[5000] = served(one[5000].Name, slices.Repeat([]string{"down"}, 10)...)
	for _, s := range before {
		all = append(all, served(s.Name, slices.Repeat([]string{"down"}, 10)...))
	}
	for name, after := range map[string][]*state.Service{"one": one, "all": all} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				flips(before, after)
			}
		})
	}
}
