package host

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func address(addr, connected, link string, index int, traits Traits) Address {
	return Address{
		Addr: netip.MustParseAddr(addr), Connected: netip.MustParsePrefix(connected),
		Link: link, Index: index, Traits: traits,
	}
}

// office is a host with two interfaces, a virtual address and a default route.
func office() Addrs {
	return Addrs{
		V4: Stack{
			Enabled: true,
			Addresses: []Address{
				address("10.1.2.3", "10.1.2.0/24", "eth0", 2, 0),
				address("192.0.2.10", "192.0.2.0/24", "eth1", 3, 0),
				address("192.0.2.200", "192.0.2.200/32", "eth1", 3, HostLength),
				address("169.254.1.1", "169.254.0.0/16", "eth1", 3, LinkScope),
			},
			Defaults: []Route{
				{Link: "ppp0", Index: 9, Metric: 10, Gateway: netip.MustParseAddr("10.9.9.9")},
				{
					Link: "eth1", Index: 3, Metric: 20,
					Gateway: netip.MustParseAddr("192.0.2.1"), Source: netip.MustParseAddr("192.0.2.10"),
				},
			},
		},
		V6: Stack{
			Enabled:   true,
			Addresses: []Address{address("2001:db8::10", "2001:db8::/64", "eth0", 2, 0)},
			Defaults:  []Route{{Link: "eth0", Index: 2, Gateway: netip.MustParseAddr("fe80::1")}},
		},
	}
}

func TestEqual(t *testing.T) {
	changes := map[string]func(*Addrs){
		"an address goes":      func(a *Addrs) { a.V4.Addresses = a.V4.Addresses[1:] },
		"a trait":              func(a *Addrs) { a.V6.Addresses[0].Traits = Deprecated },
		"an interface's name":  func(a *Addrs) { a.V6.Addresses[0].Link = "lan0" },
		"a default route goes": func(a *Addrs) { a.V4.Defaults = nil },
		"a gateway":            func(a *Addrs) { a.V6.Defaults[0].Gateway = netip.MustParseAddr("fe80::2") },
		"a family":             func(a *Addrs) { a.V6.Enabled = false },
	}
	if !office().Equal(office()) {
		t.Error("not equal to itself")
	}
	for name, change := range changes {
		a := office()
		change(&a)
		if a.Equal(office()) || office().Equal(a) {
			t.Errorf("%s: equal", name)
		}
	}
}

func TestWithin(t *testing.T) {
	tests := []struct {
		prefix string
		want   []string
	}{
		{"10.96.0.0/16", nil},
		{"10.1.2.128/25", nil}, // a part of the LAN, without anybody in it
		{"10.1.2.0/25", []string{"address 10.1.2.3 (eth0)"}},
		{"10.0.0.0/8", []string{
			"address 10.1.2.3 (eth0)", "connected prefix 10.1.2.0/24 (eth0)", "gateway 10.9.9.9 (ppp0)",
		}},
		{"192.0.2.1/32", []string{"gateway 192.0.2.1 (eth1)"}},
		{"192.0.2.200/32", []string{"address 192.0.2.200 (eth1)"}},
		{"2001:db8::/112", []string{"address 2001:db8::10 (eth0)"}},
		{"2001:db8:96::/112", nil},
	}
	for _, tt := range tests {
		if got := office().Within(netip.MustParsePrefix(tt.prefix)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.prefix, got, tt.want)
		}
	}
}

type nodePortCase struct {
	stack     Stack
	internal  []string
	cidrs     []string
	want, why string
}

func expectNodePorts(t *testing.T, tests map[string]nodePortCase) {
	t.Helper()
	for name, tt := range tests {
		var internal []netip.Addr
		for _, s := range tt.internal {
			internal = append(internal, netip.MustParseAddr(s))
		}
		var cidrs []netip.Prefix
		for _, s := range tt.cidrs {
			cidrs = append(cidrs, netip.MustParsePrefix(s))
		}
		got, why := NodePortAddresses(tt.stack, internal, cidrs)
		if text := fmt.Sprint(got); text != tt.want || why != tt.why {
			t.Errorf("%s: %s: %s\nwant %s: %s", name, text, why, tt.want, tt.why)
		}
	}
}

func TestNodePortAddresses(t *testing.T) {
	office := office()
	unrouted := Stack{Addresses: office.V4.Addresses}
	tests := map[string]nodePortCase{
		"InternalIP": {
			office.V4, []string{"192.0.2.200", "203.0.113.9", "2001:db8::10"}, nil,
			"[192.0.2.200]", "InternalIP of the Node manifest",
		},
		"InternalIPs, one of them twice": {
			office.V4, []string{"192.0.2.10", "10.1.2.3", "192.0.2.10", "::ffff:10.1.2.3"}, nil,
			"[10.1.2.3 192.0.2.10]", "InternalIP of the Node manifest",
		},
		"an operator may name a link-local address": {
			office.V4, []string{"169.254.1.1"}, nil,
			"[169.254.1.1]", "InternalIP of the Node manifest",
		},
		"loopback is nobody's InternalIP": {
			office.V4, []string{"127.0.0.1"}, nil,
			"[192.0.2.10]", "source of the default route (eth1)",
		},
		"InternalIPs elsewhere, the best route unnumbered": {
			office.V4, []string{"203.0.113.9"}, nil,
			"[192.0.2.10]", "source of the default route (eth1)",
		},
		"no default route": {
			unrouted, nil, nil,
			"[10.1.2.3]", "first global address (eth0)",
		},
		"nothing but a link-local address": {
			Stack{Addresses: office.V4.Addresses[3:]}, nil, nil,
			"[]", "this host has no global address of the family",
		},
		"no address": {
			Stack{}, []string{"192.0.2.10"}, nil,
			"[]", "this host has no global address of the family",
		},
	}
	expectNodePorts(t, tests)
}

func TestNodePortAddressesByRange(t *testing.T) {
	office := office()
	expectNodePorts(t, map[string]nodePortCase{
		"a range before all else": {
			office.V4, []string{"10.1.2.3"}, []string{"192.0.2.0/24", "192.0.2.128/25", "127.0.0.0/8"},
			"[192.0.2.10 192.0.2.200]", "--nodeport-addresses 192.0.2.0/24,192.0.2.128/25,127.0.0.0/8",
		},
		"all": {
			office.V6, nil, []string{"0.0.0.0/0", "::/0"},
			"[2001:db8::10]", "--nodeport-addresses 0.0.0.0/0,::/0",
		},
		"ranges of the other family": {
			office.V6, []string{"2001:db8::10"}, []string{"192.0.2.0/24"},
			"[]", "no address of the family is in --nodeport-addresses 192.0.2.0/24",
		},
	})
}

// A virtual address that a host takes over must not become the one that its
// NodePorts answer on.
func TestNodePortsStayPut(t *testing.T) {
	veth(t, "pma", "pmb")
	ip(t, "link set pma up", "link set pmb up", "addr add 192.0.2.10/24 dev pma",
		"addr add 2001:db8::10/64 dev pma nodad")
	before := read(t)
	t.Cleanup(func() { ip(t, "addr del 198.51.100.1/32 dev lo") })
	ip(t, "addr add 198.51.100.1/32 dev lo", "addr add 10.0.0.1/24 dev pma", "addr add 192.0.2.1/24 dev pma",
		"addr add 10.0.0.9/32 dev pma", "addr add 10.0.1.9/24 dev pmb",
		"addr add 2001:db8::1/128 dev pma nodad", "addr add 2001:db8::2/64 dev pma nodad preferred_lft 0",
		"addr add 2001:db8::3/64 dev pma nodad")
	after := read(t)
	for _, s := range [][2]Stack{{before.V4, after.V4}, {before.V6, after.V6}} {
		was, _ := NodePortAddresses(s[0], nil, nil)
		is, why := NodePortAddresses(s[1], nil, nil)
		if len(s[1].Addresses) < 4 || !slices.Equal(was, is) {
			t.Errorf("NodePorts moved from %v to %v (%s)", was, is, why)
		}
	}
}
