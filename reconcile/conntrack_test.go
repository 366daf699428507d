package reconcile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// udpService is a Service dns with a ClusterIP, an externalIP and a NodePort.
// Endpoints are addresses with conditions behind them: r(eady), s(erving),
// t(erminating).
func udpService(vip string, endpoints ...string) *state.Service {
	s := &state.Service{
		ObjectName: state.ObjectName{Namespace: "default", Name: "dns"}, ClusterIPs: addrs(vip),
		InternalTrafficPolicy: state.Cluster, ExternalTrafficPolicy: state.Cluster,
		Ports: []state.Port{{Protocol: state.UDP, Frontends: []state.Frontend{
			{Kind: state.ClusterIP, Address: netip.MustParseAddr(vip), Port: 53},
			{Kind: state.ExternalIP, Address: netip.MustParseAddr("192.0.2.12"), Port: 53},
			{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30053},
		}}},
	}
	for _, text := range endpoints {
		address, conditions, _ := strings.Cut(text, " ")
		s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, state.Endpoint{
			Address: netip.MustParseAddrPort(address), NodeName: "n2",
			Ready: strings.Contains(conditions, "r"), Serving: strings.Contains(conditions, "s"), Terminating: strings.Contains(conditions, "t"),
		})
	}
	return s
}

func udpInput(services ...*state.Service) *Input {
	return &Input{Services: services, Node: Node{Name: "n1"}, NodePortAddresses: addrs("192.0.2.11", "2001:db8::11")}
}

// flowOf makes a flow of a client's, from "destination backend".
func flowOf(text string) host.Flow {
	destination, backend, _ := strings.Cut(text, " ")
	f := host.Flow{Destination: netip.MustParseAddrPort(destination), ReplySource: netip.MustParseAddrPort(backend)}
	f.Source = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.50"), 40000)
	return f
}

func rulesOf(f nft.Family, in *Input, former ...string) *flowRules {
	r := &flowRules{former: map[netip.AddrPort]time.Time{}}
	left := map[netip.AddrPort]bool{}
	for _, text := range former {
		left[netip.MustParseAddrPort(text)] = true
	}
	now, _ := udpFrontendsOf(f, in, time.Time{})
	r.update(now, left, time.Time{})
	return r
}

func TestJudge(t *testing.T) {
	const (
		toClusterIP = "10.96.0.10:53 "
		toExternal  = "192.0.2.12:53 "
		toNodePort  = "192.0.2.11:30053 "
		a, b        = "10.20.0.11:5353", "10.20.0.12:5353"
	)
	for _, tt := range []struct {
		name      string
		endpoints []string
		flow      string
		want      fate
	}{
		{"to a ready endpoint", []string{a + " rs"}, toClusterIP + a, served},
		{"to one that terminates, beside ready ones", []string{a + " st", b + " rs"}, toClusterIP + a, served},
		{"to one that serves but is not ready", []string{a + " s", b + " rs"}, toNodePort + a, served},
		{"to one that only claims to be ready: new flows go there", []string{a + " r"}, toClusterIP + a, served},
		{"to one that does not serve", []string{a + " t", b + " rs"}, toExternal + a, endpointGone},
		{"to one that is gone", []string{b + " rs"}, toClusterIP + a, endpointGone},
		{"to the last one, which is gone", nil, toClusterIP + a, endpointGone},
		{"by a NodePort to the last one, which is gone", nil, toNodePort + a, endpointGone},
		{"to another port of an endpoint", []string{a + " rs"}, toClusterIP + "10.20.0.11:53", endpointGone},
		{"to an endpoint of the other family", []string{"[2001:db8:20::11]:5353 rs"}, toClusterIP + a, endpointGone},
		{"untranslated", []string{a + " rs"}, toClusterIP + "10.96.0.10:53", untranslated},
		{"untranslated to a NodePort", []string{a + " st"}, toNodePort + "192.0.2.11:30053", untranslated},
		{"untranslated without endpoints", nil, toClusterIP + "10.96.0.10:53", noEndpoint},
		{"untranslated with endpoints that get no new flows", []string{a + " s"}, toClusterIP + "10.96.0.10:53", noEndpoint},
		{"untranslated with endpoints of the other family", []string{"[2001:db8:20::11]:5353 rs"}, toClusterIP + "10.96.0.10:53", noEndpoint},
		{"the externalIP is the endpoint itself", []string{"192.0.2.12:53 rs"}, toExternal + "192.0.2.12:53", served},
		{"another port of the ClusterIP", []string{b + " rs"}, "10.96.0.10:54 " + a, notOurs},
		{"the NodePort's number at another address", []string{b + " rs"}, "192.0.2.12:30053 192.0.2.12:30053", notOurs},
		{"the NodePort's number at an address of this host's that has none", []string{b + " rs"}, "198.51.100.11:30053 " + a, notOurs},
		{"an endpoint by its own address", []string{a + " rs"}, a + " " + a, notOurs},
		{"somebody else's translation", []string{a + " rs"}, "192.0.2.11:8053 172.17.0.2:53", notOurs},
		{"a former frontend", []string{b + " rs"}, "10.96.0.99:53 " + b, frontendGone},
		{"a former frontend, untranslated", []string{b + " rs"}, "10.96.0.99:53 10.96.0.99:53", notOurs},
		{"a frontend that has come back", []string{b + " rs"}, toClusterIP + b, served},
	} {
		r := rulesOf(nft.IPv4, udpInput(udpService("10.96.0.10", tt.endpoints...)), "10.96.0.99:53", "10.96.0.10:53")
		if got := r.judge(flowOf(tt.flow)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestJudgeZones: an untranslated entry in a zone may be Open vSwitch's of a
// flow that is translated elsewhere.
func TestJudgeZones(t *testing.T) {
	r := rulesOf(nft.IPv4, udpInput(udpService("10.96.0.10", "10.20.0.11:5353 rs")))
	for text, want := range map[string]fate{
		"10.96.0.10:53 10.96.0.10:53":   elsewhere,
		"10.96.0.10:53 10.20.0.12:5353": endpointGone,
		"10.96.0.10:53 10.20.0.11:5353": served,
	} {
		f := flowOf(text)
		f.Zoned = true
		if got := r.judge(f); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// drained drains endpoints as of a time.
func drained(s *state.Service, since time.Time, grace time.Duration, endpoints ...string) *state.Service {
	for i := range s.Ports[0].Endpoints {
		e := &s.Ports[0].Endpoints[i]
		if slices.Contains(endpoints, e.Address.String()) {
			e.Ready, e.Serving, e.Terminating = false, true, true
			e.Cause = &state.Cause{Kind: state.Drained, Drain: &state.Drain{Since: since, Grace: grace}}
		}
	}
	return s
}

// TestJudgeDrains: a drain's flows are left alone until its grace is over, and
// where they would go to the same endpoint again.
func TestJudgeDrains(t *testing.T) {
	const (
		byClusterIP = "10.96.0.10:53 "
		byNodePort  = "192.0.2.11:30053 "
		a, b        = "10.20.0.11:53", "10.20.0.12:53"
	)
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ends := since.Add(time.Minute)
	local := func(s *state.Service, internal, external state.TrafficPolicy) *state.Service {
		s.InternalTrafficPolicy, s.ExternalTrafficPolicy = internal, external
		s.Ports[0].Endpoints[0].NodeName = "n1"
		return s
	}
	nowhere := func(s *state.Service) *state.Service {
		s.InternalTrafficPolicy = state.Local
		return s
	}
	both := func() *state.Service { return udpService("10.96.0.10", a+" rs", b+" rs") }
	for _, tt := range []struct {
		name    string
		service *state.Service
		now     time.Time
		flow    string
		want    fate
		next    time.Time
	}{
		{"before", drained(both(), since, time.Minute, a), ends.Add(-1), byClusterIP + a, served, ends},
		{"then", drained(both(), since, time.Minute, a), ends, byClusterIP + a, drainOver, time.Time{}},
		{"by another frontend", drained(both(), since, time.Minute, a), ends, byNodePort + a, drainOver, time.Time{}},
		{"to the other one", drained(both(), since, time.Minute, a), ends, byClusterIP + b, served, time.Time{}},
		{"all are drained", drained(both(), since, time.Minute, a, b), ends, byClusterIP + a, served, time.Time{}},
		{"one after the other", drained(drained(both(), since, time.Minute, a), since, time.Hour, b), ends, byClusterIP + a, served, since.Add(time.Hour)},
		{"this host's only one, policy Local", local(drained(both(), since, time.Minute, a), state.Local, state.Local), ends, byClusterIP + a, served, time.Time{}},
		{"the same from outside", local(drained(both(), since, time.Minute, a), state.Local, state.Local), ends, byNodePort + a, served, time.Time{}},
		{"policy Local of the other kind of frontends", local(drained(both(), since, time.Minute, a), state.Cluster, state.Local), ends, byClusterIP + a, drainOver, time.Time{}},
		{"policy Local, and none is here", nowhere(drained(both(), since, time.Minute, a)), ends, byClusterIP + a, served, time.Time{}},
		{"another host's, policy Local", local(drained(both(), since, time.Minute, b), state.Local, state.Local), ends, byClusterIP + b, drainOver, time.Time{}},
	} {
		all, next := udpFrontendsOf(nft.IPv4, udpInput(tt.service), tt.now)
		r := &flowRules{now: all}
		if got := r.judge(flowOf(tt.flow)); got != tt.want || !next.Equal(tt.next) {
			t.Errorf("%s: %s, next %v; want %s, next %v", tt.name, got, next, tt.want, tt.next)
		}
	}
}

// TestJudgeClaims: of two Services that claim one frontend, the first has it.
func TestJudgeClaims(t *testing.T) {
	r := rulesOf(nft.IPv4, udpInput(udpService("10.96.0.10", "10.20.0.11:53 rs"), udpService("10.96.0.11", "10.20.0.12:53 rs")))
	for text, want := range map[string]fate{
		"10.96.0.11:53 10.20.0.12:53": served,
		"192.0.2.12:53 10.20.0.11:53": served,
		"192.0.2.12:53 10.20.0.12:53": endpointGone,
	} {
		if got := r.judge(flowOf(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestJudgeAgreesWithPlan: only flows to what is or was a frontend in the
// kernel are forgotten, and never those that the kernel would translate as
// they are.
func TestJudgeAgreesWithPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]nft.Family{nft.IPv4, nft.IPv6}).Draw(t, "family")
		before, now := genInput(t), genInput(t)
		drainSome(t, now)
		held, want := NewPlanner(f).Plan(before, nil), NewPlanner(f).Plan(now, nil)
		r := &flowRules{former: map[netip.AddrPort]time.Time{}}
		all, _ := udpFrontendsOf(f, now, time.Time{})
		r.update(all, formerUDP(going(held.Groups, want.Groups)), time.Time{})
		frontends, backends := udpOf(want.Groups), udpOf(held.Groups)
		for id := range backends {
			_, is := frontends[id]
			_, was := r.former[id]
			if is == was {
				t.Fatalf("%s is a frontend: %v, was one: %v", id, is, was)
			}
		}
		if len(r.now) != len(frontends) {
			t.Fatalf("%d frontends, want %d", len(r.now), len(frontends))
		}
		flow := genFlow(t, f, frontends, backends)
		got := r.judge(flow)
		_, is := frontends[flow.Destination]
		_, was := backends[flow.Destination]
		if got.forgotten() && !is && !was {
			t.Fatalf("%v: %s", flow, got)
		}
		if slices.Contains(frontends[flow.Destination], flow.ReplySource) && got != served {
			t.Fatalf("%v: %s", flow, got)
		}
		if is && flow.ReplySource != flow.Destination && got != served && got != endpointGone && got != drainOver {
			t.Fatalf("%v: %s", flow, got)
		}
		if is && flow.ReplySource == flow.Destination && (got == untranslated) != (len(frontends[flow.Destination]) > 0 || dropped(want.Groups, flow.Destination)) {
			t.Fatalf("%v: %s", flow, got)
		}
	})
}

// drainSome has some of the endpoints drained, and their grace over.
func drainSome(t *rapid.T, in *Input) {
	for _, s := range in.Services {
		for i := range s.Ports {
			for k := range s.Ports[i].Endpoints {
				e := &s.Ports[i].Endpoints[k]
				if rapid.Bool().Draw(t, "drained") {
					e.Ready, e.Serving, e.Terminating = false, true, true
					e.Cause = &state.Cause{Kind: state.Drained, Drain: &state.Drain{}}
				}
			}
		}
	}
}

// udpOf gives the UDP frontends of a ruleset, each with where it translates to.
func udpOf(groups map[string]*nft.Group) map[netip.AddrPort][]netip.AddrPort {
	out := map[netip.AddrPort][]netip.AddrPort{}
	for id, g := range groups {
		f, ok := parseUDP(id)
		if !ok {
			continue
		}
		out[f] = nil
		for _, set := range []string{endpointsMap, localMap, stickyMap, stickyLocalMap} {
			for _, e := range g.Slots(set + "udp") {
				backend, _ := parseUDP(strings.Replace(e, " . ", " . udp . ", 1))
				out[f] = append(out[f], backend)
			}
		}
	}
	return out
}

// dropped tells whether a frontend has endpoints elsewhere only.
func dropped(groups map[string]*nft.Group, f netip.AddrPort) bool {
	for id, g := range groups {
		if at, ok := parseUDP(id); ok && at == f {
			return slices.ContainsFunc(*g, func(e nft.Element) bool { return e.Set == "no-endpoints" && e.Value == "drop" })
		}
	}
	return false
}

// genFlow draws a flow among the addresses that there are, and some more.
func genFlow(t *rapid.T, f nft.Family, maps ...map[netip.AddrPort][]netip.AddrPort) host.Flow {
	all := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.11:53"), netip.MustParseAddrPort("10.96.0.1:99")}
	if f == nft.IPv6 {
		all = []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::11]:53"), netip.MustParseAddrPort("[fd00:10:96::1]:99")}
	}
	for _, m := range maps {
		for frontend, backends := range m {
			all = append(append(all, frontend), backends...)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	flow := host.Flow{Destination: rapid.SampledFrom(all).Draw(t, "destination")}
	flow.ReplySource = rapid.SampledFrom(append(all, flow.Destination)).Draw(t, "reply source")
	return flow
}

func TestParseUDP(t *testing.T) {
	for id, want := range map[string]string{
		"10.96.0.10 . udp . 53":                   "10.96.0.10:53",
		"2001:db8:96::10 . udp . 53":              "[2001:db8:96::10]:53",
		"10.96.0.10 . tcp . 53":                   "",
		"cluster-ips 10.96.0.10":                  "",
		"hairpin 10.20.0.1 . 10.20.0.1 . udp . 1": "",
		"10.96.0.10 . udp . 65536":                "",
		"x . udp . 1":                             "",
	} {
		got, ok := parseUDP(id)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s: %v %v", id, got, ok)
		}
	}
}

// BenchmarkJudge is what our part of a pass costs a flow, and what a change
// costs before it, with 10,000 Services of 10 endpoints.
func BenchmarkJudge(b *testing.B) {
	in := simpleInput(10_000, 10)
	for i, s := range in.Services {
		udp := *s
		udp.Ports = slices.Clone(s.Ports)
		udp.Ports[0].Protocol = state.UDP
		in.Services[i] = &udp
	}
	r := rulesOf(nft.IPv4, in)
	var flows []host.Flow
	for f, frontend := range r.now {
		for _, e := range frontend.serving {
			flows = append(flows, host.Flow{Destination: f, ReplySource: e})
		}
	}
	b.Run("flow", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if r.judge(flows[i%len(flows)]) != served {
				b.Fatal(flows[i%len(flows)])
			}
			i++
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			frontends, _ := udpFrontendsOf(nft.IPv4, in, time.Time{})
			if r.update(frontends, nil, time.Time{}) {
				b.Fatal("nothing has changed")
			}
		}
	})
}

// going names the groups that are in before alone, as nft.Kernel tells them.
func going(before, after map[string]*nft.Group) []string {
	var ids []string
	for id := range before {
		if after[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
