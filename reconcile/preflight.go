package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// Preflight asks nft and the kernel whether they would take the program, with
// an example of everything that is made on demand, and changes nothing. Its
// error names what is missing.
func Preflight(ctx context.Context) error {
	if len(families()) == 0 {
		return errors.New("the kernel has neither IPv4 nor IPv6")
	}
	if err := Permitted(); err != nil {
		return err
	}
	for _, f := range families() {
		k, err := nft.Open(f, schema, host.Generation)
		if err != nil {
			return fmt.Errorf("nftables can't be used: %s", oneLine(err))
		}
		if err := k.Check(ctx, example(f)); err != nil {
			return missing(ctx, k, f, err)
		}
	}
	return nil
}

// Permitted gives an error where this process may not program nf_tables.
func Permitted() error {
	_, err := host.Generation()
	if errors.Is(err, unix.EPERM) {
		return errors.New("root or CAP_NET_ADMIN is needed")
	}
	if err != nil {
		return fmt.Errorf("nf_tables can't be asked over netlink: %w", err)
	}
	return nil
}

// example is a ruleset that uses everything there is.
func example(f nft.Family) *nft.Table {
	vip, backend := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddrPort("192.0.2.2:80")
	if f == nft.IPv6 {
		vip, backend = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddrPort("[2001:db8::2]:80")
	}
	s := &state.Service{
		ClusterIPs: []netip.Addr{vip}, Affinity: time.Minute,
		InternalTrafficPolicy: state.Cluster, ExternalTrafficPolicy: state.Local,
		SourceRanges: []netip.Prefix{netip.PrefixFrom(vip, vip.BitLen())},
	}
	for _, p := range allProtocols {
		s.Ports = append(s.Ports, state.Port{
			Protocol: p,
			Frontends: []state.Frontend{
				{Kind: state.ClusterIP, Address: vip, Port: 80},
				{Kind: state.LoadBalancerIP, Address: vip, Port: 81},
			},
			Endpoints: []state.Endpoint{{Address: backend, NodeName: "n", Ready: true, Serving: true}},
		})
	}
	ranges := []netip.Prefix{netip.PrefixFrom(vip, vip.BitLen())}
	in := &Input{Services: []*state.Service{s}, Node: Node{Name: "n"}, ServiceCIDRs: ranges, LocalCIDRs: ranges}
	return NewPlanner(f).Plan(in, nil)
}

// need is something of the kernel that the program needs.
type need struct {
	what  string
	chain nft.Chain
}

// needs are the kernel's parts that may be missing, each in the smallest
// chain that uses it.
func needs() []need {
	filter := &nft.Hook{Type: "filter", Hook: "input", Priority: 0}
	nat := func(hook string) *nft.Hook { return &nft.Hook{Type: "nat", Hook: hook, Priority: 100} }
	return []need{
		{"filter chains (module nf_tables)", nft.Chain{Name: "c", Hook: filter}},
		{"conntrack (modules nft_ct, nf_conntrack)", nft.Chain{Name: "c", Hook: filter, Rules: []string{"ct state new"}}},
		{"the fib expression (modules nft_fib, nft_fib_ipv4, nft_fib_ipv6)",
			nft.Chain{Name: "c", Hook: filter, Rules: []string{"fib saddr type local"}}},
		{"the numgen expression (module nft_numgen)",
			nft.Chain{Name: "c", Hook: filter, Rules: []string{"numgen random mod 2 0"}}},
		{"the reject expression (modules nft_reject, nft_reject_ipv4, nft_reject_ipv6)",
			nft.Chain{Name: "c", Hook: filter, Rules: []string{"reject with icmp type port-unreachable"}}},
		{"the counter expression (module nft_counter)",
			nft.Chain{Name: "c", Hook: filter, Rules: []string{"counter"}}},
		{"nat chains (module nft_chain_nat)", nft.Chain{Name: "c", Hook: nat("postrouting")}},
		{"nat chains on the input hook (Linux 4.18)", nft.Chain{Name: "c", Hook: nat("input")}},
		{"the masquerade expression (module nft_masq)",
			nft.Chain{Name: "c", Hook: nat("postrouting"), Rules: []string{"masquerade fully-random"}}},
		{"the dnat expression (module nft_nat)",
			nft.Chain{Name: "c", Hook: nat("output"), Rules: []string{"meta l4proto tcp dnat to :80"}}},
	}
}

// missing finds out which need isn't met. If all are, one by one, what nft
// said about the whole is all there is to say.
func missing(ctx context.Context, k *nft.Kernel, f nft.Family, whole error) error {
	for _, n := range needs() {
		t := &nft.Table{Family: f, Schema: &nft.Schema{}, Chains: []nft.Chain{translate(n.chain, f)}}
		if err := k.Check(ctx, t); err != nil {
			return fmt.Errorf("the kernel or nft lacks %s: %s", n.what, oneLine(err))
		}
	}
	return fmt.Errorf("nft or the kernel refuses the %s program: %s", f, oneLine(whole))
}
