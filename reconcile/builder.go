package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// builder collects the elements of one frontend.
type builder struct {
	state.Frontend
	proto    string // as nft writes it
	key      string
	elements []nft.Element
}

func newBuilder(f state.Frontend, protocol state.Protocol) *builder {
	proto := protoName(protocol)
	return &builder{Frontend: f, proto: proto, key: keyOf(f.Address.String(), proto, strconv.Itoa(int(f.Port)))}
}

func (b *builder) add(set, value string) { b.addKey(set, b.key, value) }

func (b *builder) addKey(set, key, value string) {
	b.elements = append(b.elements, nft.Element{Set: set, Key: key, Value: value})
}

// frontend says what the frontend does: see the table of frontends in
// semantics.
func (b *builder) frontend(ps *planned, s *state.Service, eps choice, held *nft.Group) {
	policy := s.TrafficPolicy(b.Kind)
	switch {
	case len(eps.cluster) == 0 && len(eps.local) == 0:
		b.add("no-endpoints", "goto reject-new")
		return
	case policy == state.Local && b.Kind.External():
		b.external(ps, s, eps, held)
	case policy == state.Local:
		b.backends(ps, s, eps.local, held)
	default:
		b.backends(ps, s, eps.cluster, held)
		if b.Kind.External() {
			b.add("masquerade-all", "")
		}
	}
}

// backends sends the frontend's traffic to one set of endpoints, or drops it
// when there are none of them but others elsewhere.
func (b *builder) backends(ps *planned, s *state.Service, eps []netip.AddrPort, held *nft.Group) {
	if len(eps) == 0 {
		b.add("no-endpoints", "drop")
		return
	}
	lists := b.lists(ps, s, held, eps, nil)
	b.add("services", lists.cluster)
}

// external is externalTrafficPolicy Local: sources inside get all endpoints,
// the others this node's.
func (b *builder) external(ps *planned, s *state.Service, eps choice, held *nft.Group) {
	lists := b.lists(ps, s, held, eps.cluster, eps.local)
	b.add("services", "goto external-local")
	b.add("masquerade-own", "")
	b.add("no-endpoints", "drop")
	if lists.cluster != "" {
		b.add("cluster-services", lists.cluster)
	}
	if lists.local != "" {
		b.add("local-services", lists.local)
	}
}

// verdicts send a packet to one of a frontend's endpoints, or of its local
// ones; empty where there are none.
type verdicts struct{ cluster, local string }

// lists writes the frontend's endpoints into their maps and gives the
// verdicts that choose among them.
func (b *builder) lists(ps *planned, s *state.Service, held *nft.Group, cluster, local []netip.AddrPort) verdicts {
	v := verdicts{
		cluster: b.list(ps, endpointsMap, "", held, texts(cluster)),
		local:   b.list(ps, localMap, "local-", held, texts(local)),
	}
	if s.Affinity > 0 {
		return b.sticky(ps, int(s.Affinity.Seconds()), held, texts(cluster), texts(local))
	}
	return v
}

// list writes endpoints into the slots of a map.
func (b *builder) list(ps *planned, set, which string, held *nft.Group, want []string) string {
	if len(want) == 0 {
		return ""
	}
	set += b.proto
	for slot, e := range place(held.Slots(set), want) {
		b.addKey(set, keyOf(b.key, strconv.Itoa(slot)), e)
	}
	c := pick(b.pickName(which, len(want)), b.proto, set, len(want))
	ps.chains = append(ps.chains, c)
	return "goto " + c.Name
}

func (b *builder) pickName(which string, n int) string {
	return fmt.Sprintf("pick-%s-%s%d", b.proto, which, n)
}

// maxLasting bounds the slot numbers that are believed when they're read back:
// each costs a set, and a rule in every sticky chain.
const maxLasting = 4096

// sticky writes endpoints into maps by their lasting slot numbers, which
// clients are remembered by.
func (b *builder) sticky(ps *planned, seconds int, held *nft.Group, cluster, local []string) verdicts {
	taken := map[int]string{}
	maps.Copy(taken, held.Slots(stickyMap+b.proto))
	maps.Copy(taken, held.Slots(stickyLocalMap+b.proto))
	maps.DeleteFunc(taken, func(slot int, _ string) bool { return slot >= maxLasting })
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(cluster, local))))
	number, fresh := settle(taken, all)
	for _, slot := range fresh {
		ps.purges = append(ps.purges, nft.Purge{Set: affinity(slot).Name, Suffix: b.key})
	}
	for _, e := range all {
		slot := number[e]
		ps.slots = max(ps.slots, slot+1)
		r := record(slot, seconds)
		ps.chains = append(ps.chains, r)
		b.addKey("sticky-record", keyOf(b.key, e), "jump "+r.Name)
	}
	return verdicts{
		cluster: b.stickyList(ps, stickyMap, "", cluster, number),
		local:   b.stickyList(ps, stickyLocalMap, "local-", local, number),
	}
}

func (b *builder) stickyList(ps *planned, set, which string, want []string, number map[string]int) string {
	if len(want) == 0 {
		return ""
	}
	slots := 0
	for _, e := range want {
		b.addKey(set+b.proto, keyOf(b.key, strconv.Itoa(number[e])), e)
		slots = max(slots, number[e]+1)
	}
	name := fmt.Sprintf("sticky-%s-%s%d-%d", b.proto, which, len(want), slots)
	ps.chains = append(ps.chains, sticky(name, b.proto, set+b.proto, b.pickName(which, len(want)), slots))
	return "goto " + name
}

// texts gives endpoints as nft writes them in a map, sorted.
func texts(eps []netip.AddrPort) []string {
	out := make([]string, len(eps))
	for i, e := range eps {
		out[i] = keyOf(e.Addr().String(), strconv.Itoa(int(e.Port())))
	}
	slices.Sort(out)
	return out
}

// firewall lets only the declared ranges reach a load-balancer address. A
// family without ranges is open. If a range holds an address of this host,
// the VIP itself is an allowed source: a host that the VIP is bound on sends
// from it (kubernetes/kubernetes#119656).
func (b *builder) firewall(s *state.Service, p *Planner, in *Input) {
	ranges := disjoint(p.mine(s.SourceRanges))
	if b.Kind != state.LoadBalancerIP || len(ranges) == 0 || ranges[0].Bits() == 0 {
		return
	}
	within := func(a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	}
	if slices.ContainsFunc(in.Addresses, within) {
		ranges = disjoint(append(ranges, netip.PrefixFrom(b.Address, b.Address.BitLen())))
	}
	b.add("firewalled", "")
	for _, r := range ranges {
		b.addKey("source-ranges", keyOf(b.key, r.String()), "")
	}
}
