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
	if texts = append(texts, fares(s, l.node)...); len(texts) == 0 {
		return "ok"
	}
	return strings.Join(texts, ", ")
}

// fares says what is out of the ordinary about a Service's endpoints, as seen
// from a node.
func fares(s *state.Service, node reconcile.Node) (texts []string) {
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
		texts = append(texts, "kept anyway")
	}
	return append(texts, nowhere(s, node)...)
}

// nowhere says which frontends of a Service lead nowhere from a node: without a
// usable endpoint they are refused, and without one of the node's own dropped,
// where the policy wants that.
func nowhere(s *state.Service, node reconcile.Node) (texts []string) {
	var refused, dropped []string
	frontends := 0
	for i := range s.Ports {
		p := &s.Ports[i]
		for _, f := range p.Frontends {
			frontends++
			switch _, why := reconcile.Reach(s, p, f, node); {
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
		case frontends:
			texts = append(texts, n.what)
		default:
			texts = append(texts, n.what+" for "+shortList(n.of))
		}
	}
	return texts
}

// usable reports whether a port has an endpoint of a family that connections may
// go to (KEP-1669).
func usable(p *state.Port, ipv6 bool) bool {
	return slices.ContainsFunc(p.Endpoints, func(e state.Endpoint) bool {
		return e.Address.Addr().Is6() == ipv6 && (e.Ready || e.Serving && e.Terminating)
	})
}
