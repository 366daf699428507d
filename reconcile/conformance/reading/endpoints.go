package reading

import (
	"net/netip"
	"slices"

	"pointsman/state"
)

// usable gives the endpoints for traffic that may go anywhere: the ready ones,
// those that are hinted for this node if all have hints; if none is ready,
// those that still serve while they terminate.
func (r *reader) usable(h *Host, all []state.Endpoint) []netip.AddrPort {
	var ready, draining []state.Endpoint
	for _, e := range all {
		switch {
		case e.Address.Addr().Is4() == r.IPv6:
		case e.Ready:
			ready = append(ready, e)
		case e.Serving && e.Terminating:
			draining = append(draining, e)
		}
	}
	if len(ready) == 0 {
		return addresses(draining)
	}
	for _, hinted := range []func(e state.Endpoint) (has, matches bool){
		func(e state.Endpoint) (bool, bool) { return len(e.HintNodes) > 0, slices.Contains(e.HintNodes, h.Name) },
		func(e state.Endpoint) (bool, bool) {
			return len(e.HintZones) > 0, slices.Contains(e.HintZones, r.Zones[h.Name])
		},
	} {
		var near []state.Endpoint
		allHave := true
		for _, e := range ready {
			has, matches := hinted(e)
			allHave = allHave && has
			if matches {
				near = append(near, e)
			}
		}
		if allHave && len(near) > 0 {
			return addresses(near)
		}
	}
	return addresses(ready)
}

// usableHere gives the endpoints for traffic that must stay on this node:
// distance is no question there, so hints are none.
func (r *reader) usableHere(h *Host, all []state.Endpoint) []netip.AddrPort {
	var here []state.Endpoint
	for _, e := range all {
		if e.NodeName == h.Name {
			e.HintNodes, e.HintZones = nil, nil
			here = append(here, e)
		}
	}
	return r.usable(h, here)
}

func addresses(endpoints []state.Endpoint) []netip.AddrPort {
	var out []netip.AddrPort
	for _, e := range endpoints {
		out = append(out, e.Address)
	}
	return out
}
