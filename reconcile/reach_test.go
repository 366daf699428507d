package reconcile

import (
	"fmt"
	"net/netip"
	"testing"

	"pointsman/state"
)

// TestReach: what becomes of connections from outside, and why (C86).
func TestReach(t *testing.T) {
	at := func(node string, ready bool) state.Endpoint {
		return state.Endpoint{Address: netip.MustParseAddrPort("10.20.0.1:8080"), NodeName: node, Ready: ready, Serving: ready}
	}
	for _, c := range []struct {
		name      string
		policy    state.TrafficPolicy
		endpoints []state.Endpoint
		want      string
	}{
		{"an endpoint anywhere", state.Cluster, []state.Endpoint{at("n2", true)}, "[10.20.0.1:8080] "},
		{"policy Local, one here", state.Local, []state.Endpoint{at("n1", true)}, "[10.20.0.1:8080] "},
		{"policy Local, one elsewhere", state.Local, []state.Endpoint{at("n2", true)}, "[] dropped: no local endpoint on n1 (nodeName n2)"},
		{"policy Local, one of no node", state.Local, []state.Endpoint{at("", true)}, "[] dropped: no local endpoint on n1 (nodeName none)"},
		{"policy Local, none usable", state.Local, []state.Endpoint{at("n2", false)}, "[] refused: no endpoint is usable; there are 1"},
		{"none at all", state.Cluster, nil, "[] refused: no endpoint is usable; there is none of the family"},
	} {
		s := &state.Service{InternalTrafficPolicy: c.policy, ExternalTrafficPolicy: state.Cluster}
		p := &state.Port{Protocol: state.TCP, Endpoints: c.endpoints}
		vip := state.Frontend{Address: netip.MustParseAddr("10.96.0.1"), Port: 80}
		endpoints, why := Reach(s, p, vip, Node{Name: "n1"})
		if got := fmt.Sprint(endpoints, " ", why); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
		vip.Kind = state.NodePort
		if endpoints, _ := Reach(s, p, vip, Node{Name: "n1"}); (len(endpoints) > 0) != (len(c.endpoints) > 0 && c.endpoints[0].Ready) {
			t.Errorf("%s: internalTrafficPolicy counts for a NodePort: %v", c.name, endpoints)
		}
	}
}
