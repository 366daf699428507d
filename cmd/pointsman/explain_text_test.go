package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/gossip"
	"pointsman/reconcile"
)

// TestCheckedText: what an endpoint's health rests on reads as one sentence,
// whether it's probed or not.
func TestCheckedText(t *testing.T) {
	for want, check := range map[string]reconcile.Checked{
		"no probe: it's good as long as its host lives, or others can connect to it":                                  {},
		"no probe: it's good as long as its host lives, or others can connect to it; down since 2026-11-30T05:00:00Z": {Verdict: "down", Since: time.Date(2026, 11, 30, 5, 0, 0, 0, time.UTC)},
		"probe: tcpSocket 10.20.0.11:80 every 1s; unknown":                                                            {Probe: "tcpSocket 10.20.0.11:80 every 1s", Verdict: "unknown"},
		"probe: tcpSocket 10.20.0.11:80 every 1s; up as last known, for nobody has a fresh word":                      {Probe: "tcpSocket 10.20.0.11:80 every 1s", Verdict: "up", Held: true},
	} {
		var p walk
		p.checked(&reconcile.Backing{Check: &check})
		if got := strings.Join(strings.Fields(p.String()), " "); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}

// TestConcludedFaults: elements say nothing for sure where somebody has changed
// the chains.
func TestConcludedFaults(t *testing.T) {
	to := addrPort("10.96.0.20:80")
	served := reconcile.Fate{Verdict: reconcile.Served, Endpoints: []netip.AddrPort{to}}
	x := &reconcile.Explanation{To: to, Protocol: "TCP", Clients: []reconcile.ClientFate{{Intent: served, Actual: &served}}, Endpoints: []reconcile.EndpointFate{{Address: to}},
		Kernel: reconcile.KernelState{Known: true, Faults: []string{"chain dispatch has 0 rules, and should have 1"}}}
	want := "10.96.0.20:80/TCP: served by 1 of 1 endpoint, which see the client, by its elements; but the table isn't as it should be, and packets may meet something else"
	if got := concluded(x); got != want || x.OK() {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestAskable: what others ask at the socket has to make sense, too.
func TestAskable(t *testing.T) {
	for text, want := range map[string]bool{
		"10.96.0.20:80": true, "10.96.0.20:80 10.0.0.1": true, "10.96.0.20:80 ::ffff:10.0.0.1": true, "[2001:db8::1]:80 2001:db8::9": true,
		"10.96.0.20:0": false, "[fe80::1%eth0]:80": false, "10.96.0.20:80 2001:db8::9": false, "[2001:db8::1]:80 10.0.0.1": false, "[2001:db8::1]:80 fe80::1%\x1b[2J": false,
	} {
		to, from, isFrom := strings.Cut(text, " ")
		q := &reconcile.Question{To: addrPort(to)}
		if isFrom {
			q.From = netip.MustParseAddr(from)
		}
		if got := askable(q); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A client that is an endpoint, too, has one route.
func TestRouteTexts(t *testing.T) {
	same := routeAnswer{To: netip.MustParseAddr("10.20.0.11"), Of: ofClient, Link: "eth1"}
	if got := routeTexts([]routeAnswer{same, same}); !slices.Equal(got, []string{"back to 10.20.0.11: by eth1"}) {
		t.Errorf("%q", got)
	}
}

func TestTroublesBelow(t *testing.T) {
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	once := troubleShown{Kind: "cannot join", Member: "n3", Detail: "refused", Since: at, Count: 1}
	twice := once
	twice.Count = 2
	want := []string{"trouble: cannot join n3 (at 2026-11-30T03:00:00Z): refused", "trouble: cannot join n3 (2 times since 2026-11-30T03:00:00Z): refused"}
	if got := nodesBelow(&nodesAnswer{Troubles: []troubleShown{once, twice}}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Details have commas of their own.
func TestFleetText(t *testing.T) {
	s := &gossip.Status{Isolated: "why", Known: 2, View: &gossip.View{Absent: []string{"n2"},
		Troubles: []gossip.Trouble{{Kind: gossip.CannotJoin, Member: "n2", Detail: "no, and no"}}}}
	if got, want := fleetText(s), "this host judges by itself alone: why; 1 of 2 hosts absent (n2); cannot join n2: no, and no"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
