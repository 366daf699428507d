package reconcile

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

var update = flag.Bool("update", false, "write the golden files")

// web is a dual-stack Service of one TCP port: ClusterIPs, a load-balancer
// address, and endpoints on two nodes.
func web(change func(*state.Service)) *state.Service {
	s := &state.Service{
		ObjectName: state.ObjectName{Namespace: "default", Name: "web"}, ClusterIPs: addrs("10.96.0.1", "fd00:96::1"),
		InternalTrafficPolicy: state.Cluster, ExternalTrafficPolicy: state.Cluster,
		Ports: []state.Port{{Name: "http", Protocol: state.TCP,
			Frontends: []state.Frontend{
				{Kind: state.ClusterIP, Address: netip.MustParseAddr("10.96.0.1"), Port: 80},
				{Kind: state.ClusterIP, Address: netip.MustParseAddr("fd00:96::1"), Port: 80},
				{Kind: state.LoadBalancerIP, Address: netip.MustParseAddr("198.51.100.1"), Port: 80},
				{Kind: state.LoadBalancerIP, Address: netip.MustParseAddr("2001:db8:51::1"), Port: 80},
			},
			Endpoints: []state.Endpoint{
				endpoint("10.20.0.1:8080", "n1"), endpoint("10.20.0.2:8080", "n2"),
				endpoint("[fd00:20::1]:8080", "n1"), endpoint("[fd00:20::2]:8080", "n2"),
			}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

// eachEndpoint changes the endpoints of all ports.
func eachEndpoint(change func(*state.Endpoint)) func(*state.Service) {
	return func(s *state.Service) {
		for i := range s.Ports {
			for j := range s.Ports[i].Endpoints {
				change(&s.Ports[i].Endpoints[j])
			}
		}
	}
}

func planInput(services ...*state.Service) *Input {
	return &Input{Services: services, Node: Node{Name: "n1", Zone: "a"},
		NodePortAddresses: addrs("192.0.2.11", "2001:db8::11"), Addresses: addrs("192.0.2.11", "2001:db8::11")}
}

// goldenInputs are the meaning of the fields, one by one.
func goldenInputs() map[string]*Input {
	local := func(s *state.Service) { s.ExternalTrafficPolicy, s.InternalTrafficPolicy = state.Local, state.Local }
	ranged := planInput(web(nil))
	ranged.LocalCIDRs = prefixes("10.20.0.0/31", "10.20.0.0/30", "fd00:20::/64")
	ranged.ServiceCIDRs = prefixes("10.96.0.0/16", "10.96.128.0/17", "fd00:96::/112")
	return map[string]*Input{
		"cluster": planInput(web(nil)),
		"local":   planInput(web(local)),
		"local-elsewhere": planInput(web(func(s *state.Service) {
			local(s)
			eachEndpoint(func(e *state.Endpoint) { e.NodeName = "n2" })(s)
		})),
		"no-endpoints": planInput(web(func(s *state.Service) { s.Ports[0].Endpoints = nil })),
		"one-family":   planInput(web(func(s *state.Service) { s.Ports[0].Endpoints = s.Ports[0].Endpoints[:2] })),
		"node-port": planInput(web(func(s *state.Service) {
			s.Ports[0].Frontends = append(s.Ports[0].Frontends[:2:2], nodePorts(30080)...)
		})),
		"affinity":       planInput(web(func(s *state.Service) { s.Affinity = 3 * time.Hour })),
		"affinity-local": planInput(web(func(s *state.Service) { s.Affinity = time.Minute; local(s) })),
		"source-ranges": planInput(web(func(s *state.Service) {
			s.SourceRanges = prefixes("203.0.113.0/24", "203.0.113.128/25", "2001:db8:113::/48")
		})),
		"source-ranges-with-this-node": planInput(web(func(s *state.Service) { s.SourceRanges = prefixes("192.0.2.0/24") })),
		"source-ranges-all":            planInput(web(func(s *state.Service) { s.SourceRanges = prefixes("192.0.2.0/24", "0.0.0.0/0") })),
		"protocols":                    planInput(protocols()),
		"ranges":                       ranged,
		"claimed-twice": planInput(web(func(s *state.Service) {
			s.Ports[0].Frontends = nodePorts(30080)
		}), web(func(s *state.Service) {
			s.Name, s.ClusterIPs = "web2", nil
			s.Ports[0].Frontends = []state.Frontend{{Kind: state.ExternalIP, Address: netip.MustParseAddr("192.0.2.11"), Port: 30080}}
			s.Ports[0].Endpoints = nil
		})),
	}
}

// protocols is one port number in all protocols (C97).
func protocols() *state.Service {
	return web(func(s *state.Service) {
		s.Ports[0].Frontends = s.Ports[0].Frontends[:2]
		for _, p := range []state.Protocol{state.UDP, state.SCTP} {
			port := s.Ports[0]
			port.Protocol = p
			s.Ports = append(s.Ports, port)
		}
	})
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func families46() []nft.Family { return []nft.Family{nft.IPv4, nft.IPv6} }

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		write(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./reconcile -run Golden -update writes it):\n%s", path, diffLines(string(want), got))
	}
}

func diffLines(want, got string) string {
	var sb strings.Builder
	old, fresh := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, l := range old {
		if !slices.Contains(fresh, l) {
			fmt.Fprintln(&sb, "-", l)
		}
	}
	for _, l := range fresh {
		if !slices.Contains(old, l) {
			fmt.Fprintln(&sb, "+", l)
		}
	}
	return sb.String()
}

// TestGolden: what each field means in nftables, and that nft and the kernel
// take it. Files hold what comes to the program, which is in program.*.golden.
func TestGolden(t *testing.T) {
	for _, f := range families46() {
		k, err := nft.Open(f, schema, host.Generation)
		if err != nil {
			t.Fatal(err)
		}
		program := nft.Render(NewPlanner(f).Plan(&Input{}, nil))
		golden(t, "program."+string(f), regexp.MustCompile(`"program [0-9a-f]+"`).ReplaceAllString(program, `"program VERSION"`))
		base := strings.Split(program, "\n")
		for name, in := range goldenInputs() {
			t.Run(name+"."+string(f), func(t *testing.T) {
				table := NewPlanner(f).Plan(in, nil)
				if err := k.Check(context.Background(), table); err != nil {
					t.Error(err)
				}
				lines := strings.SplitAfter(nft.Render(table), "\n")
				lines = slices.DeleteFunc(lines, func(l string) bool { return slices.Contains(base, strings.TrimSuffix(l, "\n")) })
				golden(t, name+"."+string(f), strings.Join(lines, ""))
			})
		}
	}
}

// TestNames: no object's name tells of a Service, however long that one's is,
// and none is longer than the kernel takes (C40).
func TestNames(t *testing.T) {
	s := web(func(s *state.Service) {
		s.Namespace, s.Name = strings.Repeat("n", 62), strings.Repeat("s", 63)
		s.Ports[0].Name = strings.Repeat("p", 63)
		s.Affinity = time.Hour
	})
	for _, f := range families46() {
		table := NewPlanner(f).Plan(planInput(s), nil)
		for name := range names(table) {
			if len(name) > 64 {
				t.Errorf("a long name: %s", name)
			}
		}
		for _, word := range []string{"nnn", "sss", "ppp"} {
			if strings.Contains(nft.Render(table), word) {
				t.Errorf("%s: the ruleset holds names of Services", f)
			}
		}
	}
}

func names(t *nft.Table) map[string]bool {
	all := map[string]bool{}
	for _, s := range t.Sets {
		all[s.Name] = true
	}
	for _, c := range t.Chains {
		all[c.Name] = true
	}
	return all
}

// TestPlanIsPure: the same input and the same slots give the same ruleset,
// whatever was planned before.
func TestPlanIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, f := range families46() {
			p := NewPlanner(f)
			var held map[string]*nft.Group
			for range 3 {
				in := genInput(t)
				of := func(id string) *nft.Group { return held[id] }
				got, want := p.Plan(in, of), NewPlanner(f).Plan(in, of)
				if a, b := nft.Render(got), nft.Render(want); a != b {
					t.Fatalf("%s", diffLines(b, a))
				}
				held = got.Groups
			}
		}
	})
}

func TestDisjoint(t *testing.T) {
	for _, c := range []struct{ in, want []netip.Prefix }{
		{nil, nil},
		{prefixes("10.0.0.1/8", "10.0.0.0/8", "10.2.0.0/16"), prefixes("10.0.0.0/8")},
		{prefixes("10.2.0.0/16", "10.1.0.0/16", "10.1.2.0/24"), prefixes("10.1.0.0/16", "10.2.0.0/16")},
		{prefixes("192.0.2.0/24", "0.0.0.0/0"), prefixes("0.0.0.0/0")},
		{prefixes("fd00::1/128", "fd00::/64"), prefixes("fd00::/64")},
	} {
		if got := disjoint(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
}

// TestDisjointLaw: nothing overlaps, and what was covered is.
func TestDisjointLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "b"), 0, rapid.Byte().Draw(t, "d")})
			return netip.PrefixFrom(a, rapid.IntRange(0, 32).Draw(t, "bits"))
		})).Draw(t, "prefixes")
		out := disjoint(in)
		for i, p := range out {
			if p != p.Masked() || slices.ContainsFunc(out[i+1:], p.Overlaps) {
				t.Fatalf("%v", out)
			}
		}
		for _, p := range in {
			if !slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) }) {
				t.Fatalf("%v isn't in %v", p, out)
			}
		}
	})
}

func TestCanonical(t *testing.T) {
	of := func(elements ...nft.Element) []string {
		return Canonical(map[string]*nft.Group{"g": nft.NewGroup(elements)})
	}
	slots := func(a, b string) []string {
		return of(nft.Element{Set: "endpoints-tcp", Key: "10.0.0.1 . tcp . 80 . 0", Value: a},
			nft.Element{Set: "endpoints-tcp", Key: "10.0.0.1 . tcp . 80 . 1", Value: b})
	}
	if !slices.Equal(slots("a", "b"), slots("b", "a")) || slices.Equal(slots("a", "b"), slots("a", "c")) {
		t.Error("slots")
	}
	record := func(v string) []string {
		return of(nft.Element{Set: "sticky-record", Key: "10.0.0.1 . tcp . 80 . 10.1.0.1 . 80", Value: v})
	}
	if !slices.Equal(record("jump record-0-60s"), record("jump record-7-60s")) || slices.Equal(record("jump record-0-60s"), record("jump record-0-61s")) {
		t.Error("records")
	}
	verdict := func(v string) []string {
		return of(nft.Element{Set: "services", Key: "10.0.0.1 . tcp . 80", Value: v})
	}
	if !slices.Equal(verdict("goto sticky-tcp-2-2"), verdict("goto sticky-tcp-2-5")) ||
		slices.Equal(verdict("goto sticky-tcp-2-2"), verdict("goto sticky-tcp-3-2")) ||
		slices.Equal(verdict("goto pick-tcp-2"), verdict("goto pick-tcp-3")) {
		t.Error("verdicts")
	}
}
