package main

import (
	"fmt"
	"slices"
	"strings"

	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/change"
	"pointsman/state/manifest"
)

// status says in a few words how a Service that is in force fares on this host.
func (l *lookout) status(d *manifest.Declaration) string {
	s, p := l.here[d.ObjectName], l.served[d.ObjectName]
	switch {
	case d.Unserved != "":
		return "not served: " + d.Unserved
	case s == nil && p != nil:
		return "not on this host (node-selector)"
	case s == nil:
		return "not served"
	}
	var texts []string
	wrong, isWrong := l.wrong[d.ObjectName]
	switch {
	case l.stale[d.ObjectName] && isWrong:
		texts = append(texts, fmt.Sprintf("stale (%s)", wrong.Source))
	case l.stale[d.ObjectName]:
		texts = append(texts, "stale")
	case isWrong:
		texts = append(texts, fmt.Sprintf("partly refused (%s)", wrong.Source))
	}
	if texts = append(texts, l.fares(s)...); len(texts) == 0 {
		return "ok"
	}
	return strings.Join(texts, ", ")
}

// awaits says what a held change would do to Services that are in force, if there's
// one, as seen from a node.
func (f *inForce) awaits(node string) map[state.ObjectName]string {
	if f.held == nil {
		return nil
	}
	d, would := change.Compare(servedBy(f.result.Services, node), servedBy(f.held.result.Services, node)), map[state.ObjectName]string{}
	for _, s := range d.Removed {
		would[s.ObjectName] = ", would be removed by the held change"
	}
	for _, s := range d.Added { // one of other hosts
		would[s.ObjectName] = ", would be served by the held change"
	}
	for _, p := range d.Changed {
		would[p.After.ObjectName] = ", would be changed by the held change"
	}
	return would
}

// fares says what is out of the ordinary about a Service's endpoints, as seen
// from this host.
func (l *lookout) fares(s *state.Service) (texts []string) {
	var ready, drained, kept bool
	for i := range s.Ports {
		for _, e := range s.Ports[i].Endpoints {
			ready = ready || e.Ready
			drained = drained || e.Cause != nil && e.Cause.Kind == state.Drained
			kept = kept || e.Cause != nil && e.Cause.Kind == state.KeptAnyway
		}
	}
	if drained && !ready {
		texts = append(texts, "drained")
	}
	if kept {
		texts = append(texts, "failing, served all the same")
	}
	return append(texts, l.nowhere(s)...)
}

// nowhere says which frontends of a Service lead nowhere from this host: without a
// usable endpoint they are refused, and without one of the host's own dropped,
// where the policy wants that. NodePorts that no address of this host answers on by
// any of their families are told: by one of two most hosts have none.
func (l *lookout) nowhere(s *state.Service) (texts []string) {
	var refused, dropped []string
	frontends, silent := 0, 0
	for i := range s.Ports {
		p := &s.Ports[i]
		for _, f := range p.Frontends {
			frontends++
			switch _, why := reconcile.Reach(s, p, f, l.node); {
			case l.silent(f):
				silent++
			case why == "":
			case usable(p, f.Address.Is6()):
				dropped = append(dropped, change.FrontendText(f, p.Protocol))
			default:
				refused = append(refused, change.FrontendText(f, p.Protocol))
			}
		}
	}
	if frontends == 0 {
		return []string{"no address is left"}
	}
	for _, n := range []struct {
		what string
		of   []string
	}{{"no endpoint", refused}, {"no local endpoint", dropped}} {
		switch len(n.of) {
		case 0:
		case frontends - silent:
			texts = append(texts, n.what)
		default:
			texts = append(texts, n.what+" for "+shortList(n.of))
		}
	}
	return append(texts, l.unanswered(s)...)
}

// silent reports whether a frontend is a NodePort of a family by which this host
// answers on none.
func (l *lookout) silent(f state.Frontend) bool {
	return f.Kind == state.NodePort && l.nodePortsKnown && len(ofFamily(l.nodePorts, f.Address.Is6())) == 0
}

// unanswered says which NodePorts of a Service nothing on this host answers on.
func (l *lookout) unanswered(s *state.Service) []string {
	var ports []string
	for i := range s.Ports {
		of := slices.DeleteFunc(slices.Clone(s.Ports[i].Frontends), func(f state.Frontend) bool { return f.Kind != state.NodePort })
		if len(of) > 0 && !slices.ContainsFunc(of, func(f state.Frontend) bool { return !l.silent(f) }) {
			for _, f := range of {
				ports = append(ports, change.FrontendText(f, s.Ports[i].Protocol))
			}
		}
	}
	if ports == nil {
		return nil
	}
	return []string{"no address here for " + shortList(ports)}
}

// usable reports whether a port has an endpoint of a family that connections may
// go to (KEP-1669).
func usable(p *state.Port, ipv6 bool) bool {
	return slices.ContainsFunc(p.Endpoints, func(e state.Endpoint) bool {
		return e.Address.Addr().Is6() == ipv6 && (e.Ready || e.Serving && e.Terminating)
	})
}
