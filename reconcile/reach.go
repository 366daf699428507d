package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pointsman/state"
)

// Reach says what becomes of new connections to a frontend that come from
// outside: the endpoints they may go to, or where there are none, why they are
// refused or dropped.
func Reach(s *state.Service, p *state.Port, f state.Frontend, node Node) (endpoints []netip.AddrPort, why string) {
	chosen := choose(p.Endpoints, f.Address.Is6(), node)
	policy := s.TrafficPolicy(f.Kind)
	switch {
	case len(chosen.cluster) == 0:
		return nil, "refused: no endpoint is usable" + declaredText(p.Endpoints, f.Address.Is6())
	case policy != state.Local:
		return chosen.cluster, ""
	case len(chosen.local) == 0:
		return nil, fmt.Sprintf("dropped: no local endpoint on %s (%s)", node.Name, homes(p.Endpoints, f.Address.Is6()))
	}
	return chosen.local, ""
}

// declaredText tells that there are endpoints, just none that is usable.
func declaredText(endpoints []state.Endpoint, ipv6 bool) string {
	n := 0
	for _, e := range endpoints {
		if e.Address.Addr().Is6() == ipv6 {
			n++
		}
	}
	if n == 0 {
		return "; there is none of the family"
	}
	return fmt.Sprintf("; there are %d", n)
}

// homes names the nodes that endpoints are on.
func homes(endpoints []state.Endpoint, ipv6 bool) string {
	var names []string
	for _, e := range endpoints {
		name := e.NodeName
		if name == "" {
			name = "none"
		}
		if e.Address.Addr().Is6() == ipv6 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return "nodeName " + strings.Join(names, ", ")
}
