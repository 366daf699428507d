package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// SafeServiceCIDRs gives the service ranges that may be in force. What is in
// them and belongs to no Service is dropped, so a range that holds an address
// of this host or one connected to it, its gateway, another node or an
// endpoint would lock somebody out. Such a range is left out and the reason
// given, naming both.
func SafeServiceCIDRs(cidrs []netip.Prefix, addrs host.Addrs, d *Desired) (safe []netip.Prefix, refused []string) {
	for _, c := range cidrs {
		if why := unsafe(c, addrs, d); len(why) > 0 {
			refused = append(refused, fmt.Sprintf("--service-cidr %s holds %s", c, strings.Join(why, ", ")))
			continue
		}
		safe = append(safe, c)
	}
	return safe, refused
}

func unsafe(c netip.Prefix, addrs host.Addrs, d *Desired) []string {
	why := addrs.Within(c)
	if d == nil {
		return why
	}
	for _, a := range d.FleetIPs {
		if c.Contains(a) {
			why = append(why, fmt.Sprintf("the node address %s", a))
		}
	}
	if s, e := firstEndpoint(d.Services, func(e *state.Endpoint) bool { return c.Contains(e.Address.Addr()) }); e != nil {
		why = append(why, fmt.Sprintf("the endpoint %s of %s", e.Address, s.ObjectName))
	}
	return why
}

// firstEndpoint gives the first endpoint of which is holds, and its Service.
func firstEndpoint(services []*state.Service, is func(*state.Endpoint) bool) (*state.Service, *state.Endpoint) {
	for _, s := range services {
		for i := range s.Ports {
			for k := range s.Ports[i].Endpoints {
				if e := &s.Ports[i].Endpoints[k]; is(e) {
					return s, e
				}
			}
		}
	}
	return nil, nil
}

// SafeLocalCIDRs gives the local ranges that may be in force. Sources within
// one keep their address on the way to a ClusterIP, so each reply has to come
// back through this host. It doesn't from an endpoint that is reached over the
// network which the client is in: it answers the client directly, and that
// resets what it doesn't know. Such a range is left out, and what it holds is
// masqueraded, which always works. The same on a bridge of this host is left
// to br_netfilter (see doctor).
func SafeLocalCIDRs(cidrs []netip.Prefix, addrs host.Addrs, node string, d *Desired) (safe []netip.Prefix, refused []string) {
	for _, c := range cidrs {
		if why := shortcut(c, addrs, node, d); why != "" {
			refused = append(refused, fmt.Sprintf("--local-cidr %s holds %s", c, why))
			continue
		}
		safe = append(safe, c)
	}
	return safe, refused
}

// shortcut tells of clients in a range and of an endpoint that answers them
// past this host, "" if there are none.
func shortcut(c netip.Prefix, addrs host.Addrs, node string, d *Desired) string {
	for _, stack := range []host.Stack{addrs.V4, addrs.V6} {
		for _, uplink := range stack.Defaults {
			at := slices.IndexFunc(stack.Addresses, func(a host.Address) bool {
				return a.Link == uplink.Link && !a.Connected.IsSingleIP() && a.Connected.Overlaps(c)
			})
			if at < 0 {
				continue
			}
			lan := stack.Addresses[at].Connected
			s, e := firstEndpoint(d.Services, func(e *state.Endpoint) bool {
				return e.NodeName != node && e.Address.Addr().Is4() == lan.Addr().Is4() && stack.LinkTo(e.Address.Addr()) == uplink.Link
			})
			if e != nil {
				return fmt.Sprintf("clients of %s (%s), and the endpoint %s of %s, over the same network, would answer them past this host",
					lan, uplink.Link, e.Address, s.ObjectName)
			}
		}
	}
	return ""
}
