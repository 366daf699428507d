package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/gossip"
	"pointsman/state"
	"pointsman/state/manifest"
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
	UntilBoot bool          `json:"untilBoot"` // of this node, until it has booted again; the end of such a one
	Force     bool          `json:"force"`     // also what nothing here is
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
		if !q.Force && !c.knows(target) {
			return "", fmt.Errorf("nothing here is %v (%s): pointsman drain --force drains it all the same", target, namers(target))
		}
		return "", c.fleet.Drain(d)
	})
}

// namers says what there is not.
func namers(t state.DrainTarget) string {
	if t.Node != "" {
		return "no host of the fleet, no Node manifest and no endpoint's nodeName"
	}
	return "no manifest names it"
}

func (c *control) undrain(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(target state.DrainTarget, q *drainRequest) (string, error) {
		if q.UntilBoot {
			return "", c.fleet.UndrainSelf()
		}
		note, d := "", c.fleet.Status().View.Drains[target]
		if d == nil {
			note = target.String() + " isn't drained"
		}
		if err := c.blames(d); err != nil {
			return "", err
		}
		if err := c.fleet.Undrain(target); err != nil || d == nil {
			return note, err
		}
		return "", c.blames(c.comesBack(r.Context(), target))
	})
}

// comesBackIn is the time within which a file that drains an endpoint shows itself:
// its host looks at it every second, and then the fleet has to hear of it.
const comesBackIn = lookAtFiles + 1500*time.Millisecond

// comesBack gives the drain that a file has set of an endpoint once a command's
// was ended: nil if none has soon. Which files other hosts have isn't known
// here, as long as something else drains what they name.
func (c *control) comesBack(ctx context.Context, t state.DrainTarget) *state.Drain {
	if !t.Endpoint.IsValid() {
		return nil // there are files for endpoints alone
	}
	ctx, cancel := context.WithTimeout(ctx, comesBackIn)
	defer cancel()
	for {
		news := c.source.news.next()
		d := c.fleet.Status().View.Drains[t]
		if d != nil && d.File || !waitFor(ctx, news) {
			return d
		}
	}
}

// knows reports whether there is such a thing to drain, as far as can be said: a
// host that is away for a while is known by its manifest, or by endpoints that are
// said to be on it. While the manifests aren't known yet, everything may be.
func (c *control) knows(t state.DrainTarget) bool {
	if t.Node != "" {
		view := c.fleet.Status().View
		known := t.Node == c.source.nodeName || slices.Contains(view.Absent, t.Node) ||
			slices.ContainsFunc(view.Members, func(m gossip.Member) bool { return m.Name == t.Node })
		if known {
			return true
		}
	}
	judged, f := c.source.judged.Load(), c.source.inForce.Load()
	return judged == nil || declares(judged, t) || f != nil && declares(f.result, t)
}

// declares reports whether manifests name what a drain is of.
func declares(r *manifest.Result, t state.DrainTarget) bool {
	return slices.ContainsFunc(r.Nodes, func(n manifest.Node) bool { return t.Node != "" && n.Name == t.Node }) ||
		slices.ContainsFunc(r.Services, func(s *state.Service) bool { return concerns(t, s) })
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

// drainTarget reads node NAME, endpoint ADDR[:PORT] or service [NS/]NAME.
func drainTarget(kind, name string) (t state.DrainTarget, err error) {
	switch kind {
	case "node":
		if t.Node = strings.ToLower(name); name == "" {
			err = fmt.Errorf("node: a name is missing")
		}
	case "endpoint":
		t.Endpoint, err = parseEndpoint(name)
	case "service":
		if !strings.Contains(name, "/") {
			name = "default/" + name
		}
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
