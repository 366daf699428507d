package state

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// world is a Service with one port, and what is known of it, read from a text:
// endpoints separated by semicolons, each a number (its address), its
// conditions (r, s and t, or -), then words:
//
//	up, down, lapsed   probed, with this verdict (lapsed: unknown for too long)
//	untried, doubted   probed, without one; doubted: there are votes
//	home, homedown     not probed, and without a verdict, or down with its home
//	drained, v6
func world(text string) (*Service, *Health) {
	s := &Service{ObjectName: ObjectName{"shop", "web"}, Ports: []Port{{Protocol: TCP}}}
	h := &Health{Drains: map[DrainTarget]*Drain{}}
	judgements := map[CheckKey]*Judgement{}
	for _, one := range strings.Split(text, ";") {
		words := strings.Fields(one)
		n, _ := strconv.Atoi(words[0])
		e := Endpoint{
			Address:     netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, 0, byte(n)}), 80),
			Ready:       strings.Contains(words[1], "r"),
			Serving:     strings.Contains(words[1], "s"),
			Terminating: strings.Contains(words[1], "t"),
		}
		for _, w := range words[2:] {
			verdict := map[string]Verdict{"up": Up, "down": Down, "homedown": Down}[w]
			switch w {
			case "up", "down", "lapsed", "untried", "doubted":
				e.Check = &Check{Key: CheckKey(n), Probe: &Probe{}}
			case "home", "homedown":
				e.Check = &Check{Key: CheckKey(n), Home: "n1"}
			case "v6":
				e.Address = netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", n)), 80)
			case "drained":
				h.Drains[DrainTarget{Endpoint: e.Address}] = &Drain{}
			}
			if verdict != Unknown || w == "lapsed" || w == "doubted" {
				judgements[CheckKey(n)] = &Judgement{Verdict: verdict, Untried: w == "doubted"}
			}
		}
		s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, e)
	}
	h.Verdicts = h.Verdicts.With(judgements)
	return s, h
}

// effective writes what a Service has become in the same way, with the causes.
func effective(s *Service) string {
	var out []string
	for i, e := range s.Ports[0].Endpoints {
		conditions := ""
		for _, c := range []struct {
			is   bool
			text string
		}{{e.Ready, "r"}, {e.Serving, "s"}, {e.Terminating, "t"}} {
			if c.is {
				conditions += c.text
			}
		}
		if conditions == "" {
			conditions = "-"
		}
		text := fmt.Sprintf("%d %s", i+1, conditions)
		if e.Cause != nil {
			text += " " + e.Cause.Kind.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestOverlay(t *testing.T) {
	for _, c := range []struct{ name, given, want string }{
		{"nothing known", "1 rs; 2 s; 3 st; 4 -; 5 rst", "1 rs; 2 s; 3 st; 4 -; 5 rst"},
		{"up adds nothing to what is declared", "1 rs up; 2 st up; 3 - up", "1 rs; 2 st; 3 -"},
		{"down", "1 rs down; 2 rs up; 3 rs home", "1 - seen down; 2 rs; 3 rs"},
		{"down, and not declared ready", "1 s down; 2 rs up; 3 - down", "1 - seen down; 2 rs; 3 -"},
		{"unknown for too long is usable", "1 rs lapsed; 2 rs up", "1 rs; 2 rs"},
		{"a dead home", "1 rs homedown; 2 rs home", "1 - seen down; 2 rs"},
		{"publishNotReadyAddresses: ready though terminating", "1 rst up; 2 rst down", "1 rst; 2 t seen down"},

		// Untried ones.
		{"all untried", "1 rs untried; 2 rs untried", "1 rs; 2 rs"},
		{"untried beside one that is up", "1 rs untried; 2 rs up", "1 s untried; 2 rs"},
		{"one vote is no verdict yet", "1 rs doubted; 2 rs up", "1 s untried; 2 rs"},
		{"untried beside ones that are down", "1 rs untried; 2 rs down", "1 rs; 2 - seen down"},
		{"untried beside unprobed ones", "1 rs untried; 2 rs home; 3 rs lapsed", "1 rs; 2 rs; 3 rs"},
		{"up, but of no use", "1 rs untried; 2 rs up drained; 3 s up", "1 rs; 2 st drained; 3 s"},
		{"up in the other family", "1 rs untried; 2 rs up v6", "1 rs; 2 rs"},
		{"terminating and untried", "1 st untried; 2 rs up", "1 st; 2 rs"},

		// Drains.
		{"a drain", "1 rs drained; 2 rs", "1 st drained; 2 rs"},
		{"all drained still serve", "1 rs drained; 2 rs up drained", "1 st drained; 2 st drained"},
		{"drained and down", "1 rs down drained; 2 rs", "1 t drained; 2 rs"},
		{"drained while terminating already", "1 st drained; 2 rs", "1 st drained; 2 rs"},
		{"a drain brings nothing into use", "1 s drained; 2 - drained", "1 s; 2 -"},
		{"ready, but not declared serving", "1 r drained; 2 rs", "1 st drained; 2 rs"},

		// All fail.
		{"all down", "1 rs down; 2 rs down; 3 s down", "1 rs kept anyway; 2 rs kept anyway; 3 - seen down"},
		{"all of dead homes", "1 rs homedown; 2 rs homedown", "1 rs kept anyway; 2 rs kept anyway"},
		{"the last is declared not ready", "1 rs down; 2 - up", "1 rs kept anyway; 2 -"},
		{"the drained one is left", "1 rs down; 2 rs up drained", "1 - seen down; 2 st drained"},
		{"the terminating one is left", "1 rs down; 2 st", "1 - seen down; 2 st"},
		{"the terminating one is down too", "1 rs down; 2 st down", "1 rs kept anyway; 2 t seen down"},
		{"the drained one is down too", "1 rs down; 2 rs down drained", "1 rs kept anyway; 2 t drained"},
		{"each family by itself", "1 rs down; 2 rs up v6", "1 rs kept anyway; 2 rs"},
		{"nothing declared", "1 - down; 2 -", "1 -; 2 -"},

		// With no regular endpoint declared, the fallback is the Service.
		{"terminating ones, one of them down", "1 st down; 2 st up", "1 t seen down; 2 st"},
		{"terminating ones, all down", "1 st down; 2 st down; 3 s down", "1 st kept anyway; 2 st kept anyway; 3 - seen down"},
		{"drained and down, nothing else", "1 rs down drained; 2 s", "1 st kept anyway; 2 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, h := world(c.given)
			before := effective(s)
			if got := effective(Overlay([]*Service{s}, h)[0]); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if effective(s) != before {
				t.Error("the argument was changed")
			}
		})
	}
}

func TestOverlayWhenAllFailReject(t *testing.T) {
	for given, want := range map[string]string{
		"1 rs down; 2 rs down":            "1 - seen down; 2 - seen down",
		"1 st down":                       "1 t seen down",
		"1 rs down drained":               "1 t drained",
		"1 rs down; 2 rs up; 3 rs lapsed": "1 - seen down; 2 rs; 3 rs",
	} {
		s, h := world(given)
		s.RejectWhenAllFail, s.PanicThreshold = true, 100
		if got := effective(Overlay([]*Service{s}, h)[0]); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", given, got, want)
		}
	}
}

func TestOverlayPanicThreshold(t *testing.T) {
	for _, c := range []struct {
		percent     int
		given, want string
	}{
		{50, "1 rs up; 2 rs down", "1 rs; 2 - seen down"},
		{51, "1 rs up; 2 rs down", "1 rs; 2 rs kept anyway"},
		{50, "1 rs up; 2 rs down; 3 rs down", "1 rs; 2 rs kept anyway; 3 rs kept anyway"},
		{100, "1 rs up; 2 rs up; 3 rs lapsed; 4 rs", "1 rs; 2 rs; 3 rs; 4 rs"},
		{100, "1 rs home; 2 rs down", "1 rs; 2 rs kept anyway"},
		// Drained and not ready ones are no part of the share, nor those of the
		// other family.
		{50, "1 rs up; 2 rs down; 3 rs up drained; 4 - up; 5 rs up v6", "1 rs; 2 - seen down; 3 st drained; 4 -; 5 rs"},
		{51, "1 rs up; 2 rs down; 3 rs up drained; 4 - up; 5 rs up v6", "1 rs; 2 rs kept anyway; 3 st drained; 4 -; 5 rs"},
		// Many new ones at once are no reason to panic; in a panic they serve too.
		{50, "1 rs up; 2 rs untried; 3 rs untried", "1 rs; 2 s untried; 3 s untried"},
		{51, "1 rs up; 2 rs down; 3 rs untried", "1 rs; 2 rs kept anyway; 3 rs kept anyway"},
		// It begins before the fallback does.
		{1, "1 rs down; 2 st up", "1 rs kept anyway; 2 st"},
	} {
		s, h := world(c.given)
		s.PanicThreshold = c.percent
		if got := effective(Overlay([]*Service{s}, h)[0]); got != c.want {
			t.Errorf("%d%% %s\ngot  %s\nwant %s", c.percent, c.given, got, c.want)
		}
	}
}

func TestOverlayDrainTargets(t *testing.T) {
	s, _ := world("1 rs; 2 rs")
	s.Ports[0].Endpoints[0].NodeName = "n1"
	first := s.Ports[0].Endpoints[0].Address
	for _, c := range []struct {
		target DrainTarget
		want   string
	}{
		{DrainTarget{Node: "n1"}, "1 st drained; 2 rs"},
		{DrainTarget{Node: "n2"}, "1 rs; 2 rs"},
		{DrainTarget{Service: s.ObjectName}, "1 st drained; 2 st drained"},
		{DrainTarget{Service: ObjectName{"shop", "db"}}, "1 rs; 2 rs"},
		{DrainTarget{Endpoint: first}, "1 st drained; 2 rs"},
		{DrainTarget{Endpoint: netip.AddrPortFrom(first.Addr(), 0)}, "1 st drained; 2 rs"},
		{DrainTarget{Endpoint: netip.AddrPortFrom(first.Addr(), 81)}, "1 rs; 2 rs"},
		// No target at all: nobody's endpoints are drained by it.
		{DrainTarget{}, "1 rs; 2 rs"},
	} {
		h := &Health{Drains: map[DrainTarget]*Drain{c.target: {Target: c.target}}}
		if got := effective(Overlay([]*Service{s}, h)[0]); got != c.want {
			t.Errorf("%v: got %s, want %s", c.target, got, c.want)
		}
		if h.NodeDrained("n1") != (c.target.Node == "n1") {
			t.Errorf("%v: is n1 drained?", c.target)
		}
	}
}

func TestOverlaySaysWhy(t *testing.T) {
	s, h := world("1 rs down; 2 rs down drained; 3 rs up; 4 rs down")
	s.Ports[0].Endpoints[3].Check = nil
	got := Overlay([]*Service{s}, h)[0].Ports[0].Endpoints
	if c := got[0].Cause; c.Judgement != h.Verdicts.Get(1) || c.Drain != nil {
		t.Errorf("down: %+v", c)
	}
	if c := got[1].Cause; c.Judgement != h.Verdicts.Get(2) || c.Drain != h.Drains[DrainTarget{Endpoint: got[1].Address}] {
		t.Errorf("drained and down: %+v", c)
	}
	if got[2].Cause != nil || got[3].Cause != nil {
		t.Errorf("causes of nothing: %+v, %+v", got[2].Cause, got[3].Cause)
	}
}

// What nothing is said about is the same pointer as before: the planner works
// only on Services that are new.
func TestOverlayerKeepsPointers(t *testing.T) {
	s, h := world("1 rs up; 2 rs up; 3 s")
	other, _ := world("4 rs; 5 rs")
	services := []*Service{s, other}
	var o Overlayer
	if got := o.Overlay(services, h); got[0] != s || got[1] != other {
		t.Fatal("nothing is down, and yet they are new")
	}
	down := *h
	down.Verdicts = h.Verdicts.With(map[CheckKey]*Judgement{1: {Verdict: Down}})
	first := o.Overlay(services, &down)
	if first[0] == s || first[1] != other {
		t.Fatal("one endpoint is down: only its Service should be new")
	}

	later := down
	later.Verdicts = down.Verdicts.With(map[CheckKey]*Judgement{2: {Verdict: Up, Votes: []Vote{{Observer: "n1"}}}})
	if second := o.Overlay(services, &later); second[0] != first[0] {
		t.Error("another vote for the same changed the Service")
	}
	later.Drains = map[DrainTarget]*Drain{{Node: "n9"}: {}}
	if third := o.Overlay(services, &later); third[0] != first[0] || third[1] != other {
		t.Error("the drain of a node without endpoints changed Services")
	}
	later.Verdicts = later.Verdicts.With(map[CheckKey]*Judgement{1: {Verdict: Down, Votes: []Vote{{Observer: "n1"}}}})
	if fourth := o.Overlay(services, &later); fourth[0].Ports[0].Endpoints[0].Cause.Judgement != later.Verdicts.Get(1) {
		t.Error("down on other evidence, and the old is shown")
	}

	drain := func() map[DrainTarget]*Drain {
		return map[DrainTarget]*Drain{{Service: s.ObjectName}: {Reason: "move"}}
	}
	later.Drains = drain()
	fifth := o.Overlay(services, &later)
	later.Drains = drain()
	if sixth := o.Overlay(services, &later); sixth[0] != fifth[0] || fifth[0] == s {
		t.Error("an equal drain changed its Service")
	}
	if last := o.Overlay(services, h); last[0] != s || last[1] != other {
		t.Error("up again, and not as declared")
	}
}

func TestVerdictsAreImmutable(t *testing.T) {
	var none Verdicts
	one := none.With(map[CheckKey]*Judgement{1: {Verdict: Up}, 257: {Verdict: Down}})
	two := one.With(map[CheckKey]*Judgement{1: nil, 258: {Verdict: Up}})
	count := func(v *Verdicts) (n int) {
		for range v.All() {
			n++
		}
		return n
	}
	if count(&none) != 0 || count(&one) != 2 || count(&two) != 2 {
		t.Errorf("%d, %d and %d verdicts", count(&none), count(&one), count(&two))
	}
	if one.Get(1) == nil || two.Get(1) != nil || two.Get(257) != one.Get(257) || none.Get(258) != nil {
		t.Error("a change showed in another value")
	}
}
