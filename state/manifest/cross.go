package manifest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// cross looks for endpoints that are somebody's virtual address. All it finds
// are warnings: a packet to such an endpoint may be meant for a next host that
// knows what to do with it, and no Service may take another's endpoints out by
// claiming their addresses.
func (s *settlement) cross(j *joined) []Problem {
	var out []Problem
	for _, e := range j.slices {
		out = append(out, s.crossEndpoints(j, e)...)
	}
	return out
}

// bear counts the endpoints of a Service among all there are, or with -1 takes
// them off the count.
func (l *Loader) bear(j *joined, n int) {
	if j == nil {
		return
	}
	for _, e := range j.slices {
		for i := range e.backings {
			for k := range e.backings[i].endpoints {
				a := e.backings[i].endpoints[k].Address.Addr()
				if l.bearers[a] += n; l.bearers[a] == 0 {
					delete(l.bearers, a)
				}
			}
		}
	}
}

// borne reports whether an address that one of the demands names is that of an
// endpoint, so that cross may find something else than it did.
func (l *Loader) borne(touched []*demand) bool {
	return slices.ContainsFunc(touched, func(d *demand) bool {
		return slices.ContainsFunc(d.claims, func(c claim) bool { return l.bearers[c.frontend.Address] > 0 })
	})
}

// crossEndpoints reports, for each rule, the first endpoint of a slice that
// can't be what was meant and the number of others.
func (s *settlement) crossEndpoints(j *joined, e *digest) []Problem {
	type hit struct {
		address netip.Addr
		text    string
		n       int
	}
	var hits map[Rule]*hit
	for i := range e.backings {
		b := &e.backings[i]
		for k := range b.endpoints {
			a := b.endpoints[k].Address.Addr()
			rule, text := s.suspect(j, b, a)
			if text == "" {
				continue
			}
			if hits == nil {
				hits = map[Rule]*hit{}
			}
			if hits[rule] == nil {
				hits[rule] = &hit{address: a, text: text}
			}
			hits[rule].n++
		}
	}
	if hits == nil {
		return nil
	}
	var out []Problem
	for _, rule := range slices.Sorted(maps.Keys(hits)) {
		h := hits[rule]
		out = append(out, e.object.problem(rule, fieldOf(e.object, h.address), "%s%s", h.text, more(h.n)))
	}
	return out
}

// suspect tells what is odd about an endpoint's address, "" if nothing. An
// endpoint that has an address in common with an external frontend is no more
// than a host that bears it, unless the port is the frontend's too.
func (s *settlement) suspect(j *joined, b *backing, a netip.Addr) (rule Rule, text string) {
	claimed, ok := s.addresses[a]
	if !ok {
		return "", ""
	}
	switch owner := claimed.clusterIP; {
	case owner == j.demand:
		return "", "" // an error already
	case owner != nil:
		return ruleEndpointClusterIP, fmt.Sprintf("%s is the clusterIP of %s: no host has it, what is sent there is lost", a, owner.name())
	}
	return ruleEndpointFrontend, s.suspectPort(j, b, a)
}

func (s *settlement) suspectPort(j *joined, b *backing, a netip.Addr) string {
	for _, port := range b.ports {
		switch owner := s.frontends[keyOf(a, port.number, port.protocol)]; {
		case owner == nil:
		case owner == j.demand:
			return fmt.Sprintf("%s is the Service's own address and port", netip.AddrPortFrom(a, port.number))
		default:
			return fmt.Sprintf("%s is a frontend of %s", netip.AddrPortFrom(a, port.number), owner.name())
		}
	}
	return ""
}

// name gives namespace/name (file:line).
func (d *demand) name() string {
	return fmt.Sprintf("%s (%s)", d.object.Key.ObjectName, d.object.Source)
}

// orphans adds what is to be said of slices: those that serve nothing, and
// what was found in reading the others.
func (p *sweep) orphans() {
	for _, e := range p.backends {
		switch s := e.service; {
		case s == nil: // without the label, of which validation warns
		case s.seen == p.generation:
			e.parse() // a headless Service has not asked for it
			p.problems = append(p.problems, e.findings...)
		case s.failing != p.generation:
			p.problems = append(p.problems, e.orphan()...)
		}
	}
}

// orphan gives the problem of a slice that names a Service which isn't there,
// made once in the slice's life.
func (e *digest) orphan() []Problem {
	if e.orphaned == nil {
		field := "metadata.labels[" + discoveryv1.LabelServiceName + "]"
		if e.object.Endpoints != nil {
			field = "metadata.name"
		}
		e.orphaned = []Problem{e.object.problem(ruleNoService, field, "there is no Service %s: the endpoints are not used", e.service.key.ObjectName)}
	}
	return e.orphaned
}
