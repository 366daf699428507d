package state

import (
	"maps"
	"net/netip"
	"slices"
)

// Overlay folds what the fleet saw, and what is drained, into the conditions
// of endpoints:
//
//	serving     = declared serving and not seen down
//	terminating = declared terminating or drained
//	ready       = declared ready, serving and not drained
//
// A Service that nothing is to be said about is the same pointer as before. The
// rules for what is left when much is down are in outlook.go.
func Overlay(services []*Service, h *Health) []*Service {
	var o Overlayer
	return o.Overlay(services, h)
}

// Overlayer does what Overlay does, faster: it looks again only at Services
// that may have changed since the last call, and a Service whose outcome is the
// same as last time is the same pointer as last time. The zero value is ready.
type Overlayer struct {
	last Health
	memo map[*Service]*overlaid
}

// overlaid is what became of a Service in the last pass.
type overlaid struct {
	out  *Service
	keys []CheckKey // of its endpoints: what the outcome depends on, apart from drains
}

// Overlay gives the Services as they are to be served. It's a pure function of
// its arguments: what the Overlayer remembers decides about pointers only.
func (o *Overlayer) Overlay(services []*Service, h *Health) []*Service {
	news := differences(&o.last, h)
	ev := newEvidence(h)
	memo := make(map[*Service]*overlaid, len(services))
	out := make([]*Service, len(services))
	for i, s := range services {
		known := o.memo[s]
		switch {
		case known == nil:
			known = &overlaid{ev.service(s), checkKeys(s)}
		case news.touch(known.keys):
			known.out = sameOr(known.out, ev.service(s))
		}
		memo[s], out[i] = known, known.out
	}
	o.last, o.memo = *h, memo
	return out
}

func checkKeys(s *Service) []CheckKey {
	n := 0
	for i := range s.Ports {
		n += len(s.Ports[i].Endpoints)
	}
	keys := make([]CheckKey, 0, n)
	for i := range s.Ports {
		for j := range s.Ports[i].Endpoints {
			if c := s.Ports[i].Endpoints[j].Check; c != nil {
				keys = append(keys, c.Key)
			}
		}
	}
	return keys
}

// sameOr gives the former outcome of a Service where the new one is equal.
func sameOr(former, now *Service) *Service {
	for i := range now.Ports {
		if !slices.EqualFunc(former.Ports[i].Endpoints, now.Ports[i].Endpoints, sameOutcome) {
			return now
		}
	}
	return former
}

func sameOutcome(a, b Endpoint) bool {
	return a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		sameCause(a.Cause, b.Cause)
}

func sameCause(a, b *Cause) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Judgement == b.Judgement && sameDrain(a.Drain, b.Drain)
}

func sameDrain(a, b *Drain) bool { return a == b || a != nil && b != nil && *a == *b }

// difference is what is new in one Health after another.
type difference struct {
	was, is *Verdicts
	shards  [shardCount]bool // where verdicts may differ
	any     bool             // some of shards
	drains  bool
}

func differences(was, is *Health) difference {
	d := difference{was: &was.Verdicts, is: &is.Verdicts, drains: !maps.EqualFunc(was.Drains, is.Drains, sameDrain)}
	for i := range d.shards {
		d.shards[i] = was.Verdicts.shards[i] != is.Verdicts.shards[i]
		d.any = d.any || d.shards[i]
	}
	return d
}

// touch reports whether the difference may mean something to a Service with
// these checks.
func (d *difference) touch(keys []CheckKey) bool {
	if d.drains {
		return true
	}
	return d.any && slices.ContainsFunc(keys, func(k CheckKey) bool {
		return d.shards[k%shardCount] && d.was.Get(k) != d.is.Get(k)
	})
}

// evidence is a Health, with the drains by what they name.
type evidence struct {
	verdicts  *Verdicts
	nodes     map[string]*Drain
	endpoints map[netip.AddrPort]*Drain // port 0: all of the address
	services  map[ObjectName]*Drain
}

func newEvidence(h *Health) *evidence {
	ev := &evidence{
		verdicts: &h.Verdicts,
		nodes:    map[string]*Drain{}, endpoints: map[netip.AddrPort]*Drain{}, services: map[ObjectName]*Drain{},
	}
	for t, d := range h.Drains {
		switch {
		case t.Node != "":
			ev.nodes[t.Node] = d
		case t.Service != ObjectName{}:
			ev.services[t.Service] = d
		default:
			ev.endpoints[t.Endpoint] = d
		}
	}
	return ev
}

// drain gives the drain that counts for an endpoint, nil if none does: the
// widest, where there are several.
func (ev *evidence) drain(s *Service, e *Endpoint) *Drain {
	if d := ev.services[s.ObjectName]; d != nil {
		return d
	}
	if d := ev.nodes[e.NodeName]; d != nil {
		return d
	}
	if len(ev.endpoints) == 0 {
		return nil
	}
	if d := ev.endpoints[netip.AddrPortFrom(e.Address.Addr(), 0)]; d != nil {
		return d
	}
	return ev.endpoints[e.Address]
}

// service gives a Service as it's to be served.
func (ev *evidence) service(s *Service) *Service {
	out := s
	for i := range s.Ports {
		endpoints := ev.port(s, s.Ports[i].Endpoints)
		if endpoints == nil {
			continue
		}
		if out == s {
			changed := *s
			changed.Ports = slices.Clone(s.Ports)
			out = &changed
		}
		out.Ports[i].Endpoints = endpoints
	}
	return out
}

// port gives the endpoints of a Service port as they are to be served, nil
// where all stay as they are.
func (ev *evidence) port(s *Service, declared []Endpoint) []Endpoint {
	var space [16]seen // most ports have no more endpoints
	all, special := space[:0], false
	for i := range declared {
		x := ev.see(s, &declared[i])
		all = append(all, x)
		special = special || x.down || x.untried || x.drain != nil
	}
	if !special {
		return nil
	}
	outlooks := [2]outlook{{service: s}, {service: s}}
	for i := range all {
		outlooks[all[i].family].count(&all[i])
	}
	var out []Endpoint
	for i := range all {
		e := outlooks[all[i].family].effective(&all[i])
		if e.Cause == nil {
			continue
		}
		if out == nil {
			out = slices.Clone(declared)
		}
		out[i] = e
	}
	return out
}

// see gathers what there is to be said about one endpoint.
func (ev *evidence) see(s *Service, e *Endpoint) seen {
	x := seen{declared: e, drain: ev.drain(s, e)}
	if e.Address.Addr().Is6() {
		x.family = 1
	}
	if e.Check == nil {
		return x
	}
	x.judgement = ev.verdicts.Get(e.Check.Key)
	x.down = x.judgement != nil && x.judgement.Verdict == Down
	x.untried = e.Check.Probe != nil && (x.judgement == nil || x.judgement.Untried)
	return x
}
