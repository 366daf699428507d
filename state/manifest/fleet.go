package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fleet is what the Node manifests say, with an index of it.
type fleet struct {
	digests   []*digest
	nodes     []Node // sorted by name
	addresses map[netip.Addr]string
	names     map[string]bool
	choices   map[string][]string // names that a selector selects, by its text
	findings  []Problem
}

// fleetOf gives the Nodes of this Load: the same as last time if they are.
func (p *sweep) fleetOf() *fleet {
	slices.SortFunc(p.nodes, (*digest).compare)
	if p.Loader.fleet != nil && slices.Equal(p.Loader.fleet.digests, p.nodes) {
		return p.Loader.fleet
	}
	f := &fleet{digests: p.nodes, addresses: map[netip.Addr]string{}, names: map[string]bool{}, choices: map[string][]string{}}
	for _, e := range p.nodes {
		n := nodeOf(e.object)
		f.nodes = append(f.nodes, n)
		f.names[n.Name] = true
		for _, a := range n.Addresses {
			f.place(n.Name, a, e.object)
		}
	}
	return f
}

// place notes where a node is. An address that two nodes have is the first's,
// by name: one of the two manifests is a copy that was not finished.
func (f *fleet) place(node string, a netip.Addr, o *Object) {
	if other := f.addresses[a]; other != "" {
		f.findings = append(f.findings, o.problem(ruleNodeAddressShared, fieldOfNode(o.Node, a), "Duplicate value: %q: node %s has it too", a, other))
		return
	}
	f.addresses[a] = node
}

// fieldOfNode tells where an InternalIP stands.
func fieldOfNode(n *corev1.Node, a netip.Addr) string {
	i := slices.IndexFunc(n.Status.Addresses, func(na corev1.NodeAddress) bool {
		parsed, err := netip.ParseAddr(na.Address)
		return na.Type == corev1.NodeInternalIP && err == nil && parsed == a
	})
	return fmt.Sprintf("status.addresses[%d].address", i)
}

func nodeOf(o *Object) Node {
	n := Node{Name: o.Key.Name, Labels: o.Node.Labels, Zone: o.Node.Labels[corev1.LabelTopologyZone], Source: o.Source}
	for _, a := range o.Node.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			n.Addresses = append(n.Addresses, addr.Unmap())
		}
	}
	return n
}

// strangers looks for what doesn't fit the Node manifests: clusterIPs that are
// a host's address, and nodeNames of no Node, if there are any Nodes.
func (f *fleet) strangers(j *joined) []Problem {
	if len(f.nodes) == 0 {
		return nil
	}
	var out []Problem
	for _, c := range j.demand.claims {
		if node := f.addresses[c.frontend.Address]; c.kind == claimClusterIP && node != "" {
			out = append(out, j.demand.object.problem(ruleClusterIPOfNode, c.field, "%s is an address of node %s too", c.frontend.Address, node))
		}
	}
	for _, e := range j.slices {
		if names := f.unknownNames(e); len(names) > 0 {
			out = append(out, e.object.problem(ruleNodeNameUnknown, "endpoints", "nodeName %s: no Node manifest has that name", strings.Join(names, ", ")))
		}
	}
	return out
}

func (f *fleet) unknownNames(e *digest) []string {
	var names []string
	for i := range e.backings {
		for k := range e.backings[i].endpoints {
			if n := e.backings[i].endpoints[k].NodeName; n != "" && !f.names[n] && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return names
}
