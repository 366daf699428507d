package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/gossip"
	"pointsman/state"
)

// drainAnswer is a drain in force.
type drainAnswer struct {
	Target string    `json:"target"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`

	GraceEnds time.Time `json:"graceEnds"`      // UDP flows are sent elsewhere
	File      bool      `json:"file,omitempty"` // of By's, which makes it last as long as it's there
}

// setBy says who wants it.
func (d *drainAnswer) setBy() string {
	if d.File {
		return "file on " + d.By
	}
	return d.By
}

type drainsAnswer struct {
	Drains []drainAnswer `json:"drains"`
}

func (c *control) drains(wanted) answer {
	a := drainsAnswer{Drains: []drainAnswer{}}
	for _, d := range c.fleet.Health().Drains {
		a.Drains = append(a.Drains, drainAnswer{d.Target.String(), d.Reason, d.By, d.Since, d.Until, d.GraceEnds(), d.File})
	}
	slices.SortFunc(a.Drains, func(a, b drainAnswer) int { return cmp.Compare(a.Target, b.Target) })
	return answerOf(a)
}

// drainRequest asks for a drain, or for its end.
type drainRequest struct {
	Target    string        `json:"target"` // as state.DrainTarget writes it
	For       time.Duration `json:"for"`
	Grace     time.Duration `json:"grace"` // what open connections get
	Reason    string        `json:"reason"`
	UntilBoot bool          `json:"untilBoot"` // of this node, until it has booted again
}

// drainReply is what is to be said of a drain that was accepted.
type drainReply struct {
	Note string `json:"note,omitempty"`
}

func (c *control) drain(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(target state.DrainTarget, q *drainRequest) (string, error) {
		d := state.Drain{Target: target, Reason: q.Reason, Until: time.Now().Add(q.For), Grace: q.Grace}
		if q.UntilBoot {
			return "", c.fleet.DrainSelf(d)
		}
		return c.unknown(target), c.fleet.Drain(d)
	})
}

func (c *control) undrain(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(target state.DrainTarget, _ *drainRequest) (string, error) {
		note, d := "", c.fleet.Status().View.Drains[target]
		if d == nil {
			note = target.String() + " isn't drained"
		}
		if err := c.blames(d); err != nil {
			return "", err
		}
		return note, c.fleet.Undrain(target)
	})
}

// unknown says that there is no such thing to drain, as far as is known here:
// it may be a typing error, or come with the next push.
func (c *control) unknown(t state.DrainTarget) string {
	if t.Node != "" {
		view := c.fleet.Status().View
		known := t.Node == c.source.nodeName || slices.Contains(view.Absent, t.Node) ||
			slices.ContainsFunc(view.Members, func(m gossip.Member) bool { return m.Name == t.Node })
		if known {
			return ""
		}
	}
	if r := c.source.judged.Load(); r != nil && slices.ContainsFunc(r.Services, func(s *state.Service) bool { return concerns(t, s) }) {
		return ""
	}
	return "nothing here is " + t.String() + " yet; it's drained all the same"
}

// concerns reports whether a Service is the target, or has an endpoint that is.
func concerns(t state.DrainTarget, s *state.Service) bool {
	if t.Service == s.ObjectName {
		return true
	}
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			if t.Covers(s.ObjectName, &s.Ports[i].Endpoints[k]) {
				return true
			}
		}
	}
	return false
}

// maxRequest bounds a request's body.
const maxRequest = 64 << 10

func (c *control) change(w http.ResponseWriter, r *http.Request, do func(state.DrainTarget, *drainRequest) (note string, err error)) {
	q := &drainRequest{}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(q)
	var target state.DrainTarget
	if err == nil {
		target, err = parseTarget(q.Target)
	}
	var answer drainReply
	if err == nil {
		answer.Note, err = do(target, q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, answer)
}

// parseTarget reads what state.DrainTarget writes.
func parseTarget(text string) (state.DrainTarget, error) {
	kind, name, _ := strings.Cut(text, " ")
	return drainTarget(kind, name)
}

// drainTarget reads node NAME, endpoint ADDR[:PORT] or service NS/NAME.
func drainTarget(kind, name string) (t state.DrainTarget, err error) {
	switch kind {
	case "node":
		if t.Node = strings.ToLower(name); name == "" {
			err = fmt.Errorf("node: a name is missing")
		}
	case "endpoint":
		t.Endpoint, err = parseEndpoint(name)
	case "service":
		t.Service.Namespace, t.Service.Name, _ = strings.Cut(name, "/")
		if t.Service.Namespace == "" || t.Service.Name == "" {
			err = fmt.Errorf("service: %q is not NAMESPACE/NAME", name)
		}
	default:
		err = fmt.Errorf("%q can't be drained: name a node, an endpoint or a service", kind)
	}
	return t, err
}

// parseEndpoint reads ADDR, which has port 0 then, or ADDR:PORT. No endpoint has a
// zone.
func parseEndpoint(text string) (netip.AddrPort, error) {
	e, err := netip.ParseAddrPort(text)
	isPort := err == nil
	if !isPort {
		var addr netip.Addr
		addr, err = netip.ParseAddr(strings.Trim(text, "[]"))
		e = netip.AddrPortFrom(addr, 0)
	}
	if err != nil || e.Addr().Zone() != "" || isPort && e.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("endpoint: %q is neither an address nor ADDRESS:PORT", text)
	}
	return netip.AddrPortFrom(e.Addr().Unmap(), e.Port()), nil
}
