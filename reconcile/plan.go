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

// Node is this host, as far as it decides about endpoints.
type Node struct {
	Name string
	Zone string
}

// Input is everything that a ruleset is computed from.
type Input struct {
	Services []*state.Service
	Node     Node

	// NodePortAddresses are where NodePorts answer, of both families.
	NodePortAddresses []netip.Addr

	// Addresses are all addresses of this host.
	Addresses []netip.Addr

	ServiceCIDRs []netip.Prefix // --service-cidr
	LocalCIDRs   []netip.Prefix // --local-cidr

	// Uncounted leaves out what counts connections: --connection-metrics=false.
	Uncounted bool
}

// sameHost reports whether two inputs differ in nothing but their Services.
func (in *Input) sameHost(o *Input) bool {
	return in.Node == o.Node && slices.Equal(in.NodePortAddresses, o.NodePortAddresses) &&
		slices.Equal(in.Addresses, o.Addresses) && slices.Equal(in.ServiceCIDRs, o.ServiceCIDRs) &&
		slices.Equal(in.LocalCIDRs, o.LocalCIDRs) && in.Uncounted == o.Uncounted
}

// Planner computes the ruleset of one family. What it worked out for a
// Service is used again as long as the Service, the host and what the kernel
// holds of it are the same values.
type Planner struct {
	family           nft.Family
	counting, silent fixed

	// What was planned last, and what for.
	last     Input
	memo     map[*state.Service]*planned
	table    *nft.Table
	onDemand map[string]nft.Chain
	slots    int   // client sets
	uses     *uses // of table; nil until it's needed
}

// NewPlanner makes a planner.
func NewPlanner(f nft.Family) *Planner {
	return &Planner{family: f, counting: newFixed(f, true), silent: newFixed(f, false)}
}

// planned is what one Service means.
type planned struct {
	frontends []named     // a frontend's elements
	shared    []named     // single elements that other Services may need too
	chains    []nft.Chain // made on demand, some of them several times
	slots     int         // client sets needed
	purges    []nft.Purge
}

// named is a group and its name.
type named struct {
	id string
	*nft.Group
}

// Plan gives the ruleset that the input means. It's a pure function of the
// input and of the slots that held (the elements that the kernel holds now,
// nil if none) says are taken.
func (p *Planner) Plan(in *Input, held func(group string) *nft.Group) *nft.Table {
	if held == nil {
		held = func(string) *nft.Group { return nil }
	}
	if !in.sameHost(&p.last) {
		p.memo = nil
	}
	memo := make(map[*state.Service]*planned, len(in.Services))
	groups := p.ranges(in)
	var purges []nft.Purge
	p.onDemand, p.slots, p.uses = map[string]nft.Chain{}, 0, nil
	for _, s := range in.Services {
		ps := p.memo[s]
		if ps == nil || !ps.heldBy(held) {
			ps = p.service(s, in, held)
		}
		memo[s] = ps
		addMissing(groups, ps.frontends)
		addMissing(groups, ps.shared)
		for _, c := range ps.chains {
			p.onDemand[c.Name] = c
		}
		purges = append(purges, ps.purges...)
		p.slots = max(p.slots, ps.slots)
	}
	t := p.assemble(in, groups)
	t.Purges = purges
	p.last, p.memo, p.table = *in, memo, t
	return t
}

// assemble makes a table of groups, with the sets and chains that they need.
func (p *Planner) assemble(in *Input, groups map[string]*nft.Group) *nft.Table {
	always := &p.counting
	if in.Uncounted {
		always = &p.silent
	}
	t := &nft.Table{
		Family: p.family, Schema: schema, Program: always.version,
		Sets: slices.Clone(always.sets), Chains: slices.Clone(always.chains),
		Groups: groups, Version: new(nft.Version),
	}
	for i := range p.slots {
		t.Sets = append(t.Sets, affinity(i))
	}
	for _, name := range slices.Sorted(maps.Keys(p.onDemand)) {
		t.Chains = append(t.Chains, translate(p.onDemand[name], p.family))
	}
	return t
}

// ranges gives the groups that are there without any Service.
func (p *Planner) ranges(in *Input) map[string]*nft.Group {
	groups := make(map[string]*nft.Group, len(in.Services)*3)
	for set, prefixes := range map[string][]netip.Prefix{"local-cidrs": in.LocalCIDRs, "service-cidrs": in.ServiceCIDRs} {
		for _, prefix := range disjoint(p.mine(prefixes)) {
			s := single(set, prefix.String())
			groups[s.id] = s.Group
		}
	}
	return groups
}

// mine gives the prefixes of the planner's family.
func (p *Planner) mine(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(x netip.Prefix) bool { return !p.isMine(x.Addr()) })
}

func (p *Planner) isMine(a netip.Addr) bool { return a.IsValid() && a.Is6() == (p.family == nft.IPv6) }

// disjoint drops prefixes that lie within others: the kernel refuses
// overlapping intervals (kubernetes/kubernetes#33035 is what follows).
func disjoint(prefixes []netip.Prefix) []netip.Prefix {
	sorted := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		sorted[i] = p.Masked()
	}
	slices.SortFunc(sorted, netip.Prefix.Compare)
	var out []netip.Prefix
	for _, p := range sorted {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// heldBy reports whether the kernel holds a plan as it is, so that making it
// again would give the same.
func (ps *planned) heldBy(held func(string) *nft.Group) bool {
	for _, f := range ps.frontends {
		if held(f.id) != f.Group {
			return false
		}
	}
	return len(ps.purges) == 0
}

// addMissing adds groups by the names that are not taken. Of two Services that
// claim one frontend on this very host (a NodePort here is an externalIP
// there) the first by name keeps it, as everywhere.
func addMissing(groups map[string]*nft.Group, more []named) {
	for _, g := range more {
		if groups[g.id] == nil {
			groups[g.id] = g.Group
		}
	}
}

// single gives the group of an element that several Services may need.
func single(set, key string) named {
	return named{set + " " + key, nft.NewGroup([]nft.Element{{Set: set, Key: key}})}
}

// service plans one Service.
func (p *Planner) service(s *state.Service, in *Input, held func(string) *nft.Group) *planned {
	ps := &planned{}
	for _, a := range s.ClusterIPs {
		if p.isMine(a) {
			ps.share("cluster-ips", a.String())
		}
	}
	for i := range s.Ports {
		port := &s.Ports[i]
		eps := choose(port.Endpoints, p.family == nft.IPv6, in.Node)
		p.hairpin(ps, port, eps, in)
		for _, f := range p.frontends(port, in) {
			if f.Kind == state.ExternalIP || f.Kind == state.LoadBalancerIP {
				ps.share("external-vips", f.Address.String())
			}
			b := newBuilder(f, port.Protocol)
			b.frontend(ps, s, eps, held(b.key))
			b.firewall(s, p, in)
			ps.setFrontend(b.key, nft.NewGroup(b.elements))
		}
	}
	return ps
}

func (ps *planned) share(set, key string) { ps.shared = append(ps.shared, single(set, key)) }

// setFrontend notes what a frontend does. Where one address and port is a
// Service's frontend of several kinds, the last kind decides: a load-balancer
// address is guarded, though it's an externalIP as well.
func (ps *planned) setFrontend(key string, g *nft.Group) {
	for i := range ps.frontends {
		if ps.frontends[i].id == key {
			ps.frontends[i].Group = g
			return
		}
	}
	ps.frontends = append(ps.frontends, named{key, g})
}

// frontends gives a port's frontends of the family, NodePorts at each of the
// node's NodePort addresses.
func (p *Planner) frontends(port *state.Port, in *Input) []state.Frontend {
	var out []state.Frontend
	for _, f := range port.Frontends {
		switch {
		case !p.isMine(f.Address):
		case f.Kind != state.NodePort:
			out = append(out, f)
		default:
			for _, a := range in.NodePortAddresses {
				if p.isMine(a) {
					out = append(out, state.Frontend{Kind: state.NodePort, Address: a, Port: f.Port})
				}
			}
		}
	}
	return out
}

// hairpin notes the endpoints that may be the client of their own Service and
// whose replies would not come back through this host.
func (p *Planner) hairpin(ps *planned, port *state.Port, eps choice, in *Input) {
	here := map[netip.AddrPort]bool{}
	for _, e := range port.Endpoints {
		here[e.Address] = e.NodeName != "" && e.NodeName == in.Node.Name
	}
	for _, e := range slices.Concat(eps.cluster, eps.local) {
		inside := func(l netip.Prefix) bool { return l.Contains(e.Addr()) }
		if here[e] || slices.ContainsFunc(in.LocalCIDRs, inside) {
			a := e.Addr().String()
			ps.share("hairpin", keyOf(a, a, protoName(port.Protocol), strconv.Itoa(int(e.Port()))))
		}
	}
}

func protoName(p state.Protocol) string { return strings.ToLower(string(p)) }

func keyOf(columns ...string) string { return strings.Join(columns, " . ") }
