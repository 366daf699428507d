package manifest

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"pointsman/state"
)

// joined is a Service's demand with its slices, and what was found in putting
// them together.
type joined struct {
	demand    *demand
	slices    []*digest          // by kind and name
	endpoints [][]state.Endpoint // for each of spec.ports
	nodes     []string           // that serve it; nil means all
	selects   bool               // it's made from the Nodes too
	checks    checks
	findings  []Problem
}

// serviceMemo is what the last Load made of a Service. Each part is used again
// as long as the parts it is made from are the same.
type serviceMemo struct {
	digest *digest
	slices []*digest // in the order of the files
	joined *joined

	lost    []refusal
	losses  []Problem
	service *state.Service

	version   int    // of the settlement that crossed was found with
	fleet     *fleet // that strangers were found with
	crossed   []Problem
	strangers []Problem
	problems  []Problem // all of them
}

// join gives the state.Service of a slot, nil where nothing of it is
// programmed, and adds what is wrong with it to the problems.
func (p *sweep) join(s *slot, f *fleet) *state.Service {
	m, backers := &s.memo, p.slicesOf(s)
	if m.digest != s.digest || !slices.Equal(m.slices, backers) || m.joined != nil && m.joined.selects && m.fleet != f {
		p.bear(m.joined, -1)
		*m = serviceMemo{digest: s.digest, slices: slices.Clone(backers), service: m.service}
		if d := s.digest.demand; d != nil {
			m.joined = match(d, backers, f)
			p.bear(m.joined, 1)
		}
	}
	if m.joined == nil {
		m.service = nil
		return nil
	}
	if m.version != p.settled.version || m.fleet != f {
		p.settleMemo(m, f)
	}
	for _, problem := range m.problems {
		if s.broken != p.generation || !problem.Rule.ofNoSlices() {
			p.problems = append(p.problems, problem)
		}
	}
	return m.service
}

// ofNoSlices reports whether a finding is about the lack of slices. It isn't the
// news where there is one, in error.
func (r Rule) ofNoSlices() bool { return r == ruleNoSlices || r == ruleSelectorNoSlices }

// settleMemo brings what depends on other Services and on Nodes up to date.
func (p *sweep) settleMemo(m *serviceMemo, f *fleet) {
	d := m.joined.demand
	if lost := p.settled.refused[d]; m.version == 0 || !slices.Equal(m.lost, lost) {
		m.lost, m.losses = lost, d.refusals(lost)
		m.service = unlessEqual(m.service, m.joined.build(lost))
	}
	if m.version != p.settled.version {
		m.crossed = p.settled.cross(m.joined)
	}
	if m.fleet != f {
		m.strangers = f.strangers(m.joined)
	}
	m.version, m.fleet = p.settled.version, f
	m.problems = slices.Concat(d.findings, m.joined.findings, m.losses, m.crossed, m.strangers)
}

// match matches the ports of a Service with those of its slices, by name and
// protocol; the backend's port number is the slice's (semantics.md, Inputs).
// The slices are taken by kind and name, so that files don't matter.
func match(d *demand, backers []*digest, f *fleet) *joined {
	j := &joined{demand: d, slices: slices.SortedFunc(slices.Values(backers), (*digest).compare)}
	for _, e := range j.slices {
		e.parse()
	}
	if d.asked != nil {
		j.nodes = j.choose(f, d.asked.nodes)
	}
	if len(d.object.Service.Spec.Ports) > 1 {
		j.checks.known = map[state.CheckKey]*state.Check{}
	}
	var repeats []repeat
	for _, p := range d.object.Service.Spec.Ports {
		eps, again := dedup(j.candidates(p, f))
		j.endpoints = append(j.endpoints, j.withoutLoops(eps))
		repeats = append(repeats, again...)
	}
	j.check(repeats)
	return j
}

// candidates gives all endpoints of a Service port.
func (j *joined) candidates(p corev1.ServicePort, f *fleet) []candidate {
	var all []candidate
	distribution := deref(j.demand.object.Service.Spec.TrafficDistribution, "")
	j.eachMatch(p, func(b *backing, bp backingPort) {
		endpoints, inquiry := b.hinted(distribution), j.inquire(f, b, bp)
		all = slices.Grow(all, len(endpoints))
		for i := range endpoints {
			ep := &endpoints[i]
			all = append(all, candidate{netip.AddrPortFrom(ep.Address.Addr(), bp.number), ep, b.object, inquiry})
		}
	})
	return all
}

// eachMatch calls f for each slice port that backs a Service port.
func (j *joined) eachMatch(p corev1.ServicePort, f func(b *backing, bp backingPort)) {
	for _, e := range j.slices {
		for i := range e.backings {
			b := &e.backings[i]
			for _, bp := range b.ports {
				if bp.name == p.Name && bp.protocol == state.Protocol(p.Protocol) {
					f(b, bp)
				}
			}
		}
	}
}

// build gives the Service without the claims it lost.
func (j *joined) build(lost []refusal) *state.Service {
	svc := j.demand.service
	svc.Nodes = j.nodes
	svc.Ports = make([]state.Port, len(j.endpoints))
	for i, p := range j.demand.object.Service.Spec.Ports {
		svc.Ports[i] = state.Port{Name: p.Name, Protocol: state.Protocol(p.Protocol), Endpoints: j.endpoints[i]}
	}
	for i, c := range j.demand.claims {
		if len(lost) > 0 && lost[0].claim == i {
			lost = lost[1:]
			continue
		}
		switch c.kind {
		case claimClusterIP:
			svc.ClusterIPs = append(svc.ClusterIPs, c.frontend.Address)
		case claimHealthCheck:
			svc.HealthCheckNodePort = c.frontend.Port
		case claimNodePort:
			p := &svc.Ports[c.port]
			p.Frontends = append(p.Frontends, nodePorts(j.demand.families, c.frontend.Port)...)
		default:
			svc.Ports[c.port].Frontends = append(svc.Ports[c.port].Frontends, c.frontend)
		}
	}
	for i := range svc.Ports {
		slices.SortFunc(svc.Ports[i].Frontends, state.Frontend.Compare)
	}
	return &svc
}

// nodePorts gives the frontends of one NodePort: one for each family that the
// Service has, as in kube-proxy, whose pass over a family leaves out Services
// without it. What else listens on that number by the other family goes on.
func nodePorts(families stack, port uint16) []state.Frontend {
	var out []state.Frontend
	for _, f := range families.each() {
		any := netip.IPv4Unspecified()
		if f == ipv6 {
			any = netip.IPv6Unspecified()
		}
		out = append(out, state.Frontend{Kind: state.NodePort, Address: any, Port: port})
	}
	return out
}

// unlessEqual gives old if now says the same, so that whoever memoises by
// pointer has nothing to do where, say, a slice moved to another file.
func unlessEqual(old, now *state.Service) *state.Service {
	if old == nil || !equalServices(old, now) {
		return now
	}
	return old
}

func equalServices(a, b *state.Service) bool {
	return a.ObjectName == b.ObjectName && a.Source == b.Source &&
		a.InternalTrafficPolicy == b.InternalTrafficPolicy && a.ExternalTrafficPolicy == b.ExternalTrafficPolicy &&
		a.Affinity == b.Affinity && a.HealthCheckNodePort == b.HealthCheckNodePort &&
		a.RejectWhenAllFail == b.RejectWhenAllFail && a.PanicThreshold == b.PanicThreshold &&
		(a.Nodes == nil) == (b.Nodes == nil) && slices.Equal(a.Nodes, b.Nodes) &&
		slices.Equal(a.ClusterIPs, b.ClusterIPs) && slices.Equal(a.SourceRanges, b.SourceRanges) &&
		slices.EqualFunc(a.Ports, b.Ports, equalPorts)
}

func equalPorts(a, b state.Port) bool {
	return a.Name == b.Name && a.Protocol == b.Protocol && slices.Equal(a.Frontends, b.Frontends) &&
		slices.EqualFunc(a.Endpoints, b.Endpoints, equalEndpoints)
}
