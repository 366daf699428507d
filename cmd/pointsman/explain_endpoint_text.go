package main

import (
	"fmt"
	"slices"
	"strings"

	"pointsman/reconcile"
)

// endpointConcluded is the answer in a line.
func endpointConcluded(x *reconcile.EndpointExplanation) string {
	name := x.Endpoint.String()
	if x.Endpoint.Port() == 0 {
		name = x.Endpoint.Addr().String()
	}
	if len(x.Backs) == 0 {
		return name + " is no endpoint of any Service on this host"
	}
	used := 0
	for i := range x.Backs {
		if len(x.Backs[i].For) > 0 {
			used++
		}
	}
	text := fmt.Sprintf("%s backs %s, and gets connections by %s", name, plural(len(x.Backs), "Service port"), usedText(used, len(x.Backs)))
	if !x.Kernel.OK() {
		text += "; the kernel isn't as it should be"
	}
	return text
}

func usedText(used, all int) string {
	switch {
	case used == 0:
		return "none"
	case used == all && all == 1:
		return "it"
	case used == all:
		return "all of them"
	}
	return fmt.Sprint(used, " of them")
}

// endpoint shows what an endpoint is good for.
func (p *walk) endpoint(a *explainedEndpoint) {
	p.conclusion(a.OK, a.Conclusion)
	for i := range a.Backs {
		p.backing(&a.Backs[i])
	}
	for _, h := range a.Homes {
		text := h.Node + ": " + h.State
		if h.Drained {
			text += ", drained"
		}
		p.line("home", "%s", text)
	}
	p.host(a.Host)
	p.kernel(&a.Kernel)
	p.connections(a.Connections)
	p.manifests(&a.Manifests)
	for _, h := range a.Hints {
		p.wrapped("see also", h)
	}
}

func (p *walk) backing(b *reconcile.Backing) {
	p.wrapped("backs", fmt.Sprintf("Service %s, port %s (%s), as %s", b.Service, portText(b.Port, string(b.Protocol)), b.Source, b.Address))
	effective := reconcile.Conditions{Ready: b.Ready, Serving: b.Serving, Terminating: b.Terminating}
	switch {
	case b.Declared == nil:
		p.line("", "%s; the manifests don't have it any more", conditionsText(effective))
	case *b.Declared == effective:
		p.line("", "%s, as declared", conditionsText(effective))
	default:
		p.line("", "%s; declared %s", conditionsText(effective), conditionsText(*b.Declared))
	}
	if why := endpointWhy(&b.EndpointFate); why != "" {
		p.wrapped("", why)
	}
	if b.Check != nil {
		p.checked(b)
	}
	var rows [][]string
	for _, f := range b.Frontends {
		rows = append(rows, []string{f.Kind, f.Address.String(), getsText(f.For)})
	}
	p.table("", rows)
}

func (p *walk) checked(b *reconcile.Backing) {
	text := "probe: " + b.Check.Probe
	if b.Check.Probe == "" {
		text = "no probe: it's good as long as its host lives, or others can connect to it"
	}
	if b.Check.Probe != "" || !b.Check.Since.IsZero() {
		text += "; " + b.Check.Verdict
	}
	if !b.Check.Since.IsZero() {
		text += " since " + timeText(b.Check.Since)
	}
	if b.Check.Held {
		text += " as last known, for nobody has a fresh word"
	}
	if !slices.ContainsFunc(b.Why, func(r reconcile.Reason) bool { return r.Code == "seen-down" }) {
		text += seenText(b.Votes)
	}
	p.wrapped("", text)
}

// getsText says from whom it gets connections: everybody, if those outside are
// among them.
func getsText(clients []string) string {
	switch {
	case len(clients) == 0:
		return "gets none by it"
	case slices.Contains(clients, "outside"):
		return "gets connections"
	}
	texts := make([]string, len(clients))
	for i, kind := range clients {
		texts[i] = clientText(kind)
	}
	return "gets those " + strings.Join(texts, " and ")
}

func conditionsText(c reconcile.Conditions) string {
	is := func(yes bool, name string) string {
		if yes {
			return name
		}
		return "not " + name
	}
	return strings.Join([]string{is(c.Ready, "ready"), is(c.Serving, "serving"), is(c.Terminating, "terminating")}, ", ")
}
