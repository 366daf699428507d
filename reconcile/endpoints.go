package reconcile

import (
	"net/netip"
	"slices"

	"pointsman/state"
)

// choice is the endpoints of one Service port that traffic may use, of one
// family.
type choice struct {
	cluster []netip.AddrPort // under policy Cluster
	local   []netip.AddrPort // under policy Local
}

// choose picks the endpoints: ready ones, else those that are serving while
// they terminate (KEP-1669), for each policy by itself. Topology counts for
// policy Cluster only.
func choose(endpoints []state.Endpoint, ipv6 bool, node Node) choice {
	family := keep(endpoints, func(e state.Endpoint) bool { return e.Address.Addr().Is6() == ipv6 })
	local := keep(family, func(e state.Endpoint) bool { return e.NodeName != "" && e.NodeName == node.Name })
	cluster := usable(family)
	if len(cluster) > 0 && cluster[0].Ready {
		cluster = nearest(cluster, node)
	}
	return choice{cluster: addresses(cluster), local: addresses(usable(local))}
}

func usable(endpoints []state.Endpoint) []state.Endpoint {
	if ready := keep(endpoints, func(e state.Endpoint) bool { return e.Ready }); len(ready) > 0 {
		return ready
	}
	return keep(endpoints, func(e state.Endpoint) bool { return e.Serving && e.Terminating })
}

// nearest follows the topology hints: those of nodes, else those of zones,
// wherever every endpoint has one and at least one matches (KEP-2433,
// KEP-3015). Traffic is never lost to a preference.
func nearest(ready []state.Endpoint, node Node) []state.Endpoint {
	for _, hint := range []struct {
		of   func(state.Endpoint) []string
		here string
	}{
		{func(e state.Endpoint) []string { return e.HintNodes }, node.Name},
		{func(e state.Endpoint) []string { return e.HintZones }, node.Zone},
	} {
		hinted := keep(ready, func(e state.Endpoint) bool { return len(hint.of(e)) > 0 })
		here := keep(ready, func(e state.Endpoint) bool { return slices.Contains(hint.of(e), hint.here) })
		if len(hinted) == len(ready) && len(here) > 0 {
			return here
		}
	}
	return ready
}

func keep(endpoints []state.Endpoint, want func(state.Endpoint) bool) []state.Endpoint {
	kept := make([]state.Endpoint, 0, len(endpoints))
	for _, e := range endpoints {
		if want(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func addresses(endpoints []state.Endpoint) []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(endpoints))
	for i, e := range endpoints {
		addrs[i] = e.Address
	}
	return addrs
}
