package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// Way is what new connections that the rules serve take beyond the rules.
type Way struct {
	Protocol state.Protocol
	To       netip.AddrPort // the frontend; not valid where an endpoint is asked about

	// Elsewhere and Own name the kinds of clients that are served: those whose
	// connections come in from outside, and this host's own processes.
	Elsewhere, Own []string

	From  netip.Addr // the client elsewhere that is asked about; not valid: any
	Bared bool       // the endpoints see clients elsewhere: they aren't masqueraded

	Endpoints []netip.Addr // those that are used, as far as they're looked at
	Hops      []host.Hop   // of To, the Endpoints and From
}

// Obstacle is a Finding about a way.
type Obstacle struct {
	Finding

	// Certain: connections fail by it, though perhaps only those that are given to
	// an endpoint that it names. Else it depends on what isn't known.
	Certain bool `json:"certain"`

	For []string `json:"for"` // the kinds of clients that it's in the way of
}

// Asked are the sysctls that Obstacles judges.
func Asked() (sysctls, perLink []string) {
	return []string{ipForward, ipv6Forwarding, bridgeIPv4, bridgeIPv6, conntrackCount, conntrackMax}, []string{rpFilter, linkForwarding4, linkForced6}
}

// Obstacles gives what of a host is in a way, what is certain first. It's a pure
// function: the host is judged as Examine does it, for one Service that has
// nothing but this frontend and these endpoints.
func Obstacles(facts host.Facts, ranges Ranges, w *Way) []Obstacle {
	if len(w.Endpoints) == 0 {
		return nil
	}
	t := newTraveller(facts, ranges, w)
	out := slices.Concat(t.routes(), t.forwarding(), t.firewall(), t.next(), t.sameLink(), t.bridged(), t.reversePath(), t.rest())
	slices.SortStableFunc(out, func(a, b Obstacle) int {
		return cmp.Compare(b.Level.weight(), a.Level.weight())
	})
	return out
}

// Ranges are what the agent was told of addresses.
type Ranges struct{ Service, Local []netip.Prefix }

// traveller is a way that is being judged.
type traveller struct {
	*Way
	p             *Patient
	v6            bool
	hops          map[netip.Addr]host.Hop
	local, remote []netip.Addr // the endpoints that there's a way to
	both          []string     // all kinds of clients
}

func newTraveller(facts host.Facts, ranges Ranges, w *Way) *traveller {
	t := &traveller{Way: w, v6: w.Endpoints[0].Is6(), hops: map[netip.Addr]host.Hop{}, both: slices.Concat(w.Elsewhere, w.Own)}
	for _, h := range w.Hops {
		t.hops[h.To] = h
	}
	port := state.Port{Protocol: w.Protocol}
	if w.To.IsValid() {
		port.Frontends = []state.Frontend{{Kind: state.ExternalIP, Address: w.To.Addr(), Port: w.To.Port()}}
	}
	for _, a := range w.Endpoints {
		port.Endpoints = append(port.Endpoints, state.Endpoint{Address: netip.AddrPortFrom(a, 0)})
		switch h := t.hops[a]; {
		case h.Local:
			t.local = append(t.local, a)
		case h.Refusal == "":
			t.remote = append(t.remote, a)
		}
	}
	s := &state.Service{ExternalTrafficPolicy: state.Cluster, Ports: []state.Port{port}}
	if w.Bared {
		s.ExternalTrafficPolicy = state.Local
	}
	t.p = &Patient{Facts: facts, ServiceCIDRs: ranges.Service, LocalCIDRs: ranges.Local, Manifests: true, Services: []*state.Service{s}}
	return t
}

// certain makes obstacles of findings by which connections fail.
func certain(kinds []string, check string, findings ...Finding) (out []Obstacle) {
	for _, f := range findings {
		f.Level, f.Check = Problem, check
		if len(kinds) > 0 {
			out = append(out, Obstacle{f, true, kinds})
		}
	}
	return out
}

// perhaps makes obstacles of findings by which connections may fail.
func perhaps(kinds []string, check string, findings ...Finding) (out []Obstacle) {
	for _, f := range findings {
		f.Level, f.Check = lighter(f.Level, Warning), check
		if len(kinds) > 0 {
			out = append(out, Obstacle{f, false, kinds})
		}
	}
	return out
}

// forwarding is asked of the link by which the client comes in, or of all where
// any does.
func (t *traveller) forwarding() []Obstacle {
	links := t.p.links(t.v6)
	if back := t.hops[t.From]; t.From.IsValid() {
		links = []string{back.Link.Name}
	}
	deaf := slices.DeleteFunc(slices.Clone(links), func(l string) bool { return !t.p.deaf(l, t.v6) })
	switch {
	case len(t.remote) == 0:
		return nil
	case len(deaf) == 0:
		return t.unanswered()
	}
	var found []Finding
	for _, l := range deaf {
		found = append(found, t.p.deafLink(l))
	}
	if t.v6 || t.p.Sysctls[ipForward] == "0" {
		found = t.p.forwarding()
	}
	if len(deaf) < len(links) {
		return perhaps(t.Elsewhere, "forwarding", found...)
	}
	return certain(t.Elsewhere, "forwarding", found...)
}

// unanswered looks for links by which endpoints' answers to a client come in, as
// far as they take the way back, and go no further. Of IPv6 the kernel asks for "all"
// alone, see deafLinks.
func (t *traveller) unanswered() (out []Obstacle) {
	behind := map[string][]netip.Addr{}
	for _, a := range t.remote {
		if l := t.hops[a].Link.Name; t.From.IsValid() && !t.v6 && t.p.deaf(l, false) {
			behind[l] = append(behind[l], a)
		}
	}
	for _, l := range slices.Sorted(maps.Keys(behind)) {
		f := t.p.deafLink(l)
		f.Level, f.Means = Problem, fmt.Sprintf("What %s answers comes in by it and isn't passed on: the client's connections hang.", some(behind[l]))
		out = append(out, perhaps(t.Elsewhere, "forwarding", f)...)
	}
	return out
}

// firewall looks at the chains that packets to these endpoints pass.
func (t *traveller) firewall() (out []Obstacle) {
	foreign := "ip6"
	if t.v6 {
		foreign = "ip"
	}
	for _, c := range t.p.Chains {
		kinds := t.passing(c.Hook)
		why, sure := t.p.dropped(c)
		switch {
		case !isGuard(c) || c.Family == foreign:
		case why == "":
			out = append(out, perhaps(kinds, "firewall", t.p.dropsSome(c)...)...)
		case sure:
			out = append(out, certain(kinds, "firewall", t.p.drops(c, why)...)...)
		default:
			out = append(out, perhaps(kinds, "firewall", t.p.drops(c, why)...)...)
		}
	}
	return out
}

// passing gives the clients whose first packets pass a hook.
func (t *traveller) passing(hook string) []string {
	switch {
	case hook == "prerouting", hook == "forward" && len(t.remote) > 0:
		return t.Elsewhere
	case hook == "input" && len(t.local) > 0:
		return t.both
	case hook == "output":
		return t.Own
	}
	return nil
}

// rest is what hurts whatever the way is. Of other proxies it isn't known which
// addresses their rules have, but for IPVS's.
func (t *traveller) rest() []Obstacle {
	var out []Obstacle
	for _, f := range t.p.conntrackSize() {
		if f.Level != OK {
			out = append(out, perhaps(t.both, "conntrack-size", f)...)
		}
	}
	for _, f := range t.p.ipvs() {
		if f.Level == Problem {
			out = append(out, perhaps(t.both, "other-proxies", f)...)
		}
	}
	for _, f := range slices.Concat(t.p.kubeProxyTables(), t.p.kubeProxyChains()) {
		f.Level = Note
		out = append(out, perhaps(t.both, "other-proxies", f)...)
	}
	return out
}
