package change

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// service makes a Service of one port, with a number of ready endpoints from a
// first one on.
func service(name string, first, n int) *state.Service {
	p := state.Port{Protocol: state.TCP, Frontends: []state.Frontend{{Kind: state.ClusterIP, Address: netip.MustParseAddr("10.96.0.1"), Port: 80}}}
	for i := range n {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, byte((first + i) >> 8), byte(first + i)}), 8080)
		p.Endpoints = append(p.Endpoints, state.Endpoint{Address: a, Ready: true, Serving: true})
	}
	return &state.Service{ObjectName: state.ObjectName{Namespace: "default", Name: name}, Ports: []state.Port{p}}
}

// fleet makes Services s00000, s00001, ... with n endpoints each.
func fleet(services, n int) []*state.Service {
	var out []*state.Service
	for i := range services {
		out = append(out, service(fmt.Sprintf("s%05d", i), i*n, n))
	}
	return out
}

// with gives a copy of a Service that was changed.
func with(s *state.Service, change func(*state.Service)) *state.Service {
	c := *s
	c.Ports = slices.Clone(s.Ports)
	for i := range c.Ports {
		c.Ports[i].Endpoints = slices.Clone(c.Ports[i].Endpoints)
	}
	change(&c)
	return &c
}

func on(nodes ...string) func(*state.Service) {
	return func(s *state.Service) { s.Nodes = append([]string{}, nodes...) }
}

func all(services []*state.Service, change func(*state.Service)) []*state.Service {
	var out []*state.Service
	for _, s := range services {
		out = append(out, with(s, change))
	}
	return out
}

func TestJudge(t *testing.T) {
	limits := Limits{Percent: 30}
	moved := func(s *state.Service) {
		for k := range s.Ports[0].Endpoints {
			e := &s.Ports[0].Endpoints[k]
			e.Address = netip.AddrPortFrom(e.Address.Addr(), 9090)
		}
	}
	down := func(s *state.Service) {
		for k := range s.Ports[0].Endpoints {
			s.Ports[0].Endpoints[k].Ready, s.Ports[0].Endpoints[k].Serving = false, false
		}
	}
	elsewhere := func(s *state.Service) {
		s.Ports[0].Frontends = []state.Frontend{{Kind: state.ClusterIP, Address: netip.MustParseAddr("10.96.0.2"), Port: 80}}
	}
	hundred, four := fleet(100, 2), fleet(4, 2)
	for _, c := range []struct {
		name          string
		before, after []*state.Service
		limits        Limits
		want          string // reasons
	}{
		{"nothing", hundred, hundred, limits, ""},
		{"the first state", nil, hundred, limits, ""},
		{"30 of 100", hundred, hundred[30:], limits, ""},
		{"31 of 100", hundred, hundred[31:], limits, "31 of 100 Services would go, more than 30 %; 62 of 200 endpoints would go, more than 30 %"},
		{"10 of 11", fleet(11, 1), fleet(11, 1)[10:], limits, ""},
		{"11 of 12", fleet(12, 1), fleet(12, 1)[11:], limits, "11 of 12 Services would go, more than 30 %; 11 of 12 endpoints would go, more than 30 %"},
		{"all of four", four, nil, limits, "no Service is left"},
		{"all of four, others come", four, []*state.Service{service("t", 0, 1)}, limits, ""},
		{"all of four, on purpose", four, nil, Limits{Percent: 30, AllowEmpty: true}, ""},
		{"all of a hundred, on purpose", hundred, nil, Limits{Percent: 30, AllowEmpty: true},
			"100 of 100 Services would go, more than 30 %; 200 of 200 endpoints would go, more than 30 %"},
		{"all of a hundred, and no limit", hundred, nil, Limits{Percent: 100, AllowEmpty: true}, ""},
		{"all of four, and no limit", four, nil, Limits{Percent: 100}, "no Service is left"},
		{"every endpoint of a small fleet", four, all(four, moved), limits, ""},
		{"every endpoint of a large one", hundred, all(hundred, moved), limits, "200 of 200 endpoints would go, more than 30 %"},
		{"none is ready any more", hundred, all(hundred, down), limits, "200 of 200 endpoints would go, more than 30 %"},
		{"what wasn't in use may go", all(hundred, down), all(hundred, func(s *state.Service) { s.Ports[0].Endpoints = nil }), limits, ""},
		{"no host is selected", hundred, all(hundred, on()), limits, "no Service is left; 100 of 100 Services would go, more than 30 %; 200 of 200 endpoints would go, more than 30 %"},
		{"other hosts are selected", hundred, all(hundred, on("n2")), limits, "100 of 100 Services of this host would go, more than 30 %; 200 of 200 endpoints of this host would go, more than 30 %"},
		{"this host isn't concerned", all(hundred, on("n3")), all(hundred, on("n2")), limits, ""},
		{"every address moves", hundred, all(hundred, elsewhere), limits, "100 of 100 frontends would go, more than 30 %"},
		{"every address moves, of few", four, all(four, elsewhere), limits, ""},
		{"addresses come", hundred, all(hundred, func(s *state.Service) {
			s.Ports[0].Frontends = append(s.Ports[0].Frontends[:1:1], state.Frontend{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30080})
		}), limits, ""},
		{"NodePorts go", all(hundred, func(s *state.Service) {
			s.Ports[0].Frontends = append(s.Ports[0].Frontends[:1:1], state.Frontend{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30080})
		}), hundred, limits, "100 of 200 frontends would go, more than 30 %"},
		{"nothing to reach it by", four, all(four, func(s *state.Service) { s.Ports[0].Frontends = nil }), limits, "no Service is left"},
	} {
		v := Judge(c.before, c.after, "n1", c.limits)
		if got := strings.Join(v.Reasons, "; "); got != c.want || v.Held() != (c.want != "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLossNamesTheFirst(t *testing.T) {
	v := Judge(fleet(20, 1), fleet(20, 1)[12:], "n1", Limits{Percent: 30})
	if want := []string{"default/s00000", "default/s00001", "default/s00002", "default/s00003", "default/s00004"}; !slices.Equal(v.Services.First, want) {
		t.Errorf("%q, want %q", v.Services.First, want)
	}
	if v.Endpoints.First[0] != "10.20.0.0:8080 of default/s00000" || v.Endpoints.Gone != 12 || v.Endpoints.Before != 20 {
		t.Errorf("%+v", v.Endpoints)
	}
}

// Of a change that is too much for one host it's told what that one loses.
func TestLossOfThisHost(t *testing.T) {
	before := fleet(100, 1)
	after := slices.Concat(all(before[:20], on("n2")), before[23:])
	v := Judge(before[:40], after[:37], "n1", Limits{Percent: 50})
	if v.Services.Gone != 23 || v.Services.Before != 40 || len(v.Reasons) != 2 {
		t.Errorf("%+v", v)
	}
	if v := Judge(before[:40], after[:37], "n2", Limits{Percent: 50}); v.Services.Gone != 3 || v.Held() {
		t.Errorf("%+v", v)
	}
}

// drawFleet draws Services of few names, nodes and endpoints, so that two
// fleets meet.
func drawFleet(t *rapid.T, label string) []*state.Service {
	var out []*state.Service
	for i := range rapid.IntRange(0, 40).Draw(t, label) {
		if rapid.Bool().Draw(t, "there") {
			s := service(fmt.Sprintf("s%05d", i), rapid.IntRange(0, 5).Draw(t, "first"), rapid.IntRange(0, 4).Draw(t, "n"))
			s.Ports[0].Frontends[0].Port = rapid.Uint16Range(80, 81).Draw(t, "port")
			if rapid.IntRange(0, 3).Draw(t, "selected") == 0 {
				s.Nodes = rapid.SampledFrom([][]string{{}, {"n1"}, {"n2"}, {"n1", "n2"}}).Draw(t, "nodes")
			}
			out = append(out, s)
		}
	}
	return out
}

// Whatever isn't held leaves more than nothing, and what it takes away is within
// the limits; and what only adds is never held.
func TestJudgeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawFleet(t, "before"), drawFleet(t, "after")
		l := Limits{Percent: rapid.IntRange(0, 100).Draw(t, "percent")}
		v := Judge(before, after, "n1", l)
		served := slices.ContainsFunc(after, isServed)
		if !v.Held() {
			if slices.ContainsFunc(before, isServed) && !served {
				t.Fatal("everything goes and nothing is held")
			}
			for _, loss := range []Loss{v.Services, v.Endpoints, v.Frontends} {
				if loss.Gone > atLeast && loss.Gone*100 > l.Percent*loss.Before {
					t.Fatalf("%+v is let through", loss)
				}
			}
		}
		counted := v.Held() || max(v.Services.Gone, v.Endpoints.Gone, v.Frontends.Gone) > atLeast
		if counted && (v.Services.Gone > v.Services.Before || v.Endpoints.Gone > v.Endpoints.Before || v.Frontends.Gone > v.Frontends.Before) {
			t.Fatalf("more goes than there is: %+v", v)
		}
		more := slices.Concat(before, []*state.Service{service("t", 0, 1)})
		if v := Judge(before, more, "n1", Limits{}); v.Held() {
			t.Fatalf("an addition is held: %q", v.Reasons)
		}
	})
}

// Compare and the endpoints of its pairs are the way from the one to the other.
func TestCompareLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawFleet(t, "before"), drawFleet(t, "after")
		d, back := Compare(before, after), Compare(after, before)
		if len(before)-len(d.Removed)+len(d.Added) != len(after) || len(d.Changed) != len(back.Changed) || len(d.Added) != len(back.Removed) {
			t.Fatalf("%+v and %+v", d, back)
		}
		if d := Compare(before, all(before, func(*state.Service) {})); !d.Empty() {
			t.Fatalf("copies differ: %+v", d)
		}
		for _, p := range d.Changed {
			added, removed := p.Endpoints()
			if len(added)+len(removed)+len(p.Fields()) == 0 {
				t.Fatalf("%v and %v differ, and nobody knows in what", p.Before, p.After)
			}
		}
	})
}

func TestFields(t *testing.T) {
	before := service("web", 0, 3)
	after := with(before, func(s *state.Service) {
		s.ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.2"), netip.MustParseAddr("fd00::2")}
		s.Nodes = []string{"n1", "n2"}
		s.Source.Line = 7
		s.Ports[0].Frontends = append(slices.Clone(s.Ports[0].Frontends), state.Frontend{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30080})
		s.Ports[0].Endpoints[0].Ready = false
		s.Ports[0].Endpoints = s.Ports[0].Endpoints[:2]
	})
	want := []Field{
		{"clusterIPs", "", "10.96.0.2, fd00::2"},
		{"nodes that serve it", "all", "n1, n2"},
		{"addresses", "10.96.0.1:80/TCP", "10.96.0.1:80/TCP, NodePort 30080 (IPv4)/TCP"},
		{"endpoints that stay", "", "1 are declared otherwise"},
	}
	d := Compare([]*state.Service{before}, []*state.Service{after})
	if len(d.Changed) != 1 || !slices.Equal(d.Changed[0].Fields(), want) {
		t.Fatalf("%+v\nwant %+v", d.Changed[0].Fields(), want)
	}
	added, removed := d.Changed[0].Endpoints()
	if len(added) != 0 || len(removed) != 1 || removed[0].Address.String() != "10.20.0.2:8080" {
		t.Errorf("%v %v", added, removed)
	}
	moved := with(before, func(s *state.Service) { s.Source.File = "other.yaml" })
	if d := Compare([]*state.Service{before}, []*state.Service{moved}); !d.Empty() {
		t.Errorf("where it's declared counts: %+v", d)
	}
}
