package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// explainInput is a node with two Services: web has all kinds of frontends, and
// dns is UDP alone, IPv6 as well.
func explainInput(changes ...func(web *state.Service)) *Input {
	s := web(func(s *state.Service) {
		s.Source = state.Source{File: "web.yaml", Line: 3}
		s.Ports[0].Frontends = append(s.Ports[0].Frontends,
			state.Frontend{Kind: state.ExternalIP, Address: netip.MustParseAddr("198.51.100.2"), Port: 80},
			state.Frontend{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30080})
		slices.SortFunc(s.Ports[0].Frontends, state.Frontend.Compare)
		for _, change := range changes {
			change(s)
		}
	})
	dns := web(func(s *state.Service) {
		s.Name, s.ClusterIPs = "dns", addrs("10.96.0.2", "fd00:96::2")
		s.Ports[0].Name, s.Ports[0].Protocol = "dns", state.UDP
		s.Ports[0].Frontends = []state.Frontend{
			{Kind: state.ClusterIP, Address: netip.MustParseAddr("10.96.0.2"), Port: 53},
			{Kind: state.ClusterIP, Address: netip.MustParseAddr("fd00:96::2"), Port: 53},
		}
	})
	return &Input{
		Services: []*state.Service{dns, s}, Node: Node{Name: "n1", Zone: "a"},
		NodePortAddresses: addrs("192.0.2.11"), Addresses: addrs("192.0.2.11", "192.0.2.111"),
		ServiceCIDRs: prefixes("10.96.0.0/16"),
	}
}

// explained asks of a host whose kernel is as it should be.
func explained(in *Input, to, from string, more ...func(*Evidence)) *Explanation {
	address, protocol, _ := strings.Cut(to, "/")
	q := Question{To: netip.MustParseAddrPort(address), Protocol: state.Protocol(protocol)}
	if from != "" {
		q.From = netip.MustParseAddr(from)
	}
	f := familyOf(q.To.Addr())
	ev := &Evidence{Input: in, Declared: in.Services, Kernel: &nft.Found{Groups: NewPlanner(f).Plan(in, nil).Groups}}
	for _, m := range more {
		m(ev)
	}
	return Explain(q, ev)
}

// summary writes an answer in a few lines.
func (x *Explanation) summary() string {
	var lines []string
	for i := range x.Clients {
		c := &x.Clients[i]
		lines = append(lines, c.Clients+": "+c.Now().summary())
		if c.Actual != nil && c.Actual.summary() != c.Intent.summary() {
			lines = append(lines, "  should be "+c.Intent.summary())
		}
	}
	for _, e := range x.Endpoints {
		for _, r := range e.Why {
			lines = append(lines, e.Address.String()+" "+r.Text)
		}
	}
	for _, d := range x.Kernel.Differences {
		lines = append(lines, d.Kind+" "+d.Element)
	}
	return strings.Join(append(append(lines, x.Kernel.Faults...), x.Hints...), "\n")
}

func (f *Fate) summary() string {
	words := []string{string(f.Verdict)}
	for _, e := range f.Endpoints {
		words = append(words, e.String())
	}
	if f.Masquerade {
		words = append(words, "masqueraded")
	}
	for _, e := range f.Hairpins {
		words = append(words, "hairpin "+e.String())
	}
	if f.Why+f.Source != "" {
		words = append(words, "("+f.Why+f.Source+")")
	}
	return strings.Join(words, " ")
}

const (
	both      = "served 10.20.0.1:8080 10.20.0.2:8080"
	clusterIP = "masqueraded (what is sent to a ClusterIP is, so that answers come back through this host)"
	ownIs     = "masqueraded (this host's own connections to a VIP or NodePort are)"
	hereIs    = "(it's within --local-cidr: answers come back through this host)"
)

func localPolicy(s *state.Service) { s.ExternalTrafficPolicy = state.Local }

// on changes one endpoint of web.
func on(address string, change func(*state.Endpoint)) func(*state.Service) {
	return func(s *state.Service) {
		for i := range s.Ports[0].Endpoints {
			if e := &s.Ports[0].Endpoints[i]; e.Address.String() == address {
				change(e)
			}
		}
	}
}

// within is a host that knows of clients within --local-cidr.
func within(in *Input, local string) *Input {
	in.LocalCIDRs = prefixes(local)
	return in
}

func healthChecked(s *state.Service) { s.HealthCheckNodePort = 32000 }

func noEndpoints(s *state.Service) { s.Ports[0].Endpoints = nil }

// notReady is how a manifest has it.
func notReady(e *state.Endpoint) { e.Ready = false }

var observed = &state.Judgement{Verdict: state.Down, Votes: []state.Vote{{Observer: "n2", Verdict: state.Down, Failure: state.TimedOut, Since: time.Unix(60, 0)}}}

func down(e *state.Endpoint) {
	e.Ready, e.Serving, e.Cause = false, false, &state.Cause{Kind: state.SeenDown, Judgement: observed}
}

func untried(e *state.Endpoint) {
	e.Ready, e.Cause = false, &state.Cause{Kind: state.Untried}
}

func draining(e *state.Endpoint) {
	e.Ready, e.Terminating, e.Cause = false, true, &state.Cause{Kind: state.Drained, Drain: &state.Drain{
		Target: state.DrainTarget{Node: "n2"}, By: "n1", Reason: "disk", Until: time.Unix(3600, 0)}}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name     string
		in       *Input
		to, from string
		want     string
	}{
		{"a ClusterIP", explainInput(), "10.96.0.1:80", "", "outside: " + both + " " + clusterIP + "\nthis host: " + both + " " + clusterIP},
		{"a ClusterIP, a client", explainInput(), "10.96.0.1:80", "192.0.2.50", "192.0.2.50: " + both + " " + clusterIP},
		{"IPv6", explainInput(), "[fd00:96::1]:80", "2001:db8::9", "2001:db8::9: served [fd00:20::1]:8080 [fd00:20::2]:8080 " + clusterIP},
		{"mapped", explainInput(), "[::ffff:10.96.0.1]:80", "::ffff:192.0.2.50", "192.0.2.50: " + both + " " + clusterIP},
		{"an endpoint is its own client", explainInput(), "10.96.0.1:80", "10.20.0.1",
			"10.20.0.1: " + both + " masqueraded hairpin 10.20.0.1:8080 (what is sent to a ClusterIP is, so that answers come back through this host)"},
		{"within --local-cidr", within(explainInput(), "10.20.0.0/24"), "10.96.0.1:80", "10.20.0.9", "10.20.0.9: " + both + " " + hereIs},
		{"an externalIP", explainInput(), "198.51.100.2:80", "192.0.2.50", "192.0.2.50: " + both + " masqueraded (externalTrafficPolicy: Cluster)"},
		{"a NodePort", explainInput(), "192.0.2.11:30080", "192.0.2.50", "192.0.2.50: " + both + " masqueraded (externalTrafficPolicy: Cluster)"},
		{"a NodePort elsewhere", explainInput(), "192.0.2.111:30080", "192.0.2.50",
			"192.0.2.50: passes (it's an address of this host: what listens there answers)\n" +
				"30080 is a NodePort of Service default/web: NodePorts of n1 answer on 192.0.2.11"},
		{"a NodePort on loopback", explainInput(), "127.0.0.1:30080", "127.0.0.1",
			"127.0.0.1: passes (no Service has it here)\n30080 is a NodePort of Service default/web: NodePorts of n1 answer on 192.0.2.11, and never on loopback"},
		{"external policy Local", explainInput(localPolicy), "198.51.100.1:80", "",
			"outside: served 10.20.0.1:8080 (externalTrafficPolicy: Local)\nthis host: " + both + " " + ownIs + "\n" +
				"10.20.0.2:8080 is on n2, and the policy is Local"},
		{"external policy Local, none here", explainInput(localPolicy, eachEndpoint(func(e *state.Endpoint) { e.NodeName = "" })), "198.51.100.1:80", "192.0.2.50",
			"192.0.2.50: dropped (the policy is Local, and no endpoint on n1 may be used)\n" +
				"10.20.0.1:8080 has no nodeName, and the policy is Local\n10.20.0.2:8080 has no nodeName, and the policy is Local"},
		{"internal policy Local", explainInput(func(s *state.Service) { s.InternalTrafficPolicy = state.Local }), "10.96.0.1:80", "192.0.2.11",
			"192.0.2.11: served 10.20.0.1:8080 " + clusterIP + "\n10.20.0.2:8080 is on n2, and the policy is Local"},
		{"source ranges", explainInput(func(s *state.Service) { s.SourceRanges = prefixes("203.0.113.0/24") }), "198.51.100.1:80", "192.0.2.50",
			"192.0.2.50: dropped (no loadBalancerSourceRange holds the client: dropped before translation)"},
		{"source ranges, and the host is in none", explainInput(func(s *state.Service) { s.SourceRanges = prefixes("203.0.113.0/24") }), "198.51.100.1:80", "",
			"outside: " + both + " masqueraded (externalTrafficPolicy: Cluster)\n" +
				"this host: dropped (no loadBalancerSourceRange holds the client: dropped before translation)"},
		{"source ranges, and some of --local-cidr are in one", within(explainInput(func(s *state.Service) { s.SourceRanges = prefixes("10.20.1.0/24") }), "10.20.0.0/16"), "198.51.100.1:80", "",
			"outside: " + both + " masqueraded (externalTrafficPolicy: Cluster)\ninside: " + both + " masqueraded (externalTrafficPolicy: Cluster)\n" +
				"this host: dropped (no loadBalancerSourceRange holds the client: dropped before translation)"},
		{"this host within --local-cidr", within(explainInput(), "192.0.2.0/24"), "10.96.0.1:80", "",
			"outside: " + both + " " + clusterIP + "\ninside: " + both + " " + hereIs + "\nthis host: " + both + " " + hereIs},
		{"this host in part within --local-cidr", within(explainInput(), "192.0.2.11/32"), "10.96.0.1:80", "",
			"outside: " + both + " " + clusterIP + "\ninside: " + both + " " + hereIs + "\nthis host: " + both + " " + clusterIP},
		{"zones", explainInput(eachEndpoint(func(e *state.Endpoint) { e.HintZones = []string{map[string]string{"n1": "b", "n2": "a"}[e.NodeName]} })), "10.96.0.1:80", "192.0.2.50",
			"192.0.2.50: served 10.20.0.2:8080 " + clusterIP + "\n10.20.0.1:8080 is meant for zone b, and this is zone a"},
		{"nodes", explainInput(eachEndpoint(func(e *state.Endpoint) { e.HintNodes = []string{e.NodeName} })), "10.96.0.1:80", "192.0.2.50",
			"192.0.2.50: served 10.20.0.1:8080 " + clusterIP + "\n10.20.0.2:8080 is meant for n2, and this is n1"},
		{"not ready", explainInput(on("10.20.0.2:8080", notReady)), "10.96.0.1:80", "192.0.2.50",
			"192.0.2.50: served 10.20.0.1:8080 " + clusterIP + "\n10.20.0.2:8080 is not ready in its manifest"},
		{"terminating", explainInput(eachEndpoint(func(e *state.Endpoint) { e.Ready, e.Terminating = false, true })), "10.96.0.1:80", "192.0.2.50",
			"192.0.2.50: " + both + " " + clusterIP +
				"\n10.20.0.1:8080 is terminating in its manifest\n10.20.0.1:8080 serves while no other endpoint is ready" +
				"\n10.20.0.2:8080 is terminating in its manifest\n10.20.0.2:8080 serves while no other endpoint is ready"},
		{"gone", explainInput(on("10.20.0.2:8080", func(e *state.Endpoint) { e.Ready, e.Serving, e.Terminating = false, false, true })), "10.96.0.1:80", "192.0.2.50",
			"192.0.2.50: served 10.20.0.1:8080 " + clusterIP + "\n10.20.0.2:8080 is terminating, and not serving, in its manifest"},
		{"no endpoints", explainInput(noEndpoints), "10.96.0.1:80", "", "outside: refused (there is no endpoint that may be used)\nthis host: refused (there is no endpoint that may be used)"},
		{"another port", explainInput(), "10.96.0.1:81", "192.0.2.50",
			"192.0.2.50: refused (it's a ClusterIP, and no port of it)\n10.96.0.1 is an address of Service default/web: ports 80/TCP"},
		{"another port of a VIP", explainInput(), "198.51.100.1:22", "192.0.2.50",
			"192.0.2.50: passes (it's a VIP, and no port of it; refused only where it would leave by the interface it came in by)\n" +
				"198.51.100.1 is an address of Service default/web: ports 80/TCP"},
		{"another protocol, as asked", explainInput(), "10.96.0.2:53/TCP", "192.0.2.50",
			"192.0.2.50: refused (it's a ClusterIP, and no port of it)\n10.96.0.2:53/UDP is served, by Service default/dns\n10.96.0.2 is an address of Service default/dns: ports 53/UDP"},
		{"another protocol, unasked", explainInput(), "10.96.0.2:53", "192.0.2.50", "192.0.2.50: " + both + " " + clusterIP},
		{"nobody's", explainInput(), "10.96.9.9:80", "192.0.2.50", "192.0.2.50: dropped (it's within --service-cidr, and no Service has it here)"},
		{"somebody else's", explainInput(), "192.0.2.99:80", "192.0.2.50", "192.0.2.50: passes (no Service has it here)"},
		{"a healthCheckNodePort", explainInput(healthChecked), "192.0.2.11:32000", "192.0.2.50",
			"192.0.2.50: passes (it's an address of this host: what listens there answers)\n" +
				"32000 is the healthCheckNodePort of Service default/web: it answers 200, for n1 has 1 ready of this family, while the kernel is as it should be"},
		{"a healthCheckNodePort, none ready", explainInput(healthChecked, on("10.20.0.1:8080", notReady)), "192.0.2.11:32000", "192.0.2.50",
			"192.0.2.50: passes (it's an address of this host: what listens there answers)\n" +
				"32000 is the healthCheckNodePort of Service default/web: it answers 503, for n1 has no ready endpoint of this family"},
		{"a healthCheckNodePort elsewhere", explainInput(healthChecked), "192.0.2.99:32000", "192.0.2.50",
			"192.0.2.50: passes (no Service has it here)\n" +
				"32000 is the healthCheckNodePort of Service default/web: NodePorts of n1 answer on 192.0.2.11"},
		{"an endpoint", explainInput(), "10.20.0.2:8080", "192.0.2.50",
			"192.0.2.50: passes (no Service has it here)\nit's an endpoint of Service default/web: see pointsman explain endpoint 10.20.0.2:8080"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := explained(tt.in, tt.to, tt.from).summary(); got != tt.want {
				t.Errorf("%s from %q:\n%s\nwant\n%s", tt.to, tt.from, got, tt.want)
			}
		})
	}
}

// TestExplainHealth: who saw what and who drains goes along with the reason.
func TestExplainHealth(t *testing.T) {
	declared := explainInput().Services
	in := explainInput(on("10.20.0.1:8080", down), on("10.20.0.2:8080", draining))
	x := explained(in, "10.96.0.1:80", "192.0.2.50", func(ev *Evidence) { ev.Declared = declared })
	want := "192.0.2.50: served 10.20.0.2:8080 " + clusterIP + "\n10.20.0.1:8080 fails its probes\n" +
		"10.20.0.2:8080 is draining\n10.20.0.2:8080 serves while no other endpoint is ready"
	if got := x.summary(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := x.Endpoints[0].Votes; !slices.Equal(got, []Seen{{"n2", "down", "timed out", time.Unix(60, 0)}}) {
		t.Errorf("votes %v", got)
	}
	in = explainInput(on("10.20.0.1:8080", untried))
	want = "192.0.2.50: served 10.20.0.2:8080 " + clusterIP + "\n10.20.0.1:8080 has not been probed yet, and others are up"
	if got := explained(in, "10.96.0.1:80", "192.0.2.50", func(ev *Evidence) { ev.Declared = declared }).summary(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if d := x.Endpoints[1].Drain; d == nil || d.Target != "node n2" || d.By != "n1" || d.Reason != "disk" {
		t.Errorf("drain %+v", d)
	}
}

// TestExplainContested: of Services that claim one frontend on this host the
// first by name has it, and those of other hosts are named.
func TestExplainContested(t *testing.T) {
	in := explainInput()
	another := web(func(s *state.Service) {
		s.Name, s.ClusterIPs = "zeb", nil
		s.Ports[0].Frontends = []state.Frontend{{Kind: state.ExternalIP, Address: netip.MustParseAddr("192.0.2.11"), Port: 30080}}
	})
	in.Services = append(in.Services, another)
	x := explained(in, "192.0.2.11:30080", "192.0.2.50")
	if f := x.Frontend; f.Service != "default/web" || f.Kind != "NodePort" || !slices.Equal(f.Contested, []string{"default/zeb"}) || !x.OK() {
		t.Errorf("%+v\n%s", f, x.summary())
	}
	elsewhere := web(func(s *state.Service) { s.Nodes, s.Source = []string{"n7"}, state.Source{File: "far.yaml", Line: 1} })
	x = explained(&Input{Node: Node{Name: "n1"}}, "10.96.0.1:80", "192.0.2.50", func(ev *Evidence) { ev.Elsewhere = []*state.Service{elsewhere} })
	want := "192.0.2.50: passes (no Service has it here)\nService default/web (far.yaml:1) has it on n7 only (pointsman/node-selector), and this is n1"
	if got := x.summary(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestExplainKernel: what the kernel holds counts for what becomes of
// connections, and what differs is named.
func TestExplainKernel(t *testing.T) {
	in := explainInput()
	table := NewPlanner(nft.IPv4).Plan(in, nil)
	const key = "10.96.0.1 . tcp . 80"
	with := func(change func(nft.Element) (nft.Element, bool), more ...nft.Element) func(*Evidence) {
		return func(ev *Evidence) {
			groups := map[string]*nft.Group{}
			for id, g := range table.Groups {
				var kept []nft.Element
				for _, e := range *g {
					if e, ok := change(e); ok {
						kept = append(kept, e)
					}
				}
				if id == key {
					kept = append(kept, more...)
				}
				if kept != nil {
					groups[id] = nft.NewGroup(kept)
				}
			}
			ev.Kernel = &nft.Found{Groups: groups}
		}
	}
	without := func(sets ...string) func(nft.Element) (nft.Element, bool) {
		return func(e nft.Element) (nft.Element, bool) { return e, !slices.Contains(sets, e.Set) }
	}
	for _, tt := range []struct {
		name   string
		kernel func(*Evidence)
		want   string
		ok     bool
	}{
		{"as it should be", with(without()), both + " " + clusterIP, true},
		{"the frontend is gone", with(without("services")), "refused (it's a ClusterIP, and no port of it)\n" +
			"  should be " + both + " " + clusterIP + "\nmissing services { " + key + " : goto pick-tcp-2 }", false},
		{"all is gone", func(ev *Evidence) { ev.Kernel = &nft.Found{Gone: true, Faults: []string{"no table"}} },
			"passes (no rule of pointsman's is asked)\n  should be " + both + " " + clusterIP + "\nno table", false},
		{"an endpoint too much", with(without(), nft.Element{Set: "endpoints-tcp", Key: key + " . 2", Value: "10.20.0.9 . 8080"}),
			"served 10.20.0.1:8080 10.20.0.2:8080 10.20.0.9:8080 " + clusterIP + "\n  should be " + both + " " + clusterIP +
				"\n10.20.0.9:8080 is no endpoint of the Service port\nextra endpoints-tcp { " + key + " . 2 : 10.20.0.9 . 8080 }", false},
		{"another verdict", with(func(e nft.Element) (nft.Element, bool) {
			if e.Set == "services" && e.Key == key {
				e.Value = "drop"
			}
			return e, true
		}), "dropped (an element of map services says so)\n  should be " + both + " " + clusterIP + "\nchanged services { " + key + " : drop }", false},
		{"slots are history", with(func(e nft.Element) (nft.Element, bool) {
			if e.Set == "endpoints-tcp" {
				e.Value = map[string]string{"10.20.0.1 . 8080": "10.20.0.2 . 8080", "10.20.0.2 . 8080": "10.20.0.1 . 8080"}[e.Value]
			}
			return e, true
		}), both + " " + clusterIP, true},
	} {
		x := explained(in, "10.96.0.1:80", "192.0.2.50", tt.kernel)
		got, _ := strings.CutPrefix(x.summary(), "192.0.2.50: ")
		if !strings.HasPrefix(got, tt.want) || x.OK() != tt.ok {
			t.Errorf("%s: ok %v\n%s\nwant\n%s", tt.name, x.OK(), got, tt.want)
		}
	}
}

// TestExplainConnections: in bounded memory, with what becomes of those that
// would not go there now.
func TestExplainConnections(t *testing.T) {
	in := explainInput(on("10.20.0.2:8080", draining))
	tally := &Tally{From: netip.MustParseAddr("192.0.2.50")}
	for i := range 5000 {
		backend := []string{"10.20.0.1:8080", "10.20.0.2:8080", fmt.Sprintf("10.30.%d.%d:8080", i>>8, i&0xff)}[i%3]
		tally.Add(host.Connection{Protocol: state.TCP, Source: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.50"), uint16(i+1)),
			Destination: netip.MustParseAddrPort("10.96.0.1:80"), ReplySource: netip.MustParseAddrPort(backend), Closing: i%5 == 0})
	}
	c := explained(in, "10.96.0.1:80", "192.0.2.50", func(ev *Evidence) { ev.Tally = tally }).Connections
	if c.Open != 4000 || c.Closing != 1000 || len(c.Listed) != maxListed || c.Unlisted != 4990 || len(c.Backends) != maxBackends {
		t.Errorf("%d open, %d closing, %d listed and %d not, %d backends", c.Open, c.Closing, len(c.Listed), c.Unlisted, len(c.Backends))
	}
	notes := map[string]string{}
	for _, b := range c.Backends[:3] {
		notes[b.Address.String()] = b.Note
	}
	if notes["10.20.0.1:8080"] != "" || notes["10.20.0.2:8080"] != "gets no new ones; stays until it ends" ||
		c.Backends[2].Note != "no endpoint of the Service port; stays until it ends" {
		t.Errorf("notes %v", notes)
	}
	for to, want := range map[string]string{"10.96.0.1:80": "not translated: began while nothing was served here", "10.20.0.2:8080": "not translated"} {
		at, early := netip.MustParseAddrPort(to), &Tally{}
		early.Add(host.Connection{Protocol: state.TCP, Source: netip.MustParseAddrPort("192.0.2.50:1"), Destination: at, ReplySource: at})
		c := explained(in, to, "", func(ev *Evidence) { ev.Tally = early }).Connections
		if len(c.Backends) != 1 || c.Backends[0].Note != want {
			t.Errorf("%s: %+v, want %q", to, c.Backends, want)
		}
	}
}
