package host

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func read(t *testing.T) Addrs {
	t.Helper()
	a, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// addresses lists them with what counts against each.
func addresses(s Stack) (addrs []string, traits []Traits) {
	for _, a := range s.Addresses {
		addrs = append(addrs, a.Addr.String()+" "+a.Link)
		traits = append(traits, a.Traits)
	}
	return addrs, traits
}

func expectAddresses(t *testing.T, s Stack, want []string, wantTraits []Traits) {
	t.Helper()
	addrs, traits := addresses(s)
	if !slices.Equal(addrs, want) || !slices.Equal(traits, wantTraits) {
		t.Errorf("addresses %q, traits %v\nwant      %q, traits %v", addrs, traits, want, wantTraits)
	}
}

func TestReadNothing(t *testing.T) {
	a := read(t)
	want := Addrs{V4: Stack{Enabled: true}, V6: Stack{Enabled: true}}
	if !a.Equal(want) {
		t.Errorf("a namespace with nothing but lo reads as %+v", a)
	}
}

func TestReadOrdersIPv4(t *testing.T) {
	veth(t, "pma", "pmb")
	t.Cleanup(func() { ip(t, "addr del 198.51.100.99/32 dev lo") })
	ip(t,
		"addr add 198.51.100.99/32 dev lo",
		"addr add 192.0.2.200/32 dev pma",
		"addr add 169.254.7.7/16 dev pma",
		"addr add 192.0.2.20/24 dev pma",
		"addr add 192.0.2.10/24 dev pma",
		"addr add 198.51.100.1/24 dev pma",
		"addr add 203.0.113.1 peer 203.0.113.2 dev pma",
		"addr add 203.0.113.9/24 dev pmb",
		"link set pma up",
	)
	s := read(t).V4
	expectAddresses(t, s,
		[]string{
			"192.0.2.20 pma", "198.51.100.1 pma", "203.0.113.1 pma", "192.0.2.10 pma", "192.0.2.200 pma",
			"198.51.100.99 lo", "203.0.113.9 pmb", "169.254.7.7 pma",
		},
		[]Traits{0, 0, 0, Secondary, HostLength, OnLoopback | HostLength, LinkDown, LinkScope})
	for _, a := range s.Addresses {
		if a.Addr == netip.MustParseAddr("203.0.113.1") && a.Connected != netip.MustParsePrefix("203.0.113.2/32") {
			t.Errorf("the point-to-point address is connected to %v", a.Connected)
		}
	}
}

func TestReadOrdersIPv6(t *testing.T) {
	veth(t, "pma", "pmb")
	ip(t,
		"link set pmb up", "link set pma up",
		"addr add 2001:db8::30/128 dev pma nodad",
		"addr add 2001:db8::20/64 dev pma nodad preferred_lft 0",
		"addr add 2001:db8::11/64 dev pma nodad",
		"addr add 2001:db8::10/64 dev pma nodad",
	)
	expectAddresses(t, read(t).V6,
		[]string{"2001:db8::11 pma", "2001:db8::10 pma", "2001:db8::30 pma", "2001:db8::20 pma"},
		[]Traits{0, 0, HostLength, Deprecated})
}

// An interface without carrier leaves IPv6 addresses tentative for good.
func TestReadLeavesOutTentative(t *testing.T) {
	veth(t, "pma", "pmb")
	ip(t, "link set pma up", "addr add 2001:db8::10/64 dev pma", "addr add 2001:db8::11/64 dev pma nodad")
	expectAddresses(t, read(t).V6, []string{"2001:db8::11 pma"}, []Traits{0})
}

func TestReadLeavesOutDuplicates(t *testing.T) {
	w := watch(t, 0)
	veth(t, "pma", "pmb")
	ip(t, "link set pma up", "link set pmb up",
		"addr add 2001:db8::10/64 dev pma nodad",
		"addr add 2001:db8::10/64 dev pmb",
		"addr add 2001:db8::20/64 dev pmb")
	await(t, w.C(), "the address without duplicate", func() bool {
		return w.Latest().Has(netip.MustParseAddr("2001:db8::20"))
	})
	if out := run(t, "", "ip", "-6", "addr", "show", "dev", "pmb", "dadfailed"); out == "" {
		t.Fatal("the kernel found no duplicate")
	}
	expectAddresses(t, w.Latest().V6,
		[]string{"2001:db8::10 pma", "2001:db8::20 pmb"}, []Traits{0, 0})
}

func TestReadDefaultRoutes(t *testing.T) {
	tests := map[string]struct {
		routes []string
		want   []string // interface, gateway, source
	}{
		"source given": {
			[]string{"route add default via 192.0.2.1 src 192.0.2.20"},
			[]string{"pma 192.0.2.1 192.0.2.20"},
		},
		"address nearest to the gateway": {
			[]string{"route add default via 198.51.100.254"},
			[]string{"pma 198.51.100.254 198.51.100.1"},
		},
		"no gateway": {
			[]string{"route add default dev pma"},
			[]string{"pma invalid IP 192.0.2.10"},
		},
		"by metric": {
			[]string{
				"route add default via 192.0.2.1 metric 200", "route add default via 203.0.113.254 metric 100",
				"route add 198.18.0.0/15 via 192.0.2.9", "route add unreachable default metric 50",
				"route add default via 192.0.2.7 table 100",
			},
			[]string{"pmb 203.0.113.254 203.0.113.1", "pma 192.0.2.1 192.0.2.10"},
		},
		"several next hops": {
			[]string{"route add default nexthop via 192.0.2.1 nexthop via 203.0.113.254"},
			[]string{"pma 192.0.2.1 192.0.2.10", "pmb 203.0.113.254 203.0.113.1"},
		},
		"nexthop object": {
			[]string{"nexthop add id 7 via 192.0.2.1 dev pma", "route add default nhid 7"},
			[]string{"pma 192.0.2.1 192.0.2.10"},
		},
		"IPv6 gateway": {
			[]string{"-4 route add default via inet6 fe80::1 dev pma"},
			[]string{"pma fe80::1 192.0.2.10"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			veth(t, "pma", "pmb")
			ip(t, "link set pma up", "link set pmb up",
				"addr add 192.0.2.10/24 dev pma", "addr add 192.0.2.20/24 dev pma",
				"addr add 198.51.100.1/24 dev pma", "addr add 203.0.113.1/24 dev pmb")
			t.Cleanup(func() { ip(t, "-4 route flush type unreachable") })
			ip(t, tt.routes...)
			var got []string
			for _, r := range read(t).V4.Defaults {
				got = append(got, r.Link+" "+r.Gateway.String()+" "+r.Source.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadDefaultRouteIPv6(t *testing.T) {
	veth(t, "pma", "pmb")
	ip(t, "link set pma up", "link set pmb up", "addr add 2001:db8::10/64 dev pma nodad",
		"-6 route add default via fe80::1 dev pma")
	d := read(t).V6.Defaults
	want := netip.MustParseAddr("2001:db8::10")
	if len(d) != 1 || d[0].Source != want || d[0].Link != "pma" || d[0].Gateway != netip.MustParseAddr("fe80::1") {
		t.Errorf("default routes %+v", d)
	}
}

func TestFamilies(t *testing.T) {
	disableIPv6(t, "1")
	t.Cleanup(func() { disableIPv6(t, "0") })
	if v4, v6 := Families(); !v4 || v6 {
		t.Errorf("with IPv6 disabled: IPv4 %v, IPv6 %v", v4, v6)
	}
	if a := read(t); a.V6.Enabled || !a.V4.Enabled {
		t.Errorf("with IPv6 disabled: %+v", a)
	}
	disableIPv6(t, "0")
	if v4, v6 := Families(); !v4 || !v6 {
		t.Errorf("with IPv6 enabled: IPv4 %v, IPv6 %v", v4, v6)
	}
}

func disableIPv6(t *testing.T, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDumpRepeatsWhenInterrupted(t *testing.T) {
	calls := 0
	got, err := dump(func() ([]int, error) {
		if calls++; calls < 3 {
			return []int{0}, netlink.ErrDumpInterrupted
		}
		return []int{calls}, nil
	})
	if err != nil || !slices.Equal(got, []int{3}) {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = dump(func() ([]int, error) { return []int{0}, netlink.ErrDumpInterrupted })
	if !errors.Is(err, netlink.ErrDumpInterrupted) || got != nil {
		t.Errorf("always interrupted: got %v, %v", got, err)
	}
}
