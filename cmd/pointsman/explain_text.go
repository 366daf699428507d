package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/reconcile"
	"pointsman/state"
)

// concluded is the answer in a line.
func concluded(x *reconcile.Explanation) string {
	text := fmt.Sprintf("%s/%s", x.To, x.Protocol)
	if x.From.IsValid() {
		text += " from " + x.From.String()
	}
	first := &x.Clients[0]
	text += ": " + fateText(first.Now(), x)
	if why := first.Now().Why; why != "" {
		text += ": " + why
	}
	switch a := x.Affinity; {
	case first.Actual != nil && (first.Actual.Verdict != first.Intent.Verdict || first.Actual.Masquerade != first.Intent.Masquerade):
		text += "; it should be " + fateText(&first.Intent, x)
	case len(x.Kernel.Faults) > 0: // the elements are right, or of no use
		text += ", by its elements; but the table isn't as it should be, and packets may meet something else"
	case !x.Kernel.OK():
		text += "; but the kernel isn't as it should be"
	case x.Kernel.Error != "":
		text += ", if the kernel is as it should be"
	case a != nil && a.Endpoint.IsValid():
		text += "; this client is bound to " + a.Endpoint.String()
	}
	return text
}

// fateText says what becomes of connections.
func fateText(f *reconcile.Fate, x *reconcile.Explanation) string {
	switch f.Verdict {
	case reconcile.Refused:
		if x.Protocol == state.TCP {
			return "refused by a TCP reset"
		}
		return "refused by ICMP port unreachable"
	case reconcile.Dropped:
		return "dropped"
	case reconcile.Passes:
		return "not translated"
	}
	text := fmt.Sprintf("served by %d of %s", len(f.Endpoints), plural(len(x.Endpoints), "endpoint"))
	if f.Masquerade {
		return text + ", masqueraded"
	}
	return text + ", which see the client"
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func sameFate(a, b *reconcile.Fate) bool {
	return a.Verdict == b.Verdict && slices.Equal(a.Endpoints, b.Endpoints) && a.Masquerade == b.Masquerade
}

// explanation shows the walk.
func (p *walk) explanation(a *explainAnswer) {
	p.conclusion(a.OK, a.Conclusion)
	if f := a.Frontend; f != nil {
		p.frontend(f)
	}
	p.clients(a.Explanation)
	if a.Affinity != nil {
		p.wrapped("affinity", affinityText(a.Affinity, a.From))
	}
	p.endpoints(a.Explanation)
	p.host(a.Host)
	p.kernel(&a.Kernel)
	p.connections(a.Connections)
	p.manifests(&a.Manifests)
	for i, h := range a.Hints {
		p.wrapped([]string{"see also", ""}[min(i, 1)], h)
	}
}

func (p *walk) frontend(f *reconcile.Frontend) {
	port := ""
	if f.Port != "" {
		port = ", port " + f.Port
	}
	p.wrapped("frontend", fmt.Sprintf("%s of Service %s%s (%s), %s", f.Kind, f.Service, port, f.Source, f.Policy))
	if len(f.Ranges) > 0 {
		p.wrapped("", "only from "+strings.Join(f.Ranges, ", ")+" (loadBalancerSourceRanges)")
	}
	if len(f.Contested) > 0 {
		p.wrapped("", "claimed by "+strings.Join(f.Contested, ", ")+", too: the first by name has it")
	}
}

// clients says why, and what is different for whom.
func (p *walk) clients(x *reconcile.Explanation) {
	first := x.Clients[0].Now()
	if first.Why != "" && !slices.ContainsFunc(x.Clients, func(c reconcile.ClientFate) bool { return !sameFate(c.Now(), first) }) {
		return // all is said
	}
	title := "clients"
	for i := 0; i < len(x.Clients); {
		f := x.Clients[i].Now()
		var names []string
		for ; i < len(x.Clients) && sameFate(f, x.Clients[i].Now()); i++ {
			names = append(names, clientText(x.Clients[i].Clients))
		}
		text := fateText(f, x)
		if why := cmp.Or(f.Why, f.Source); why != "" {
			text += " (" + why + ")"
		}
		p.wrapped(title, strings.Join(names, " and ")+": "+text)
		title = ""
		for _, h := range f.Hairpins {
			p.wrapped("", fmt.Sprintf("%s is that client itself: it sees an address of this host, so that its answers come back", h))
		}
	}
}

func clientText(kind string) string {
	switch kind {
	case "outside":
		return "from outside"
	case "inside":
		return "from within --local-cidr"
	case "this host":
		return "from this host itself"
	}
	return "from " + kind
}

func affinityText(a *reconcile.Affinity, from netip.Addr) string {
	text := fmt.Sprintf("ClientIP, for %s after a client's last new connection: ", shortTime(a.Timeout))
	switch {
	case !from.IsValid():
		return text + "--from tells where one is bound to"
	case !a.Bound:
		return text + from.String() + " is bound to none yet"
	case !a.Endpoint.IsValid():
		return text + from.String() + " was bound to one that is gone, so another is picked"
	}
	return text + fmt.Sprintf("%s is bound to %s for %s more", from, a.Endpoint, shortTime(a.Left))
}

// shortTime leaves out what is nothing: 3h, 2h31m.
func shortTime(d time.Duration) string {
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// endpoints shows each with why it's used or isn't: those that aren't first,
// since who asks wants to know of them.
func (p *walk) endpoints(x *reconcile.Explanation) {
	all := x.Endpoints
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b reconcile.EndpointFate) int { return len(a.For) - len(b.For) })
	var rows [][]string
	for i := range sorted[:min(len(sorted), maxEndpoints)] {
		e := &sorted[i]
		rows = append(rows, []string{e.Address.String(), orDash(e.Node), useText(e, len(x.Clients)), endpointWhy(e)})
	}
	p.table("endpoints", rows)
	if len(sorted) == 0 && x.Frontend != nil {
		p.wrapped("endpoints", noneText(x.Frontend, x.Protocol))
	}
	if n := len(sorted) - maxEndpoints; n > 0 {
		p.line("", "... and %d more (-o json has all)", n)
	}
}

// noneText says what slices would have to have: the family is seldom what is
// wrong.
func noneText(f *reconcile.Frontend, p state.Protocol) string {
	name := "without a name"
	if f.Port != "" {
		name = fmt.Sprintf("named %q", f.Port)
	}
	return fmt.Sprintf("none: no slice of Service %s has an address of this family and a %s port %s", f.Service, p, name)
}

// useText says for whom an endpoint is used.
func useText(e *reconcile.EndpointFate, kinds int) string {
	switch {
	case !slices.Equal(e.For, e.Actual) && len(e.For) > len(e.Actual):
		return "missing"
	case !slices.Equal(e.For, e.Actual):
		return "too much"
	case len(e.For) == 0:
		return "not used"
	case e.Refused:
		return "refused"
	case len(e.For) < kinds:
		return "used " + clientText(e.For[0])
	}
	return "used"
}

// endpointWhy gives the reasons, with what was seen of it and its drain.
func endpointWhy(e *reconcile.EndpointFate) string {
	var texts []string
	for _, r := range e.Why {
		text := r.Text
		switch {
		case r.Code == "drained" && e.Drain != nil:
			text += " (" + drainText(e.Drain) + ")"
		case slices.Contains([]string{"seen-down", "kept-anyway"}, r.Code):
			text += seenText(e.Votes)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func drainText(d *reconcile.Drained) string {
	text := fmt.Sprintf("%s, by %s until %s", d.Target, d.By, timeText(d.Until))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// seenText says who saw what, and since when.
func seenText(votes []reconcile.Seen) string {
	var texts []string
	for _, v := range votes {
		saw := v.Saw
		if saw == "" {
			saw = v.Verdict
		}
		texts = append(texts, fmt.Sprintf("%s: %s since %s", v.Observer, saw, timeText(v.Since)))
	}
	if texts == nil {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}
