package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pointsman/reconcile/host"
)

// routes looks for addresses that the kernel has no way to.
func (t *traveller) routes() []Obstacle {
	sent, forwarded := map[host.Refusal][]netip.Addr{}, map[host.Refusal][]netip.Addr{}
	for _, a := range t.Endpoints {
		h := t.hops[a]
		if h.Refusal != "" {
			sent[h.Refusal] = append(sent[h.Refusal], a)
		}
		if !t.From.IsValid() {
			h.Forwarded = h.Refusal
		}
		if h.Forwarded != "" {
			forwarded[h.Forwarded] = append(forwarded[h.Forwarded], a)
		}
	}
	var out []Obstacle
	if maps.EqualFunc(sent, forwarded, slices.Equal) {
		out = t.refused(t.both, sent)
	} else {
		out = append(t.refused(t.Elsewhere, forwarded), t.refused(t.Own, sent)...)
	}
	return slices.Concat(t.ownRoute(), t.wayBack(), out)
}

// refused is about endpoints that the kernel has no way to.
func (t *traveller) refused(kinds []string, by map[host.Refusal][]netip.Addr) (out []Obstacle) {
	for _, r := range slices.Sorted(maps.Keys(by)) {
		f := refusal(r, by[r])
		f.Means = "Connections that are given to it fail: " + fate(r)
		if len(by[r]) > 1 {
			f.Means = "Connections that are given to them fail: " + fate(r)
		}
		out = append(out, t.noWay(kinds, "endpoint-route", by[r][0], f)...)
	}
	return out
}

// noWay is about a way that the kernel refuses, to that address among others.
func (t *traveller) noWay(kinds []string, check string, to netip.Addr, f Finding) []Obstacle {
	if !t.hops[to].Selected {
		return certain(kinds, check, f)
	}
	f.Level, f.Means = Problem, f.Means+" Rules of policy routing may have another way for packets by their marks, ports or users, which isn't judged here."
	return perhaps(kinds, check, f)
}

// refusal says what is wrong with the way to some addresses, and where to look.
func refusal(r host.Refusal, to []netip.Addr) Finding {
	ip := "ip"
	if to[0].Is6() {
		ip = "ip -6"
	}
	show := []string{"# which route is it?", fmt.Sprintf("%s route show match %s", ip, to[0]), "# and rules that look elsewhere:", ip + " rule"}
	switch r {
	case host.NoRoute:
		return Finding{What: "this host has no route to " + some(to), Fix: []string{fmt.Sprintf("%s route add %s via GATEWAY dev INTERFACE", ip, to[0])}}
	case host.Filtered:
		return Finding{What: fmt.Sprintf("the kernel forwards nothing from this client to %s: %s", some(to), r), Fix: show}
	}
	return Finding{What: fmt.Sprintf("this host's route to %s is %s", some(to), r), Fix: show}
}

// fate says what becomes of a packet.
func fate(r host.Refusal) string {
	switch r {
	case host.NoRoute, host.Unreachable:
		return `"network is unreachable", or "no route to host".`
	case host.Prohibited:
		return "refused as prohibited."
	case host.Blackhole, host.Filtered:
		return "dropped without a word, so that they hang."
	}
	return "the kernel says " + string(r) + "."
}

// ownRoute is the route to the frontend, which only this host's own processes
// need: what comes in is translated before it's routed.
func (t *traveller) ownRoute() []Obstacle {
	h := t.hops[t.To.Addr()]
	if h.Refusal == "" {
		return nil
	}
	at := t.To.Addr()
	for _, c := range t.p.ServiceCIDRs {
		if c.Contains(at) {
			at = destinations([]netip.Prefix{c}, nil)[0]
		}
	}
	t.p.Unreachable = map[netip.Addr]string{at: "network is unreachable"}
	found := t.p.routes()
	for i := range found {
		if h.Refusal != host.NoRoute {
			f := refusal(h.Refusal, []netip.Addr{t.To.Addr()})
			f.Means = found[i].Means
			found[i] = f
		}
	}
	return certain(t.Own, "frontend-route", found...)
}

// wayBack is the client's.
func (t *traveller) wayBack() []Obstacle {
	h := t.hops[t.From]
	if !t.From.IsValid() || h.Refusal == "" {
		return nil
	}
	f := refusal(h.Refusal, []netip.Addr{t.From})
	f.Means = "Its connections fail: no answer finds the way back to it, whichever endpoint gives it."
	return t.noWay(t.Elsewhere, "client-route", t.From, f)
}

// nextHop is what packets to some addresses are given to.
type nextHop struct {
	at    netip.Addr
	link  string
	state host.Neighbour
}

// next looks for links without carrier, and neighbours that don't answer: either
// may be better by the time that the next packet comes.
func (t *traveller) next() []Obstacle {
	silent, down := map[nextHop][]netip.Addr{}, map[string][]netip.Addr{}
	for _, a := range t.remote {
		h := t.hops[a]
		n := nextHop{a, h.Link.Name, h.Neighbour}
		if h.Gateway.IsValid() {
			n.at = h.Gateway
		}
		switch {
		case !h.Carrier:
			down[h.Link.Name] = append(down[h.Link.Name], a)
		case h.Neighbour != "":
			silent[n] = append(silent[n], a)
		}
	}
	var out []Obstacle
	for _, link := range slices.Sorted(maps.Keys(down)) {
		out = append(out, perhaps(t.both, "carrier", Finding{Level: Problem, What: fmt.Sprintf("%s has no carrier, and leads to %s", link, some(down[link])),
			Means: "Its cable, or what is at the other end, is down: connections that are given to what is behind it hang.", Fix: []string{"ip -d link show dev " + link}})...)
	}
	for _, a := range t.astray() {
		out = append(out, perhaps(t.both, "link-down", Finding{Level: Problem,
			What:  fmt.Sprintf("%s, whose network %s holds %s, is down", a.Link, a.Connected, some(t.within(a.Connected))),
			Means: fmt.Sprintf("What is for there goes out by %s instead, which seldom leads there.", t.hops[t.within(a.Connected)[0]].Link.Name),
			Fix:   []string{fmt.Sprintf("ip link set dev %s up", a.Link)}})...)
	}
	for _, n := range slices.SortedFunc(maps.Keys(silent), func(a, b nextHop) int { return a.at.Compare(b.at) }) {
		out = append(out, perhaps(t.both, "neighbour", n.silent(silent[n]))...)
	}
	return out
}

// astray gives the addresses of links that are down and whose networks endpoints
// are in that are sent for elsewhere.
func (t *traveller) astray() []host.Address {
	return slices.DeleteFunc(slices.Concat(t.p.Addrs.V4.Addresses, t.p.Addrs.V6.Addresses), func(a host.Address) bool {
		return a.Traits&host.LinkDown == 0 || len(t.within(a.Connected)) == 0
	})
}

func (t *traveller) within(network netip.Prefix) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(t.remote), func(a netip.Addr) bool { return !network.Contains(a) })
}

// silent is about a neighbour that doesn't answer.
func (n nextHop) silent(to []netip.Addr) Finding {
	f := Finding{Level: Problem, What: fmt.Sprintf("%s doesn't answer on %s (neighbour %s)", n.at, n.link, n.state),
		Means: "It's down, not on that network, or somebody filters ARP: connections that are given to it hang, or end with \"no route to host\".",
		Fix:   []string{fmt.Sprintf("ip neigh show to %s dev %s", n.at, n.link), "ping -c 1 " + n.at.String()}}
	if n.at.Is6() {
		f.Means = strings.Replace(f.Means, "ARP", "neighbour discovery", 1)
	}
	if !slices.Equal(to, []netip.Addr{n.at}) {
		f.What = fmt.Sprintf("%s, the gateway to %s, doesn't answer on %s (neighbour %s)", n.at, some(to), n.link, n.state)
	}
	return f
}

// sameLink looks for a client beside endpoints that see it: they answer it
// directly, with an address that it doesn't know.
func (t *traveller) sameLink() []Obstacle {
	back := t.hops[t.From]
	if !t.From.IsValid() || !t.Bared || back.Gateway.IsValid() || back.Link.Kind == "bridge" {
		return nil
	}
	beside := slices.DeleteFunc(slices.Clone(t.remote), func(a netip.Addr) bool {
		return t.hops[a].Link.Name != back.Link.Name || t.hops[a].Gateway.IsValid() || a == t.From
	})
	if len(beside) == 0 {
		return nil
	}
	return perhaps(t.Elsewhere, "same-link", Finding{Level: Problem, What: fmt.Sprintf("%s and the client are neighbours on %s, and it isn't masqueraded", some(beside), back.Link.Name),
		Means: "The endpoint answers the client directly, and not through this host, which would translate the answer back: the connection hangs, " +
			"unless the endpoint's own route to the client leads here.",
		Fix: []string{"# have such clients masqueraded: externalTrafficPolicy: Cluster, and no --local-cidr that holds them"}})
}

// bridged looks at a bridge that both the client and endpoints are on.
func (t *traveller) bridged() []Obstacle {
	bridge := t.hops[t.From].Link
	on := slices.DeleteFunc(slices.Clone(t.remote), func(a netip.Addr) bool { return t.hops[a].Link.Name != bridge.Name })
	if bridge.Kind != "bridge" || len(on) == 0 {
		return nil
	}
	blind, off := t.p.blind(), unhairpinned(t.p.ports(bridge.Name))
	var out []Obstacle
	if len(blind) > 0 && t.Bared {
		out = perhaps(t.Elsewhere, "bridges", t.p.blindBridge(bridge.Name, blind))
	}
	if len(blind) < 2 && len(off) > 0 && slices.Contains(on, t.From) {
		f := t.p.hairpinOff(bridge.Name, off)
		f.Level = Warning // it's on the bridge for sure
		out = append(out, perhaps(t.Elsewhere, "bridges", f)...)
	}
	return out
}

// reversePath tells of links by which a client's packets had better not come in.
func (t *traveller) reversePath() []Obstacle {
	back := t.hops[t.From]
	strict, fix := t.p.strictLinks(back.Link.Name)
	if !t.From.IsValid() || t.v6 || back.Link.Name == "" || len(strict) == 0 {
		return nil
	}
	return perhaps(t.Elsewhere, "rp-filter", Finding{Level: Note,
		What:  fmt.Sprintf("the reverse path filter is strict on %s: there what %s sends is dropped", some(strict), t.From),
		Means: "Its packets must come in by " + back.Link.Name + ", where the route back to it leads.", Fix: fix})
}
