package main

import (
	"net/netip"
	"slices"

	"pointsman/reconcile"
	"pointsman/reconcile/doctor"
	"pointsman/reconcile/host"
)

// hostAnswer is what new connections that are served meet on this host beyond our
// rules.
type hostAnswer struct {
	Clients  []string          `json:"clients"` // the kinds that are served; the first counts
	Routes   []routeAnswer     `json:"routes"`
	Findings []doctor.Obstacle `json:"findings"`

	Unexamined int      `json:"unexamined,omitempty"` // endpoints that are used and weren't looked at: those with the highest addresses
	Unread     []string `json:"unread,omitempty"`     // what could not be looked at
}

// routeAnswer is where this host sends what is for an address.
type routeAnswer struct {
	To        netip.Addr     `json:"to"`
	Of        string         `json:"of"` // frontend, endpoint or client
	Refusal   host.Refusal   `json:"refusal,omitempty"`
	Local     bool           `json:"local,omitempty"`
	Link      string         `json:"link,omitempty"`
	NoCarrier bool           `json:"noCarrier,omitempty"`
	Gateway   netip.Addr     `json:"gateway,omitzero"`
	Source    netip.Addr     `json:"source,omitzero"`
	Neighbour host.Neighbour `json:"neighbour,omitempty"`
}

// What a route is to.
const (
	ofFrontend = "frontend"
	ofEndpoint = "endpoint"
	ofClient   = "client"
)

// maxExamined bounds the endpoints of an answer whose ways are looked at: each costs
// some requests to the kernel.
const maxExamined = 100

// wayOf gives the way of what is served. It's nil where nothing is.
func wayOf(x *reconcile.Explanation, isOwn func(netip.Addr) bool) *doctor.Way {
	w := &doctor.Way{Protocol: x.Protocol, To: x.To}
	var used []netip.Addr
	for i := range x.Clients {
		c := &x.Clients[i]
		if c.Now().Verdict != reconcile.Served {
			continue
		}
		for _, e := range c.Now().Endpoints {
			used = append(used, e.Addr())
		}
		if c.Clients == thisHost || x.From.IsValid() && isOwn(x.From) {
			w.Own = append(w.Own, c.Clients)
			continue
		}
		w.Elsewhere, w.From, w.Bared = append(w.Elsewhere, c.Clients), x.From, w.Bared || !c.Now().Masquerade
	}
	for i := range x.Endpoints {
		if e := &x.Endpoints[i]; e.Refused {
			used = slices.DeleteFunc(used, func(a netip.Addr) bool { return a == e.Address.Addr() })
		}
	}
	w.Endpoints = used
	return w
}

// thisHost is reconcile's name for this host's own processes.
const thisHost = "this host"

// wayTo gives the way to an endpoint, for the clients that are sent there.
func wayTo(x *reconcile.EndpointExplanation) *doctor.Way {
	w := &doctor.Way{}
	for i := range x.Backs {
		b := &x.Backs[i]
		for _, kind := range b.For {
			to := &w.Elsewhere
			if kind == thisHost {
				to = &w.Own
			}
			if !slices.Contains(*to, kind) {
				*to = append(*to, kind)
			}
		}
		if len(b.For) > 0 && !b.Refused {
			w.Endpoints = []netip.Addr{x.Endpoint.Addr()}
		}
	}
	return w
}

// onTheWay looks at a way: the agent's host as it is now. It's nil where nothing
// is served. It reads the kernel with sockets of its own, and sends no packet.
func (c *control) onTheWay(w *doctor.Way) *hostAnswer {
	slices.SortFunc(w.Endpoints, netip.Addr.Compare)
	w.Endpoints = slices.Compact(w.Endpoints)
	all := len(w.Endpoints)
	if all == 0 {
		return nil
	}
	w.Endpoints = w.Endpoints[:min(all, maxExamined)]
	q := host.WayQuestions{Addrs: c.loop.Addresses(), To: w.Endpoints, From: w.From}
	q.Sysctls, q.PerLink = doctor.Asked()
	if w.To.IsValid() && len(w.Own) > 0 {
		q.To = append(slices.Clone(q.To), w.To.Addr())
	}
	facts, hops := host.ReadWay(q)
	w.Hops = hops
	out := &hostAnswer{Unexamined: all - len(w.Endpoints), Unread: facts.Unread, Routes: []routeAnswer{},
		Findings: doctor.Obstacles(facts, doctor.Ranges{Service: c.loop.ServiceCIDRs, Local: c.loop.LocalCIDRs}, w),
		Clients:  slices.Concat(w.Elsewhere, w.Own)}
	for i := range hops {
		out.Routes = append(out.Routes, routeOf(&hops[i], w))
	}
	return out
}

func routeOf(h *host.Hop, w *doctor.Way) routeAnswer {
	r := routeAnswer{To: h.To, Of: ofEndpoint, Refusal: h.Refusal, Local: h.Local, Link: h.Link.Name, Gateway: h.Gateway, Source: h.Source, Neighbour: h.Neighbour}
	r.NoCarrier = r.Link != "" && !h.Carrier
	switch {
	case h.To == w.From:
		r.Of = ofClient
	case !slices.Contains(w.Endpoints, h.To):
		r.Of = ofFrontend
	case w.From.IsValid():
		r.Refusal = h.Forwarded
	}
	return r
}

// passes reports whether nothing is for certain in the way of the first kind of
// clients.
func (a *hostAnswer) passes() bool {
	return a == nil || !slices.ContainsFunc(a.Findings, func(o doctor.Obstacle) bool { return o.Certain && slices.Contains(o.For, a.Clients[0]) })
}

// mark tells endpoints that are used that the way to them is blocked.
func (a *hostAnswer) mark(endpoints []reconcile.EndpointFate) {
	if a == nil {
		return
	}
	reasons := map[netip.Addr]reconcile.Reason{}
	for _, r := range a.Routes {
		if why, ok := r.reason(); ok && r.Of == ofEndpoint {
			reasons[r.To] = why
		}
	}
	for i := range endpoints {
		e := &endpoints[i]
		if why, ok := reasons[e.Address.Addr()]; ok && len(e.For)+len(e.Actual) > 0 {
			e.Why = append(e.Why, why)
		}
	}
}

func (r *routeAnswer) reason() (reconcile.Reason, bool) {
	switch {
	case r.Refusal == host.NoRoute:
		return reconcile.Reason{Code: "no-route", Text: "this host has no route to it"}, true
	case r.Refusal != "":
		return reconcile.Reason{Code: "no-route", Text: "the kernel doesn't send to it: " + string(r.Refusal)}, true
	case r.NoCarrier:
		return reconcile.Reason{Code: "no-carrier", Text: r.Link + " has no carrier"}, true
	case r.Neighbour != "" && !r.Gateway.IsValid():
		return reconcile.Reason{Code: "neighbour", Text: "doesn't answer on " + r.Link}, true
	case r.Neighbour != "":
		return reconcile.Reason{Code: "neighbour", Text: "its gateway " + r.Gateway.String() + " doesn't answer on " + r.Link}, true
	}
	return reconcile.Reason{}, false
}
