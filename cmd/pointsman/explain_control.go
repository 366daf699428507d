package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/manifest"
)

// explainAnswer is what becomes of connections to an address, with what the
// manifests have to do with it.
type explainAnswer struct {
	OK         bool   `json:"ok"`
	Conclusion string `json:"conclusion"`
	*reconcile.Explanation
	Host      *hostAnswer     `json:"host,omitempty"`
	Manifests manifestsAnswer `json:"manifests"`
}

// explainedEndpoint is what an endpoint is good for.
type explainedEndpoint struct {
	OK         bool   `json:"ok"`
	Conclusion string `json:"conclusion"`
	*reconcile.EndpointExplanation
	Host      *hostAnswer     `json:"host,omitempty"`
	Homes     []homeAnswer    `json:"homes,omitempty"`
	Manifests manifestsAnswer `json:"manifests"`
}

// homeAnswer is a host that endpoints are on.
type homeAnswer struct {
	Node    string `json:"node"`
	State   string `json:"state"` // as get nodes has it; this host: here
	Drained bool   `json:"drained,omitempty"`
}

// manifestsAnswer is what the manifests say of an address that isn't in what is
// served.
type manifestsAnswer struct {
	Stale    []string        `json:"stale,omitempty"`    // objects of the Service whose last good version is served
	Problems []jsonProblem   `json:"problems,omitempty"` // of the Service, or that name the address
	Mentions []mentionAnswer `json:"mentions,omitempty"` // objects that name the address and aren't served
	Pending  string          `json:"pending,omitempty"`  // a change that isn't in force
}

type mentionAnswer struct {
	Object string `json:"object"`
	Source string `json:"source"`
	Why    string `json:"why"`
}

// explain answers /v1/explain: with endpoint=ADDR:PORT about an endpoint (port 0:
// any), else with to=ADDR:PORT[&protocol=][&from=ADDR] about an address.
func (c *control) explain(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	if e := values.Get("endpoint"); e != "" {
		c.explainEndpoint(w, r, e)
		return
	}
	q := reconcile.Question{Protocol: state.Protocol(values.Get("protocol"))}
	var err, err2 error
	q.To, err = netip.ParseAddrPort(values.Get("to"))
	if from := values.Get("from"); from != "" {
		q.From, err2 = netip.ParseAddr(from)
	}
	if q.Protocol != "" && !slices.Contains(allProtocols, q.Protocol) {
		err = fmt.Errorf("protocol: %q is none of TCP, UDP, SCTP", q.Protocol)
	}
	if err = cmp.Or(err, err2); err == nil && !askable(&q) {
		err = fmt.Errorf("%s from %s: no connection is such", q.To, q.From)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x, err := c.loop.Explain(r.Context(), q, c.explainContext)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a := explainAnswer{Explanation: x, Host: c.onTheWay(wayOf(x, c.isOwn))}
	a.OK, a.Conclusion = x.OK() && a.Host.passes(), concluded(x)+a.Host.but()
	a.Host.mark(x.Endpoints)
	var of []string
	if x.Frontend != nil {
		of = []string{x.Frontend.Service}
	}
	a.Manifests = c.manifestsOn(q.To.Addr(), of)
	reply(w, a)
}

// askable tells whether there can be such a connection. The command has said so
// before, but others may ask, too.
func askable(q *reconcile.Question) bool {
	isFrom := !q.From.IsValid() || q.From.Zone() == "" && q.From.Unmap().Is6() == q.To.Addr().Unmap().Is6()
	return q.To.Port() != 0 && q.To.Addr().Zone() == "" && isFrom
}

func (c *control) explainEndpoint(w http.ResponseWriter, r *http.Request, address string) {
	e, err := netip.ParseAddrPort(address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x, err := c.loop.ExplainEndpoint(r.Context(), e, c.explainContext)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a := explainedEndpoint{EndpointExplanation: x, Host: c.onTheWay(wayTo(x))}
	a.OK, a.Conclusion = x.OK() && a.Host.passes(), endpointConcluded(x)+a.Host.but()
	var of []string
	for _, b := range x.Backs {
		of = append(of, b.Service)
	}
	if r := c.source.judged.Load(); r != nil {
		for _, s := range r.Backed(e.Addr()) {
			of = append(of, s.String())
		}
	}
	a.Manifests, a.Homes = c.manifestsOn(e.Addr(), of), c.homes(x)
	reply(w, a)
}

func (c *control) isOwn(a netip.Addr) bool { return a.IsLoopback() || c.loop.Addresses().Has(a) }

// explainContext is what the loop isn't told.
func (c *control) explainContext() *reconcile.Context {
	out := &reconcile.Context{Desired: c.source.latest.Load(), Verdicts: &c.fleet.Health().Verdicts}
	if f := c.source.inForce.Load(); f != nil {
		out.Declared = servedBy(f.result.Services, c.source.nodeName)
		for _, s := range f.result.Services {
			if !s.ServedBy(c.source.nodeName) {
				out.Elsewhere = append(out.Elsewhere, s)
			}
		}
	}
	return out
}

// homes tells of the hosts that an endpoint is on.
func (c *control) homes(x *reconcile.EndpointExplanation) []homeAnswer {
	var out []homeAnswer
	status := c.fleet.Status()
	for _, b := range x.Backs {
		if b.Node == "" || slices.ContainsFunc(out, func(h homeAnswer) bool { return h.Node == b.Node }) {
			continue
		}
		h := homeAnswer{Node: b.Node, State: "unknown", Drained: c.fleet.Health().NodeDrained(b.Node)}
		for _, m := range status.View.Members {
			if m.Name == b.Node {
				h.State = m.State.String()
			}
		}
		if slices.Contains(status.Absent(), b.Node) && h.State == "unknown" {
			h.State = "absent"
		}
		if b.Node == c.source.nodeName {
			h.State = "here"
		}
		out = append(out, h)
	}
	return out
}

// manifestsOn gives what the manifests say of an address, and of the Services
// that have it.
func (c *control) manifestsOn(a netip.Addr, services []string) (out manifestsAnswer) {
	r := c.source.judged.Load()
	if r == nil {
		return out
	}
	objects := map[manifest.Key]bool{}
	for _, text := range services {
		namespace, name, _ := strings.Cut(text, "/")
		of := state.ObjectName{Namespace: namespace, Name: name}
		objects[manifest.Key{Kind: manifest.KindService, ObjectName: of}] = true
		for _, k := range r.Backers(of) {
			objects[k] = true
		}
	}
	for _, k := range r.Stale {
		if objects[k] {
			out.Stale = append(out.Stale, k.String())
		}
	}
	out.Problems = c.problemsOn(r, a, objects)
	for _, m := range r.Mentions(a) {
		out.Mentions = append(out.Mentions, mentionAnswer{m.Object.String(), m.Source.String(), m.Why})
	}
	out.Pending = c.pending(services)
	return out
}

// maxProblems bounds the problems that are shown beside an explanation.
const maxProblems = 10

// problemsOn gives the problems of some objects, those that name the address,
// and those of documents that do.
func (c *control) problemsOn(r *manifest.Result, a netip.Addr, objects map[manifest.Key]bool) []jsonProblem {
	var on []manifest.Problem
	for _, p := range r.Problems {
		if objects[p.Object] || strings.Contains(p.Message, fmt.Sprintf("%q", a)) {
			on = append(on, p)
		}
	}
	if snapshot, err := c.source.watcher.Latest(); err == nil && snapshot != nil {
		on = append(on, snapshot.Refusals(a, r.Problems)...)
	}
	slices.SortStableFunc(on, func(a, b manifest.Problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), a.Compare(b))
	})
	on = slices.Compact(on)
	return problemList(on[:min(len(on), maxProblems)]).Problems
}

// pending says what isn't in force of some Services, or of all.
func (c *control) pending(services []string) string {
	f := c.source.inForce.Load()
	if f == nil || f.kept == "" {
		return ""
	}
	if f.held == nil {
		return "the last state is served: " + f.kept
	}
	named := func(all []*state.Service, name string) *state.Service {
		i := slices.IndexFunc(all, func(s *state.Service) bool { return s.String() == name })
		if i < 0 {
			return nil
		}
		return all[i]
	}
	for _, name := range services {
		switch now, then := named(f.result.Services, name), named(f.held.result.Services, name); {
		case then == nil:
			return "a change is held that would remove Service " + name
		case now != then:
			return "a change is held that would change Service " + name
		}
	}
	return "a change is held (see pointsman get problems)"
}
