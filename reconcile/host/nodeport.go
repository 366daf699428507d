package host

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// NodePortAddresses chooses the addresses of one family that NodePorts answer
// on, sorted, and says why those. The first that yields any decides:
//
//   - cidrs (--nodeport-addresses): every address of this host within them.
//     Nothing else is tried: an operator who names ranges has ruled out the
//     rest, and a family that none of them belongs to has no NodePorts
//     (kube-proxy opens all its addresses then).
//   - internalIPs of the Node manifest that are on this host.
//   - the source address of the default route.
//   - the first address: best by Traits, then by interface index.
//
// Loopback addresses, and IPv6 link-local ones, are not in a Stack.
func NodePortAddresses(s Stack, internalIPs []netip.Addr, cidrs []netip.Prefix) (addresses []netip.Addr, why string) {
	if len(cidrs) > 0 {
		return s.inside(cidrs)
	}
	if own := s.own(internalIPs); len(own) > 0 {
		return own, "InternalIP of the Node manifest"
	}
	for _, r := range s.Defaults {
		if r.Source.IsValid() {
			return []netip.Addr{r.Source}, fmt.Sprintf("source of the default route (%s)", r.Link)
		}
	}
	for _, a := range s.Addresses {
		if a.Traits&LinkScope == 0 {
			return []netip.Addr{a.Addr}, fmt.Sprintf("first global address (%s)", a.Link)
		}
	}
	return nil, "this host has no global address of the family"
}

func (s Stack) inside(cidrs []netip.Prefix) (addresses []netip.Addr, why string) {
	names := make([]string, 0, len(cidrs))
	for _, c := range cidrs {
		names = append(names, c.String())
		for _, a := range s.Addresses {
			if c.Contains(a.Addr) {
				addresses = append(addresses, a.Addr)
			}
		}
	}
	why = "--nodeport-addresses " + strings.Join(names, ",")
	if len(addresses) == 0 {
		return nil, "no address of the family is in " + why
	}
	return sorted(addresses), why
}

func (s Stack) own(wanted []netip.Addr) []netip.Addr {
	var own []netip.Addr
	for _, w := range wanted {
		if s.has(w.Unmap()) {
			own = append(own, w.Unmap())
		}
	}
	return sorted(own)
}

// sorted sorts, and drops repetitions: one address may be on two interfaces.
func sorted(addresses []netip.Addr) []netip.Addr {
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}
