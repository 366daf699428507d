package reconcile

import (
	"fmt"
	"net/netip"
	"strings"

	"pointsman/reconcile/host"
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
	for _, s := range d.Services {
		for i := range s.Ports {
			for _, e := range s.Ports[i].Endpoints {
				if c.Contains(e.Address.Addr()) {
					return append(why, fmt.Sprintf("the endpoint %s of %s", e.Address, s.ObjectName))
				}
			}
		}
	}
	return why
}
