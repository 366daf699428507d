package doctor

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// trip is a way with two endpoints behind eth1, and clients of all kinds.
func trip() *Way {
	return &Way{Protocol: state.TCP, To: at("10.96.0.20:80"), Elsewhere: []string{"outside"}, Own: []string{"this host"},
		Endpoints: []netip.Addr{addr("10.20.0.11"), addr("10.20.0.12")},
		Hops: []host.Hop{
			{To: addr("10.96.0.20"), Link: host.Link{Name: "eth0"}, Carrier: true, Gateway: addr("192.0.2.1")},
			{To: addr("10.20.0.11"), Link: host.Link{Name: "eth1"}, Carrier: true},
			{To: addr("10.20.0.12"), Link: host.Link{Name: "eth1"}, Carrier: true, Gateway: addr("10.20.1.1")}}}
}

// hop changes one of a way's hops.
func hop(to string, change func(*host.Hop)) func(*Way) {
	return func(w *Way) {
		for i := range w.Hops {
			if w.Hops[i].To == addr(to) {
				change(&w.Hops[i])
			}
		}
	}
}

func refuses(r host.Refusal) func(*host.Hop) {
	return func(h *host.Hop) { *h = host.Hop{To: h.To, Refusal: r, Forwarded: r} }
}

func onlyForwarded(r host.Refusal) func(*host.Hop) { return func(h *host.Hop) { h.Forwarded = r } }

func selected(h *host.Hop) { h.Selected = true }

func isLocalHop(h *host.Hop) { h.Local, h.Link.Name = true, "lo" }

func by(link, kind string) func(*host.Hop) {
	return func(h *host.Hop) { h.Link, h.Gateway = host.Link{Name: link, Kind: kind}, netip.Addr{} }
}

// from is a client behind a link.
func from(client, link string) func(*Way) {
	return func(w *Way) {
		w.From, w.Elsewhere, w.Own = addr(client), []string{client}, nil
		w.Hops = append(w.Hops, host.Hop{To: addr(client), Link: host.Link{Name: link}, Carrier: true})
	}
}

func bared(w *Way) { w.Bared = true }

func ways(changes ...func(*Way)) func(*Way) {
	return func(w *Way) {
		for _, change := range changes {
			change(w)
		}
	}
}

func nothing(*Way) {}

// local makes all endpoints this host's own.
var local = ways(hop("10.20.0.11", isLocalHop), hop("10.20.0.12", isLocalHop))

// obstacleLines gives obstacles as lines: whether they're certain, for whom, what.
func obstacleLines(host func(*Patient), way func(*Way)) string {
	p, w := well(), trip()
	host(p)
	way(w)
	var lines []string
	for _, o := range Obstacles(p.Facts, Ranges{Service: p.ServiceCIDRs, Local: p.LocalCIDRs}, w) {
		sure := "perhaps"
		if o.Certain {
			sure = "certain"
		}
		if o.Level == Note {
			sure = "note"
		}
		lines = append(lines, fmt.Sprintf("%s %s [%s] %s | %s", sure, o.Check, strings.Join(o.For, ","), o.What, strings.Join(o.Fix, " ; ")))
	}
	return strings.Join(lines, "\n")
}

func TestObstacles(t *testing.T) {
	none := func(*Patient) {}
	established := host.Rule{Conditional: true, Later: true, Verdict: "accept"}
	output := host.Chain{Family: "inet", Table: "f", Name: "out", Type: "filter", Hook: "output", Drop: true}
	raw := host.Chain{Family: "ip", Table: "raw", Name: "pre", Type: "filter", Hook: "prerouting", Priority: -300, Drop: true}
	for _, c := range []struct {
		name string
		host func(*Patient)
		way  func(*Way)
		want string // a part of the lines; empty: there are none
	}{
		{"nothing", none, nothing, ""},
		{"nothing, for a client", none, from("192.0.2.50", "eth0"), ""},
		{"no endpoints", sysctl(ipForward, "0"), func(w *Way) { w.Endpoints = nil }, ""},

		{"no route", none, hop("10.20.0.12", refuses(host.NoRoute)),
			"certain endpoint-route [outside,this host] this host has no route to 10.20.0.12 | ip route add 10.20.0.12 via GATEWAY dev INTERFACE"},
		{"no route to any", none, ways(hop("10.20.0.11", refuses(host.NoRoute)), hop("10.20.0.12", refuses(host.NoRoute))), "no route to 10.20.0.11, 10.20.0.12 |"},
		{"a blackhole", none, hop("10.20.0.12", refuses(host.Blackhole)), "this host's route to 10.20.0.12 is a blackhole route | # which route is it? ; ip route show match 10.20.0.12"},
		{"a blackhole, and rules for marks", none, ways(hop("10.20.0.12", refuses(host.Blackhole)), hop("10.20.0.12", selected)),
			"perhaps endpoint-route [outside,this host] this host's route to 10.20.0.12 is a blackhole route"},
		{"no way back, and rules for marks", none, ways(from("192.0.2.50", "eth0"), hop("192.0.2.50", refuses(host.NoRoute)), hop("192.0.2.50", selected)), "perhaps client-route [192.0.2.50]"},
		{"a rule for the client", none, ways(from("192.0.2.50", "eth0"), hop("10.20.0.12", onlyForwarded(host.Prohibited))),
			"certain endpoint-route [192.0.2.50] this host's route to 10.20.0.12 is a prohibit route"},
		{"a rule for the host", none, ways(from("192.0.2.50", "eth0"), hop("10.20.0.12", refuses(host.NoRoute)), hop("10.20.0.12", onlyForwarded(""))), ""},
		{"no way back", none, ways(from("192.0.2.50", "eth0"), hop("192.0.2.50", refuses(host.NoRoute))), "certain client-route [192.0.2.50] this host has no route to 192.0.2.50"},
		{"no route to the frontend", none, hop("10.96.0.20", refuses(host.NoRoute)),
			"certain frontend-route [this host] this host has no route to 10.96.0.0/16 (network is unreachable) | ip route add 10.96.0.0/16 dev eth0"},
		{"a blackhole for the frontend", none, hop("10.96.0.20", refuses(host.Blackhole)), "certain frontend-route [this host] this host's route to 10.96.0.20 is a blackhole route"},
		{"no route to the frontend, which others need not", none, ways(from("192.0.2.50", "eth0"), hop("10.96.0.20", refuses(host.NoRoute))), ""},

		{"forwarding", both(sysctl(ipForward, "0"), both(linkSysctl(linkForwarding4, "eth0", "0"), linkSysctl(linkForwarding4, "br0", "0"))), nothing,
			"certain forwarding [outside] IPv4 forwarding is off (net.ipv4.ip_forward)"},
		{"forwarding, to this host's own", both(linkSysctl(linkForwarding4, "eth0", "0"), linkSysctl(linkForwarding4, "br0", "0")), local, ""},
		{"forwarding of one link", linkSysctl(linkForwarding4, "br0", "0"), nothing, "perhaps forwarding [outside] br0 forwards nothing"},
		{"forwarding of the client's link", linkSysctl(linkForwarding4, "eth0", "0"), from("192.0.2.50", "eth0"), "certain forwarding [192.0.2.50] eth0 forwards nothing"},
		{"forwarding of another link", linkSysctl(linkForwarding4, "br0", "0"), from("192.0.2.50", "eth0"), ""},
		{"forwarding of the endpoints' link", linkSysctl(linkForwarding4, "eth1", "0"), from("192.0.2.50", "eth0"), "perhaps forwarding [192.0.2.50] eth1 forwards nothing that comes in by it"},
		{"forwarding, of the client's link alone", sysctl(ipForward, "0"), from("192.0.2.50", "eth0"), ""},

		{"policy drop", chains(forward(true)), nothing, "certain firewall [outside] ip filter forward (forward, priority 0) drops what no rule in it accepts: policy drop"},
		{"policy drop, known connections pass", chains(forward(true, count, established, dropSome)), nothing, "certain firewall [outside]"},
		{"policy drop, some pass", chains(forward(true, acceptSome)), nothing, "perhaps firewall [outside]"},
		{"policy drop behind a rule that isn't understood", chains(forward(true, host.Rule{Conditional: true})), nothing, "perhaps firewall [outside]"},
		{"all dropped behind a jump", chains(forward(false, jump("user"), acceptSome), sub("user", dropAll)), nothing, "certain firewall [outside]"},
		{"policy drop, translated pass", chains(forward(true, acceptDNAT, dropSome)), nothing, ""},
		{"some are dropped", chains(forward(false, jump("user")), sub("user", dropSome)), nothing,
			"note firewall [outside] ip filter forward (forward, priority 0) drops packets by conditions that aren't judged here | nft list chain ip filter user"},
		{"invalid ones are dropped", chains(forward(false, host.Rule{Conditional: true, Later: true, Verdict: "drop"})), nothing, ""},
		{"some are dropped, to this host's own", chains(forward(false, dropSome)), local, ""},
		{"prerouting", chains(raw), nothing, "certain firewall [outside] ip raw pre (prerouting, priority -300) drops what no rule in it accepts: policy drop | nft list chain ip raw pre"},
		{"prerouting, of this host's own connections", chains(raw), func(w *Way) { w.Elsewhere = nil }, ""},
		{"policy drop of the other family", chains(host.Chain{Family: "ip6", Table: "f", Name: "f", Type: "filter", Hook: "forward", Drop: true}), nothing, ""},
		{"policy drop, to this host's own", chains(forward(true)), local, ""},
		{"input", chains(inputDropped), nothing, ""},
		{"input, to this host's own", chains(inputDropped), local, "certain firewall [outside,this host] inet filter input"},
		{"output", chains(output), nothing, "certain firewall [this host] inet f out (output"},
		{"output, for a client", chains(output), from("192.0.2.50", "eth0"), ""},

		{"a neighbour that failed", none, hop("10.20.0.11", func(h *host.Hop) { h.Neighbour = host.Failed }),
			"perhaps neighbour [outside,this host] 10.20.0.11 doesn't answer on eth1 (neighbour failed) | ip neigh show to 10.20.0.11 dev eth1 ; ping -c 1 10.20.0.11"},
		{"a gateway that failed", none, hop("10.20.0.12", func(h *host.Hop) { h.Neighbour = host.Incomplete }),
			"perhaps neighbour [outside,this host] 10.20.1.1, the gateway to 10.20.0.12, doesn't answer on eth1 (neighbour incomplete)"},
		{"no carrier", none, hop("10.20.0.12", func(h *host.Hop) { h.Carrier = false }), "perhaps carrier [outside,this host] eth1 has no carrier, and leads to 10.20.0.12"},

		{"a link that is down", func(p *Patient) {
			p.Addrs.V4.Addresses = append(p.Addrs.V4.Addresses, host.Address{Addr: addr("10.20.0.1"), Link: "eth2", Connected: prefix("10.20.0.0/24"), Traits: host.LinkDown})
		}, nothing, "perhaps link-down [outside,this host] eth2, whose network 10.20.0.0/24 holds 10.20.0.11, 10.20.0.12, is down | ip link set dev eth2 up"},

		{"rp_filter", linkSysctl(rpFilter, "br0", "1"), from("192.0.2.50", "eth0"), "note rp-filter [192.0.2.50] the reverse path filter is strict on br0: there what 192.0.2.50 sends is dropped"},
		{"rp_filter of the client's link", linkSysctl(rpFilter, "eth0", "1"), from("192.0.2.50", "eth0"), ""},
		{"rp_filter, for anybody", linkSysctl(rpFilter, "br0", "1"), nothing, ""},

		{"beside its client", none, ways(from("10.20.0.50", "eth1"), bared), "perhaps same-link [10.20.0.50] 10.20.0.11 and the client are neighbours on eth1"},
		{"beside its client, masqueraded", none, from("10.20.0.50", "eth1"), ""},
		{"its own client", none, ways(from("10.20.0.11", "eth1"), bared), ""},
		{"on a bridge", sysctl(bridgeIPv4, "0"), ways(from("10.30.0.9", "br0"), hop("10.20.0.11", by("br0", "bridge")), hop("10.30.0.9", by("br0", "bridge")), bared),
			"perhaps bridges [10.30.0.9] netfilter doesn't see what br0 bridges"},
		{"on a bridge, masqueraded", sysctl(bridgeIPv4, "0"), ways(from("10.30.0.9", "br0"), hop("10.20.0.11", by("br0", "bridge")), hop("10.30.0.9", by("br0", "bridge"))), ""},
		{"its own client on a bridge", noHairpin, ways(from("10.20.0.11", "br0"), hop("10.20.0.11", by("br0", "bridge"))), "perhaps bridges [10.20.0.11] hairpin_mode is off on ports of br0: veth2"},

		{"conntrack full", sysctl(conntrackCount, "262144"), nothing, "perhaps conntrack-size [outside,this host] conntrack holds 262144"},
		{"IPVS has it", virtual("10.96.0.20:80"), nothing, "perhaps other-proxies [outside,this host] IPVS has virtual services that are Services' addresses: 10.96.0.20:80/TCP"},
		{"IPVS has another", virtual("10.96.0.21:80"), nothing, ""},
		{"kube-proxy", chains(host.Chain{Family: "ip", Table: "kube-proxy", Name: "services"}), nothing, "note other-proxies [outside,this host] kube-proxy's table is here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := obstacleLines(c.host, c.way)
			if !strings.Contains(got, c.want) || c.want == "" && got != "" || strings.Count(got, "\n") > 0 {
				t.Errorf("got\n%s\nwant %q", got, c.want)
			}
		})
	}
}

// TestObstaclesOrder: what is certain comes first.
func TestObstaclesOrder(t *testing.T) {
	got := obstacleLines(both(chains(forward(true, acceptSome)), sysctl(conntrackCount, "262144")), hop("10.20.0.12", refuses(host.NoRoute)))
	if lines := strings.Split(got, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "certain") {
		t.Errorf("got\n%s", got)
	}
}

// TestObstaclesIPv6: of IPv6 the kernel forwards by "all", or where it's forced to.
func TestObstaclesIPv6(t *testing.T) {
	w := &Way{Elsewhere: []string{"outside"}, Endpoints: []netip.Addr{addr("2001:db8:20::1")}, Hops: []host.Hop{{To: addr("2001:db8:20::1"), Link: host.Link{Name: "eth0"}, Carrier: true}}}
	p := well()
	p.Sysctls[ipv6Forwarding] = "0"
	if got := Obstacles(p.Facts, Ranges{}, w); len(got) != 1 || !got[0].Certain || !strings.Contains(got[0].What, "IPv6 forwarding is off") {
		t.Errorf("%+v", got)
	}
	p.Sysctls[fmt.Sprintf(linkForced6, "eth0")] = "1"
	if got := Obstacles(p.Facts, Ranges{}, w); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
