package main

import (
	"net/netip"
	"reflect"
	"testing"

	"pointsman/gossip"
	"pointsman/state"
)

func TestSurvey(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")
	end := func(address, node string, e state.Endpoint) state.Endpoint {
		e.Address, e.NodeName = netip.MustParseAddrPort(address), node
		return e
	}
	ready := state.Endpoint{Ready: true, Serving: true}
	leaving := state.Endpoint{Serving: true, Terminating: true, Cause: &state.Cause{Kind: state.Drained}}
	untried := state.Endpoint{Serving: true, Cause: &state.Cause{Kind: state.Untried}}
	down := state.Endpoint{Cause: &state.Cause{Kind: state.SeenDown}}
	kept := state.Endpoint{Ready: true, Serving: true, Cause: &state.Cause{Kind: state.KeptAnyway}}
	service := func(kinds map[state.FrontendKind]netip.Addr, endpoints ...state.Endpoint) *state.Service {
		p := state.Port{Endpoints: endpoints}
		for k, a := range kinds {
			p.Frontends = append(p.Frontends, state.Frontend{Kind: k, Address: a})
		}
		return &state.Service{Ports: []state.Port{p}, InternalTrafficPolicy: state.Cluster, ExternalTrafficPolicy: state.Local}
	}
	inside := map[state.FrontendKind]netip.Addr{state.ClusterIP: v4}
	outside := map[state.FrontendKind]netip.Addr{state.ClusterIP: v4, state.LoadBalancerIP: v4}
	got := survey([]*state.Service{
		service(inside, end("10.0.0.1:80", "n1", ready), end("10.0.0.2:80", "n2", down), end("10.0.0.3:80", "n2", untried)),
		service(outside, end("10.0.0.1:80", "n2", leaving), end("10.0.0.2:80", "n1", down)),
		service(map[state.FrontendKind]netip.Addr{state.ClusterIP: v4, state.ExternalIP: v6}, end("10.0.0.1:80", "n1", kept)),
		service(nil, end("10.0.0.1:80", "n1", ready)),
		{},
	}, "n1")
	want := census{
		services:  map[string]int{"ready": 1, "terminating": 1, "none": 1, "headless": 2},
		endpoints: map[string]int{"ready": 3, "terminating": 1, "serving": 1, "down": 2},
		causes:    map[string]int{"seen_down": 2, "untried": 1, "drained": 1, "kept_anyway": 1},
		nowhere:   map[string]int{"internal": 0, "external": 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestCounts: members by their state, and troubles by their kind.
func TestCounts(t *testing.T) {
	v := &gossip.View{
		Members:  []gossip.Member{{Name: "n1", State: gossip.Alive}, {Name: "n2", State: gossip.Dead}, {Name: "n3", State: gossip.Alive}},
		Troubles: []gossip.Trouble{{Kind: gossip.UDPBlocked}, {Kind: gossip.UDPBlocked}},
	}
	if n := countMembers(v); n["alive"] != 2 || n["dead"] != 1 || n["suspect"] != 0 {
		t.Errorf("%v", n)
	}
	if n := countTroubles(v); len(n) != 1 || n[string(gossip.UDPBlocked)] != 2 {
		t.Errorf("%v", n)
	}
}
