package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"pointsman/reconcile/nft"
)

// frontendKey is how the key of every set that is about a frontend begins.
var frontendKey = []nft.Field{nft.Addr, nft.Proto, nft.Service}

func frontendAnd(more ...nft.Field) []nft.Field {
	return append(append([]nft.Field{}, frontendKey...), more...)
}

// schema is the sets and maps of the program. A frontend's elements in all of
// them are one group; the others hold what several Services may share.
var schema = &nft.Schema{
	Marked:   "dispatch",
	OnDemand: []string{"pick-", "sticky-", "record-", "affinity-"},
	Clients:  nft.Set{Key: append([]nft.Field{nft.Addr}, frontendKey...), Dynamic: clientsSize},
	Sets: append([]nft.Set{
		{Name: "cluster-ips", Key: []nft.Field{nft.Addr}},
		{Name: "external-vips", Key: []nft.Field{nft.Addr}},
		{Name: "local-cidrs", Key: []nft.Field{nft.Addr}, Interval: true, First: true},
		{Name: "service-cidrs", Key: []nft.Field{nft.Addr}, Interval: true},
		{Name: "hairpin", Key: append([]nft.Field{nft.Addr}, frontendKey...), First: true},
		{Name: "masquerade-all", Key: frontendKey, Group: 3},
		{Name: "masquerade-own", Key: frontendKey, Group: 3},
		{Name: "services", Key: frontendKey, Verdict: true, Group: 3},
		{Name: "cluster-services", Key: frontendKey, Verdict: true, Group: 3},
		{Name: "local-services", Key: frontendKey, Verdict: true, Group: 3},
		{Name: "sticky-record", Key: frontendAnd(nft.Addr, nft.Service), Verdict: true, Group: 3},
		{Name: "no-endpoints", Key: frontendKey, Verdict: true, Group: 3},
		{Name: "firewalled", Key: frontendKey, Group: 3},
		{Name: "source-ranges", Key: frontendAnd(nft.Addr), Interval: true, Group: 3},
		connections,
	}, slotMaps()...),
}

// clientsSize bounds the clients that a client set remembers, and the memory
// that strangers can make the kernel use. When it's full, affinity is lost,
// never a connection.
const clientsSize = 1 << 20

// connections has a counter for each pair of a frontend and an endpoint. (The
// elements of the slot maps could count, too, but would begin again at nothing
// whenever an endpoint changes its slot, and knftables can't say it.) The size
// bounds what reading it costs, which grows with the square: a second of the
// CPU if it's full, 30 ms for 10,000 pairs.
var connections = nft.Set{Name: "connections", Key: frontendAnd(nft.Addr, nft.Service), Dynamic: 1 << 16}

// The maps from a frontend and a slot number to an endpoint, one a protocol,
// which is the end of the name.
const (
	endpointsMap   = "endpoints-"
	localMap       = "local-endpoints-"
	stickyMap      = "sticky-endpoints-"
	stickyLocalMap = "sticky-local-endpoints-"
)

func slotMaps() []nft.Set {
	var sets []nft.Set
	for _, p := range []struct {
		name string
		port nft.Field
	}{{"tcp", nft.TCPService}, {"udp", nft.UDPService}, {"sctp", nft.SCTPService}} {
		for _, m := range []string{endpointsMap, localMap, stickyMap, stickyLocalMap} {
			sets = append(sets, nft.Set{Name: m + p.name, Key: frontendAnd(nft.Slot), Value: []nft.Field{nft.Addr, p.port}, Group: 3})
		}
	}
	return sets
}

// The program in the ip family's words; translate gives the other family's.
const (
	ofFrontend  = "ip daddr . meta l4proto . th dport"
	ofOriginal  = "ct original ip daddr . meta l4proto . ct original proto-dst"
	withPorts   = "meta l4proto { tcp, udp, sctp } "
	dnatTo      = "dnat ip to " + ofFrontend + " . "
	affinitySet = "affinity-"
)

// fixed is the part of a ruleset that Services don't change.
type fixed struct {
	version string
	sets    []nft.Set
	chains  []nft.Chain
}

// newFixed gives that of a family, with or without the rules that count
// connections.
func newFixed(f nft.Family, counting bool) fixed {
	p := fixed{version: version(counting), sets: schema.Sets}
	if !counting {
		p.sets = slices.DeleteFunc(slices.Clone(p.sets), func(s nft.Set) bool { return s.Name == connections.Name })
	}
	for _, c := range chains(counting) {
		p.chains = append(p.chains, translate(c, f))
	}
	return p
}

// chains are the fixed chains. The regular ones come first.
//
// The hooks and priorities, and the reason for each, are in the README.
func chains(counting bool) []nft.Chain {
	if counting {
		return slices.Concat(regularChains(), countingChains(), baseChains("ct status dnat jump count"))
	}
	return slices.Concat(regularChains(), baseChains())
}

func regularChains() []nft.Chain {
	return []nft.Chain{
		{Name: "dispatch", Rules: []string{
			ofFrontend + " vmap @services",
		}},
		{Name: "external-local", Rules: []string{
			"ip saddr @local-cidrs " + ofFrontend + " vmap @cluster-services",
			"fib saddr type local " + ofFrontend + " vmap @cluster-services",
			ofFrontend + " vmap @local-services",
		}},
		{Name: "record", Rules: []string{
			withPorts + ofOriginal + " . ip daddr . th dport vmap @sticky-record",
		}},
		// What to masquerade is read from conntrack's original tuple: marks
		// belong to others (kube-proxy, Calico, Tailscale, policy routing).
		{Name: "masquerading", Rules: []string{
			"ip saddr . " + ofFrontend + " @hairpin masquerade fully-random",
			"ct original ip daddr @cluster-ips ip saddr != @local-cidrs masquerade fully-random",
			withPorts + ofOriginal + " @masquerade-all masquerade fully-random",
			"fib saddr type local ip saddr != @local-cidrs " + withPorts + ofOriginal + " @masquerade-own masquerade fully-random",
		}},
		// ICMP errors are rate-limited by the kernel; a reset is not.
		{Name: "reject-new", Rules: []string{
			"meta l4proto tcp reject with tcp reset",
			"reject with icmp type port-unreachable",
		}},
		// What still carries a frontend's address was not translated.
		{Name: "untranslated", Rules: []string{
			"ct status dnat return",
			ofFrontend + " vmap @no-endpoints",
		}},
		{Name: "unallocated", Rules: []string{
			"ip daddr @cluster-ips goto reject-new",
			"ip daddr @service-cidrs drop",
		}},
		// An external VIP may be another host's own address, so its other
		// ports are nobody's business, unless the packet would go back where
		// it came from: a routing loop (cilium/cilium#20436). It's none where
		// the VIP is itself the next hop, on the same network: a hub between
		// hosts (WireGuard's, say) must not cut them off from each other. Nor
		// is one that was translated: it goes to an endpoint, on whichever
		// host has that address.
		{Name: "looping", Rules: []string{
			"ct status dnat return",
			"fib daddr . iif oif exists ip daddr @external-vips rt ip nexthop != @external-vips goto reject-new",
		}},
		{Name: "firewall", Rules: []string{
			ofFrontend + " @firewalled " + ofFrontend + " . ip saddr != @source-ranges drop",
		}},
	}
}

// countingChains count the connections that an endpoint is given. Those to
// others' addresses that others translate (Docker, a transparent proxy, which
// translates the whole internet) must not fill the set; every frontend that
// has endpoints is in one of these three.
func countingChains() []nft.Chain {
	return []nft.Chain{
		{Name: "count", Rules: []string{
			"ct original ip daddr @cluster-ips goto counted",
			withPorts + ofOriginal + " @masquerade-all goto counted",
			withPorts + ofOriginal + " @masquerade-own goto counted",
		}},
		{Name: "counted", Rules: []string{
			withPorts + "update @" + connections.Name + " { " + ofOriginal + " . ip daddr . th dport timeout 1d counter }",
		}},
	}
}

// baseChains attach the program. The nat hooks see the first packet of a
// connection only; the filter hooks look at new connections only. More are
// rules for connections that have been translated.
func baseChains(more ...string) []nft.Chain {
	translated := append([]string{"ct status dnat jump record"}, more...)
	return []nft.Chain{
		{Name: "filter-prerouting", Hook: &nft.Hook{Type: "filter", Hook: "prerouting", Priority: -110},
			Rules: []string{"ct state new jump firewall"}},
		{Name: "filter-output-pre-dnat", Hook: &nft.Hook{Type: "filter", Hook: "output", Priority: -110},
			Rules: []string{"ct state new jump firewall"}},
		{Name: "nat-prerouting", Hook: &nft.Hook{Type: "nat", Hook: "prerouting", Priority: -100},
			Rules: []string{"jump dispatch"}},
		{Name: "nat-output", Hook: &nft.Hook{Type: "nat", Hook: "output", Priority: -100},
			Rules: []string{"jump dispatch"}},
		// Nothing drops in input: a service range that is too wide must not
		// lock the operator out.
		{Name: "filter-input", Hook: &nft.Hook{Type: "filter", Hook: "input", Priority: 0},
			Rules: []string{"ct state new jump untranslated"}},
		{Name: "filter-forward", Hook: &nft.Hook{Type: "filter", Hook: "forward", Priority: 0},
			Rules: []string{
				"ct state new jump untranslated",
				"ct state new jump unallocated",
				"ct state new jump looping",
			}},
		{Name: "filter-output", Hook: &nft.Hook{Type: "filter", Hook: "output", Priority: 0},
			Rules: []string{"ct state new jump untranslated", "ct state new jump unallocated"}},
		// A packet to a process of this host never passes postrouting.
		{Name: "nat-input", Hook: &nft.Hook{Type: "nat", Hook: "input", Priority: 100},
			Rules: translated},
		{Name: "nat-postrouting", Hook: &nft.Hook{Type: "nat", Hook: "postrouting", Priority: 100},
			Rules: append(slices.Clone(translated), "ct status dnat jump masquerading")},
	}
}

// The chains and sets that are made on demand. The content of each is told by
// its name.

// pick chooses one of n endpoints in a map of the protocol. The second rule
// catches the packet that meets the map in the middle of a change: slot 0 is
// there as long as any is.
func pick(name, proto, from string, n int) nft.Chain {
	return nft.Chain{Name: name, Rules: []string{
		fmt.Sprintf("meta l4proto %s %snumgen random mod %d map @%s", proto, dnatTo, n, from),
		fmt.Sprintf("meta l4proto %s %snumgen random mod 1 map @%s", proto, dnatTo, from),
	}}
}

// sticky sends a client to the endpoint that it had before: that of the slot
// whose client set remembers it. Lookups that miss fall through.
func sticky(name, proto, from, next string, slots int) nft.Chain {
	rules := make([]string, 0, slots+1)
	for i := range slots {
		rules = append(rules, fmt.Sprintf("ip saddr . %s @%s%d meta l4proto %s %snumgen random mod 1 offset %d map @%s",
			ofFrontend, affinitySet, i, proto, dnatTo, i, from))
	}
	return nft.Chain{Name: name, Rules: append(rules, "goto "+next)}
}

// record remembers a client for a slot. It's apart from the translation, so
// that a full set costs affinity and never a connection.
func record(slot, seconds int) nft.Chain {
	return nft.Chain{Name: recordName(slot, seconds), Rules: []string{
		fmt.Sprintf("%supdate @%s%d { ip saddr . %s timeout %ds }", withPorts, affinitySet, slot, ofOriginal, seconds),
	}}
}

func recordName(slot, seconds int) string { return fmt.Sprintf("record-%d-%ds", slot, seconds) }

// affinity is the set of the clients of one slot number, of all frontends.
func affinity(slot int) nft.Set {
	s := schema.Clients
	s.Name = fmt.Sprint(affinitySet, slot)
	return s
}

// translate gives a chain in the words of a family.
func translate(c nft.Chain, f nft.Family) nft.Chain {
	if f == nft.IPv4 {
		return c
	}
	words := strings.NewReplacer(
		"ip daddr", "ip6 daddr", "ip saddr", "ip6 saddr", "rt ip nexthop", "rt ip6 nexthop", "dnat ip to", "dnat ip6 to", "icmp type", "icmpv6 type")
	rules := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		rules[i] = words.Replace(r)
	}
	c.Rules = rules
	return c
}

// version tells one program from another. It covers the chains and sets that
// are made on demand through an example of each.
func version(counting bool) string {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n", *schema)
	for _, c := range append(chains(counting), pick("pick-tcp-2", "tcp", endpointsMap+"tcp", 2),
		sticky("sticky-tcp-2-3", "tcp", stickyMap+"tcp", "pick-tcp-2", 3), record(1, 60)) {
		fmt.Fprintf(h, "%s %+v %q\n", c.Name, c.Hook, c.Rules)
	}
	return "program " + hex.EncodeToString(h.Sum(nil)[:8])
}
