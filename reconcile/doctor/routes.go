package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"pointsman/state"
)

// routes looks for destinations that this host's own processes can't send to:
// without a route the kernel refuses before the rules are asked. What is only
// forwarded is translated before it is routed, and needs none.
func (p *Patient) routes() []Finding {
	var out []Finding
	addrs, _ := p.nodePortAddresses()
	for _, d := range destinations(p.ServiceCIDRs, p.Services) {
		why, missing := p.Unreachable[d]
		if !missing || d.Is6() && !p.Addrs.V6.Enabled { // nothing of the family is served here, see forwarding
			continue
		}
		to := netip.PrefixFrom(d, d.BitLen())
		for _, c := range p.ServiceCIDRs {
			if c.Contains(d) {
				to = c
			}
		}
		out = append(out, Finding{Level: Problem, What: fmt.Sprintf("this host has no route to %s (%s)", to, why),
			Means: "Its own processes don't reach Services there: the kernel refuses before the rules are asked. Any route will do, as none of these packets leaves by it.",
			Fix:   []string{fmt.Sprintf("ip route add %s dev %s", to, p.linkFor(d, addrs))}})
	}
	if len(out) == 0 {
		return ok("there are routes to all addresses of Services")
	}
	const most = 5
	if n := len(out) - most; n > 1 { // one is as long as to say so
		out = append(out[:most], Finding{Level: Problem, What: fmt.Sprintf("this host has no route to %d more addresses of Services", n)})
	}
	return out
}

// linkFor names an interface for a route: that of the NodePort address.
func (p *Patient) linkFor(d netip.Addr, nodePorts []netip.Addr) string {
	for _, a := range slices.Concat(p.Addrs.V4.Addresses, p.Addrs.V6.Addresses) {
		if a.Is6() == d.Is6() && slices.Contains(nodePorts, a.Addr) {
			return a.Link
		}
	}
	return "INTERFACE"
}

// destinations are what this host's processes may send to: an address of each
// service range, and those of the Services that are in none. NodePorts have none
// of their own: they answer on the host's, of the family that they name by 0.0.0.0
// or ::.
func destinations(cidrs []netip.Prefix, services []*state.Service) []netip.Addr {
	var out []netip.Addr
	for _, c := range cidrs {
		a := c.Addr()
		if !c.IsSingleIP() {
			a = a.Next() // the first is a network's own
		}
		out = append(out, a)
	}
	seen := map[netip.Addr]bool{}
	for _, s := range services {
		for i := range s.Ports {
			for _, f := range s.Ports[i].Frontends {
				a := f.Address
				if f.Kind != state.NodePort && !seen[a] && !slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Contains(a) }) {
					out = append(out, a)
				}
				seen[a] = true
			}
		}
	}
	return out
}
