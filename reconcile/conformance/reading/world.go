// Package reading is a second, small reading of what a Service means. It knows
// the network of the conformance suite and predicts what becomes of a
// connection in it, from the rules that the documentation states. It imports
// only state: a suite that derives its expectations from what it tests would
// prove nothing.
package reading

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// World is the network of the suite in one family:
//
//	c 192.0.2.50 --+-- n1 192.0.2.11 | 10.20.0.1 -- b1 10.20.0.11
//	r 192.0.2.1  --+-- n2 192.0.2.12 | 10.20.1.1 -- b2 10.20.1.21
//	               +-- n3 192.0.2.13 | 10.20.2.1 -- b3 10.20.2.31
//
// A node's default route leads to r by another network (198.51.100.0/24), and
// r knows no more than these hosts: what goes further is "uplink". All
// addresses are spoken of in IPv4; At gives those of the other family.
type World struct {
	IPv6  bool
	Hosts map[string]*Host

	onNetwork map[netip.Addr]string // the host of an interface's address
}

// Host is a machine.
type Host struct {
	Name   string
	Node   bool
	Devs   map[string]netip.Addr // interfaces, each with its address
	Routes []Route               // the first that holds an address decides

	own []netip.Addr // those of the interfaces, and Services' that are bound on lo
}

// Route is a way. On a network of the host's own there is no next host.
type Route struct {
	To  netip.Prefix
	Via string
	Dev string
}

// The nodes, and the hosts that may be clients.
var (
	Nodes   = []string{"n1", "n2", "n3"}
	Clients = []string{"c", "n1", "n2", "n3", "b1", "b2"}
)

// VIP is an address of 203.0.113.0/24 or of the LAN that belongs to Services.
type VIP struct {
	Address string
	By      string   // the node that c sends it to
	Bound   []string // the nodes that have it on lo
}

// VIPs are the addresses that Services may claim.
var VIPs = []VIP{
	{"203.0.113.1", "n1", nil},
	{"203.0.113.2", "n2", nil},
	{"203.0.113.3", "n1", nil},
	{"203.0.113.10", "n1", []string{"n1"}},
	{"203.0.113.20", "n2", []string{"n2"}},
	{"203.0.113.12", "n1", []string{"n1", "n2"}},
	// In the LAN's own range: its next hop is itself, if there is such a host.
	{"192.0.2.200", "n1", nil},
	// In a range that n1 has a gateway for, on the network that c is on: it
	// would send it back where it came from.
	{"10.20.2.99", "n1", nil},
}

// Ports that every node and backend listens on.
const (
	Port  = 8080
	Port2 = 8081
)

// sixth are the IPv6 ranges that stand for the IPv4 ones.
var sixth = [][2]string{
	{"192.0.2.", "2001:db8::"}, {"198.51.100.", "2001:db8:100::"}, {"203.0.113.", "2001:db8:113::"}, {"10.96.0.", "2001:db8:96::"},
	{"10.20.0.", "2001:db8:20:0::"}, {"10.20.1.", "2001:db8:20:1::"}, {"10.20.2.", "2001:db8:20:2::"}, {"127.0.0.", "::"},
}

var sixthRanges = map[string]string{
	"192.0.2.0/24": "2001:db8::/64", "198.51.100.0/24": "2001:db8:100::/64", "203.0.113.0/24": "2001:db8:113::/64", "10.96.0.0/16": "2001:db8:96::/112",
	"10.20.0.0/16": "2001:db8:20::/48", "10.20.0.0/24": "2001:db8:20::/64", "10.20.1.0/24": "2001:db8:20:1::/64",
	"10.20.2.0/24": "2001:db8:20:2::/64", "0.0.0.0/0": "::/0",
}

// At gives an address that is written in IPv4 in a family.
func At(text string, ipv6 bool) netip.Addr {
	if ipv6 {
		for _, r := range sixth {
			if last, ok := strings.CutPrefix(text, r[0]); ok {
				return netip.MustParseAddr(r[1] + last)
			}
		}
	}
	return netip.MustParseAddr(text)
}

// RangeAt gives a range that is written in IPv4 in a family.
func RangeAt(text string, ipv6 bool) netip.Prefix {
	if !ipv6 {
		return netip.MustParsePrefix(text)
	}
	if six, ok := sixthRanges[text]; ok {
		return netip.MustParsePrefix(six)
	}
	a := At(strings.TrimSuffix(text, "/32"), true)
	return netip.PrefixFrom(a, a.BitLen())
}

// NewWorld gives the network in a family.
func NewWorld(ipv6 bool) *World {
	w := &World{IPv6: ipv6, Hosts: map[string]*Host{}, onNetwork: map[netip.Addr]string{}}
	w.add("c", false, "eth0 192.0.2.50")
	w.add("r", false, "eth0 192.0.2.1", "eth1 198.51.100.1")
	for i, n := range Nodes {
		w.add(n, true, fmt.Sprintf("eth0 192.0.2.%d", 11+i), fmt.Sprintf("eth1 10.20.%d.1", i), fmt.Sprintf("eth2 198.51.100.%d", 11+i))
		b := w.add(fmt.Sprint("b", i+1), false, fmt.Sprintf("eth0 10.20.%d.%d", i, 10*(i+1)+1))
		w.route(b, "0.0.0.0/0", n, "eth0")
	}
	w.vips()
	for i, n := range Nodes {
		for _, other := range append([]string{"r"}, Nodes...) {
			if h := w.Hosts[other]; other == n {
				w.route(h, fmt.Sprintf("10.20.%d.0/24", i), "", "eth1")
			} else {
				w.route(h, fmt.Sprintf("10.20.%d.0/24", i), n, "eth0")
			}
		}
	}
	for _, h := range []string{"c", "r", "n1", "n2", "n3"} {
		w.route(w.Hosts[h], "192.0.2.0/24", "", "eth0")
	}
	w.route(w.Hosts["r"], "198.51.100.0/24", "", "eth1")
	w.route(w.Hosts["c"], "10.96.0.0/16", "n1", "eth0")
	w.route(w.Hosts["c"], "0.0.0.0/0", "r", "eth0")
	for _, n := range Nodes {
		w.route(w.Hosts[n], "198.51.100.0/24", "", "eth2")
		w.route(w.Hosts[n], "0.0.0.0/0", "r", "eth2")
	}
	return w
}

// vips adds the ways to the Services' addresses: c's, and those of nodes to
// where one is bound.
func (w *World) vips() {
	for _, v := range VIPs {
		w.route(w.Hosts["c"], v.Address+"/32", v.By, "eth0")
		for _, n := range Nodes {
			h := w.Hosts[n]
			switch {
			case slices.Contains(v.Bound, n):
				h.own = append(h.own, At(v.Address, w.IPv6))
			case len(v.Bound) > 0:
				w.route(h, v.Address+"/32", v.Bound[0], "eth0")
			case v.By == "n2" && n != "n2":
				w.route(h, v.Address+"/32", v.By, "eth0")
			}
		}
	}
}

func (w *World) add(name string, node bool, devs ...string) *Host {
	h := &Host{Name: name, Node: node, Devs: map[string]netip.Addr{}}
	for _, d := range devs {
		dev, addr, _ := strings.Cut(d, " ")
		h.Devs[dev] = At(addr, w.IPv6)
		h.own = append(h.own, h.Devs[dev])
		w.onNetwork[h.Devs[dev]] = name
	}
	w.Hosts[name] = h
	return h
}

func (w *World) route(h *Host, to, via, dev string) {
	h.Routes = append(h.Routes, Route{RangeAt(to, w.IPv6), via, dev})
}

// Address is what a host is known by: that of its first interface.
func (h *Host) Address() netip.Addr { return h.Devs["eth0"] }

// Addresses are all addresses of a host but loopback's.
func (h *Host) Addresses() []netip.Addr { return h.own }

// Has reports whether an address is the host's own.
func (h *Host) Has(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(h.own, a) }

// Way is where a host sends a packet.
type Way struct {
	Fate string // Lost or Uplink, if it ends there
	To   string // the next host, or the host itself
	Dev  string
	// Next is the next hop: the destination itself where it's on the network.
	// Not valid where that is nobody's concern.
	Next netip.Addr
}

// Way tells where a host sends what goes to an address.
func (w *World) Way(h *Host, dst netip.Addr) Way {
	if h.Has(dst) {
		return Way{To: h.Name, Dev: "lo"}
	}
	for _, r := range h.Routes {
		if !r.To.Contains(dst) {
			continue
		}
		if r.Via != "" {
			return Way{To: r.Via, Dev: r.Dev, Next: w.Hosts[r.Via].Devs["eth0"]}
		}
		if name, ok := w.onNetwork[dst]; ok {
			return Way{To: name, Dev: r.Dev, Next: dst}
		}
		return Way{Fate: Lost, Dev: r.Dev, Next: dst}
	}
	return Way{Fate: Uplink}
}

// Arrives is the interface by which a host gets what another sends.
func (w *World) Arrives(from, at string) string {
	if w.Hosts[at].Node && strings.HasPrefix(from, "b") {
		return "eth1"
	}
	return "eth0"
}

// Source is the address that a host's own connection to an address comes from.
func (w *World) Source(h *Host, dst netip.Addr) netip.Addr {
	if h.Has(dst) {
		return dst
	}
	if way := w.Way(h, dst); way.Dev == "eth1" {
		return h.Devs["eth1"]
	}
	return h.Address()
}

// Leaving is the address that a node puts on what it masquerades.
func (w *World) Leaving(h *Host, dst netip.Addr) netip.Addr {
	return h.Devs[w.Way(h, dst).Dev]
}

// Server names what listens on a host, "" if nothing does.
func (w *World) Server(h *Host, dst netip.AddrPort) string {
	switch {
	case h.Name == "c" || h.Name == "r" || dst.Addr() != h.Address():
		return ""
	case dst.Port() == Port:
		return h.Name
	case dst.Port() == Port2:
		return fmt.Sprint(h.Name, ":", Port2)
	}
	return ""
}

// Seen is how a server sees a client: one on the very same host by that host's
// name, since any of its addresses will do.
func (w *World) Seen(server *Host, src netip.Addr) string {
	if server.Has(src) {
		return server.Name
	}
	return src.String()
}

// Owner names the host of an address.
func (w *World) Owner(a netip.Addr) string {
	for _, name := range append([]string{"c", "r", "b1", "b2", "b3"}, Nodes...) {
		if w.Hosts[name].Has(a) {
			return name
		}
	}
	return ""
}
