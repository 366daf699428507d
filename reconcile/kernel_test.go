package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/reconcile/host"
	"pointsman/reconcile/lab"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

func TestMain(m *testing.M) { lab.Isolated(m) }

func openKernel(t testing.TB, f nft.Family) *nft.Kernel {
	t.Helper()
	k, err := nft.Open(f, schema, host.Generation)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return k
}

// syncTo brings the kernel to what the input means.
func syncTo(t rapid.TB, k *nft.Kernel, p *Planner, in *Input) nft.Stats {
	t.Helper()
	if err := k.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	stats, err := k.Sync(context.Background(), p.Next(in, k))
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func run(t testing.TB, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// genInput draws a host's input: up to a dozen Services of all sorts over few
// addresses, so that sets of them overlap.
func genInput(t *rapid.T) *Input {
	in := &Input{
		Node:              Node{Name: "n1", Zone: "a"},
		NodePortAddresses: addrs("192.0.2.11", "2001:db8::11"),
		Addresses:         addrs("192.0.2.11", "2001:db8::11"),
		ServiceCIDRs:      []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")},
		LocalCIDRs:        []netip.Prefix{netip.MustParsePrefix("10.20.0.0/28")},
	}
	for i := range 12 {
		if rapid.Bool().Draw(t, "exists") {
			in.Services = append(in.Services, genService(t, i))
		}
	}
	return in
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func genService(t *rapid.T, i int) *state.Service {
	policy := rapid.SampledFrom([]state.TrafficPolicy{state.Cluster, state.Local})
	s := &state.Service{
		ObjectName:            state.ObjectName{Namespace: "default", Name: fmt.Sprintf("s%d", i)},
		ClusterIPs:            addrs(fmt.Sprintf("10.96.0.%d", i+1), fmt.Sprintf("fd00:10:96::%x", i+1)),
		InternalTrafficPolicy: policy.Draw(t, "internal"),
		ExternalTrafficPolicy: policy.Draw(t, "external"),
		Affinity:              rapid.SampledFrom([]time.Duration{0, 0, 60 * time.Second}).Draw(t, "affinity"),
		SourceRanges: rapid.SliceOfN(rapid.SampledFrom([]netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("192.0.2.0/24"),
			netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("10.128.0.0/9"),
		}), 0, 4).Draw(t, "ranges"),
	}
	for j, proto := range []state.Protocol{state.TCP, state.UDP, state.SCTP} {
		if rapid.Bool().Draw(t, "port") {
			s.Ports = append(s.Ports, genPort(t, s, proto, i, j))
		}
	}
	return s
}

// nodePorts are a NodePort's frontends of both families.
func nodePorts(port uint16) []state.Frontend {
	return []state.Frontend{
		{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: port},
		{Kind: state.NodePort, Address: netip.IPv6Unspecified(), Port: port},
	}
}

func genPort(t *rapid.T, s *state.Service, proto state.Protocol, i, j int) state.Port {
	p := state.Port{Name: fmt.Sprint("p", j), Protocol: proto}
	number := uint16(80 + j)
	for _, a := range s.ClusterIPs {
		p.Frontends = append(p.Frontends, state.Frontend{Kind: state.ClusterIP, Address: a, Port: number})
	}
	if rapid.Bool().Draw(t, "outside") {
		vip := netip.AddrFrom4([4]byte{192, 0, 2, 200})
		p.Frontends = append(p.Frontends,
			state.Frontend{Kind: state.LoadBalancerIP, Address: vip, Port: uint16(1000 + i*10 + j)},
			state.Frontend{Kind: state.ExternalIP, Address: netip.MustParseAddr("2001:db8::200"), Port: uint16(1000 + i*10 + j)})
		p.Frontends = append(p.Frontends, nodePorts(uint16(30000+i*10+j))...)
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 20), 0, 8, rapid.ID[int]).Draw(t, "endpoints") {
		a := fmt.Sprintf("10.20.0.%d:8080", n)
		if n%3 == 0 {
			a = fmt.Sprintf("[fd00:20::%x]:8080", n)
		}
		p.Endpoints = append(p.Endpoints, state.Endpoint{
			Address:  netip.MustParseAddrPort(a),
			NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
			Ready:    rapid.IntRange(0, 4).Draw(t, "ready") > 0, Serving: true, Terminating: rapid.Bool().Draw(t, "terminating"),
		})
	}
	return p
}

// checkSlots requires that each frontend's endpoints are in slots 0..N-1.
func checkSlots(t rapid.TB, groups map[string]*nft.Group) {
	t.Helper()
	for id, g := range groups {
		for _, set := range slotMaps() {
			if strings.HasPrefix(set.Name, "sticky-") {
				continue
			}
			slots := g.Slots(set.Name)
			for i := range len(slots) {
				if slots[i] == "" {
					t.Fatalf("%s: %s has no slot %d: %v", id, set, i, slots)
				}
			}
		}
	}
}

func requireSame(t rapid.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("rulesets differ:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// TestKernelPathIndependence is the law that the rest stands on: the kernel
// after A then B equals the kernel after B, and applying twice sends nothing,
// neither from memory nor after a read-back.
func TestKernelPathIndependence(t *testing.T) {
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		t.Run(string(f), func(t *testing.T) {
			k, p := openKernel(t, f), NewPlanner(f)
			rapid.Check(t, func(t *rapid.T) {
				a, b := genInput(t), genInput(t)
				syncTo(t, k, p, a)
				if rapid.Bool().Draw(t, "restart between") {
					k.Forget(false)
				}
				syncTo(t, k, p, b)
				if s := syncTo(t, k, p, b); s.Transactions != 0 {
					t.Fatalf("applying twice sent %+v", s)
				}
				k.Forget(false)
				if s := syncTo(t, k, NewPlanner(f), b); s.Elements != 0 || s.Rewritten { // it tidies up after a
					t.Fatalf("a restart sent %+v", s)
				}
				k.Forget(false)
				if s := syncTo(t, k, NewPlanner(f), b); s.Transactions != 0 {
					t.Fatalf("a second restart sent %+v", s)
				}
				k.Forget(false)
				if err := k.Load(context.Background()); err != nil {
					t.Fatal(err)
				}
				checkSlots(t, k.Groups())
				requireSame(t, Canonical(k.Groups()), Canonical(NewPlanner(f).Plan(b, nil).Groups))
			})
		})
	}
}
