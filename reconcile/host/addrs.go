package host

import (
	"fmt"
	"net/netip"
	"slices"
)

// Addrs is what matters of this host's addresses and routes: a plain value
// that holds no lifetimes or counters, so it is equal as long as nothing of
// consequence has changed.
type Addrs struct {
	V4, V6 Stack
}

// Stack is one family's part of Addrs.
type Stack struct {
	// Enabled says that the kernel has the family, as Families tells it.
	Enabled bool
	// Addresses hold the usable ones, best first (see Traits), then by
	// interface index, then oldest first. Loopback addresses and IPv6
	// link-local ones are not among them, nor tentative ones and those that
	// failed duplicate address detection: the kernel doesn't receive for them.
	Addresses []Address
	// Defaults are the default routes of the main table, by metric: those of
	// VRFs and policy routing's tables are for some of the traffic only.
	Defaults []Route
}

// Address is an address of this host.
type Address struct {
	netip.Addr
	Index int    // of the interface
	Link  string // the interface's name
	// Connected is the prefix reached directly by the address: the peer's for
	// point-to-point. NetworkManager's noprefixroute makes no difference; it
	// adds the route itself.
	Connected netip.Prefix
	Traits    Traits
}

// Route is a default route, with one of its next hops.
type Route struct {
	Index   int // of the interface
	Link    string
	Metric  int
	Gateway netip.Addr // not valid where the route is a link's; an IPv4 route's may be IPv6
	// Source is what the kernel sends from unless a process has bound an
	// address: the route's src if it has one, else the interface's address
	// nearest to the gateway. It is not valid on an unnumbered interface.
	Source netip.Addr
}

// Traits are reasons not to choose an address where one has to be chosen for
// all clients. The greater the number, the worse: one trait outweighs all
// those declared before it. A virtual address that comes and goes (keepalived,
// a DSR address on lo, an anycast /32) shall not displace the host's own, so
// what such addresses look like counts against them.
type Traits uint8

// The traits, the lightest first.
const (
	// Secondary is an IPv4 address in the prefix of an older one.
	Secondary Traits = 1 << iota
	// HostLength is an address without a prefix around it: /32 or /128.
	HostLength
	// Deprecated is an address that new connections aren't sent from
	// (preferred lifetime zero). keepalived adds its IPv6 addresses so; they
	// receive as ever.
	Deprecated
	// Temporary is an IPv6 privacy address (RFC 8981).
	Temporary
	// OnLoopback is an address of lo that is not a loopback address.
	OnLoopback
	// LinkDown is an address whose interface is administratively down. Loss
	// of carrier doesn't count: it comes and goes, and addresses should not.
	LinkDown
	// LinkScope is an IPv4 link-local address, or of scope link: not global,
	// so it is used only where an operator names it.
	LinkScope
)

// Equal reports whether two readings say the same.
func (a Addrs) Equal(b Addrs) bool { return a.V4.equal(b.V4) && a.V6.equal(b.V6) }

func (s Stack) equal(t Stack) bool {
	return s.Enabled == t.Enabled &&
		slices.Equal(s.Addresses, t.Addresses) && slices.Equal(s.Defaults, t.Defaults)
}

// Has reports whether addr is an address of this host.
func (a Addrs) Has(addr netip.Addr) bool {
	return a.V4.has(addr) || a.V6.has(addr)
}

func (s Stack) has(addr netip.Addr) bool {
	return slices.ContainsFunc(s.Addresses, func(a Address) bool { return a.Addr == addr })
}

// Within names what of this host lies in a prefix: its addresses, the prefixes
// connected to it, its gateways. A range of addresses that belong to Services
// alone holds none of them. A prefix inside a connected one is no clash by
// itself: a range for Services may be cut out of the LAN's.
func (a Addrs) Within(p netip.Prefix) []string {
	return slices.Concat(a.V4.within(p), a.V6.within(p))
}

func (s Stack) within(p netip.Prefix) []string {
	var found []string
	for _, a := range s.Addresses {
		if p.Contains(a.Addr) {
			found = append(found, fmt.Sprintf("address %v (%s)", a.Addr, a.Link))
		}
		if c := a.Connected; !c.IsSingleIP() && p.Bits() <= c.Bits() && p.Contains(c.Addr()) {
			found = append(found, fmt.Sprintf("connected prefix %v (%s)", c, a.Link))
		}
	}
	for _, r := range s.Defaults {
		if p.Contains(r.Gateway) {
			found = append(found, fmt.Sprintf("gateway %v (%s)", r.Gateway, r.Link))
		}
	}
	return unique(found)
}

// LinkTo gives the link by which an address is reached, as far as connected
// networks and default routes tell; it's empty for one of this host's own, and
// where neither leads there.
func (s Stack) LinkTo(to netip.Addr) string {
	link, bits := "", -1
	for _, a := range s.Addresses {
		if a.Addr == to {
			return ""
		}
		if a.Connected.Contains(to) && a.Connected.Bits() > bits {
			link, bits = a.Link, a.Connected.Bits()
		}
	}
	if bits < 0 && len(s.Defaults) > 0 {
		link = s.Defaults[0].Link
	}
	return link
}

// unique drops repetitions and keeps the order.
func unique[T comparable](in []T) []T {
	var out []T
	for _, v := range in {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
