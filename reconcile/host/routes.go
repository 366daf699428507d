package host

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// defaultRoutes lists the default routes of the main table. The kernel can't
// be asked for them alone (a strict dump filters by table, not by length of
// prefix), so a host that holds the Internet's routes pays for listing them;
// the Watcher therefore reads only after events of default routes.
func defaultRoutes(family int, own []Address, links linkNames) ([]Route, error) {
	routes, err := dump(func() (found []netlink.Route, err error) {
		err = netlink.RouteListFilteredIter(family, &netlink.Route{}, 0, func(r netlink.Route) bool {
			if isDefault(r) {
				found = append(found, r)
			}
			return true
		})
		return found, err
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var out []Route
	for _, r := range routes {
		hops, err := nextHops(r, links)
		if err != nil {
			return nil, err
		}
		out = append(out, hops...)
	}
	slices.SortFunc(out, compareRoutes)
	for i, r := range out {
		out[i].Source = r.source(own)
	}
	return out, nil
}

// isDefault leaves out "unreachable default", and routes for a type of
// service.
func isDefault(r netlink.Route) bool {
	if r.Dst == nil || r.Type != unix.RTN_UNICAST || r.Tos != 0 {
		return false
	}
	bits, _ := r.Dst.Mask.Size()
	return bits == 0
}

// nextHops makes a Route of each next hop. A route by nexthop object has them
// spelled out too, unless the sysctl nexthop_compat_mode is 0; it is left out
// then.
func nextHops(r netlink.Route, links linkNames) ([]Route, error) {
	hops := r.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
	}
	var out []Route
	for _, hop := range hops {
		link, err := links.find(hop.LinkIndex)
		if err != nil {
			return nil, err
		}
		if link.name == "" {
			continue
		}
		source, _ := netip.AddrFromSlice(r.Src)
		out = append(out, Route{
			Index: hop.LinkIndex, Link: link.name, Metric: r.Priority,
			Gateway: gateway(hop.Gw, hop.Via), Source: source.Unmap(),
		})
	}
	return out, nil
}

// gateway is a next hop's, which may be of the other family (RTA_VIA,
// RFC 5549, since Linux 5.2).
func gateway(gw net.IP, via netlink.Destination) netip.Addr {
	if v, ok := via.(*netlink.Via); ok && v != nil {
		gw = v.Addr
	}
	ip, _ := netip.AddrFromSlice(gw)
	return ip.Unmap()
}

func compareRoutes(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Index, b.Index), a.Gateway.Compare(b.Gateway))
}

// source is the address the kernel sends from by the route: its src, or as
// inet_select_addr chooses for IPv4, the first address of the interface whose
// prefix holds the gateway, else the interface's first. For IPv6 the choice
// depends on the destination too (RFC 6724); the same rule gives one that
// destinations far away will see, as Traits put temporary and deprecated
// addresses last.
func (r Route) source(own []Address) netip.Addr {
	if r.Source.IsValid() {
		if slices.ContainsFunc(own, func(a Address) bool { return a.Addr == r.Source }) {
			return r.Source
		}
		return netip.Addr{}
	}
	var first netip.Addr
	for _, a := range own {
		switch {
		case a.Index != r.Index || a.Traits&LinkScope != 0:
		case a.Connected.Contains(r.Gateway):
			return a.Addr
		case !first.IsValid():
			first = a.Addr
		}
	}
	return first
}
