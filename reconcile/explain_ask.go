package reconcile

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// Ask says what has to be known of the kernel to answer a question, and gives
// the program that should be there.
func Ask(q Question, in *Input) (*nft.Table, nft.Lookup) {
	x := newExplaining(q, &Evidence{Input: in})
	all := x.endpoints()
	l := nft.Lookup{Frontends: []string{x.key()}, Slots: slotNumbers(map[string]int{x.key(): len(all)}), Client: x.q.From, Keys: []nft.Element{
		{Set: "cluster-ips", Key: x.q.To.Addr().String()}, {Set: "external-vips", Key: x.q.To.Addr().String()},
	}}
	for _, e := range all {
		l.Keys = append(l.Keys, nft.Element{Set: "hairpin", Key: hairpinKey(e.Address, x.q.Protocol)},
			nft.Element{Set: "sticky-record", Key: keyOf(x.key(), texts([]netip.AddrPort{e.Address})[0])})
	}
	return NewPlanner(x.planner.family).assemble(in, nil), l
}

// spareSlots are looked at beyond the last that is in use.
const spareSlots = 8

// slotNumbers says how many slot numbers a frontend may have: as many as it has
// endpoints, or as the chain that it leads to knows, whose name ends in it.
func slotNumbers(endpoints map[string]int) func(string, *nft.Group) int {
	return func(frontend string, g *nft.Group) int {
		n := 0
		for _, e := range *g {
			last, err := strconv.Atoi(e.Value[strings.LastIndexByte(e.Value, '-')+1:])
			if err == nil {
				n = max(n, last)
			}
		}
		return max(endpoints[frontend], min(n, maxLasting)) + spareSlots
	}
}

// AskEndpoint says what has to be known of the kernel to explain an endpoint:
// the slots of all frontends that it backs. (Of others it can be a backend only
// if somebody else has put it there.)
func AskEndpoint(e netip.AddrPort, in *Input) (*nft.Table, nft.Lookup) {
	x := newExplaining(Question{To: e}, &Evidence{Input: in})
	endpoints := map[string]int{}
	x.backed(e, func(_ *state.Service, p *state.Port, _ *state.Endpoint) {
		for _, f := range x.planner.frontends(p, in) {
			key := newBuilder(f, p.Protocol).key
			endpoints[key] = max(endpoints[key], len(p.Endpoints))
		}
	})
	return NewPlanner(x.planner.family).assemble(in, nil),
		nft.Lookup{Frontends: slices.Sorted(maps.Keys(endpoints)), Slots: slotNumbers(endpoints)}
}
