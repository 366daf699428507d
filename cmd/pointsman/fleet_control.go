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

// nodesAnswer is what this host knows of the fleet.
type nodesAnswer struct {
	Self     string         `json:"self"`
	Alone    bool           `json:"alone,omitempty"`    // without --gossip-bind
	Isolated string         `json:"isolated,omitempty"` // why it judges by itself alone
	Nodes    []nodeAnswer   `json:"nodes"`
	Troubles []troubleShown `json:"troubles"`
}

type nodeAnswer struct {
	Name     string    `json:"name"`
	Address  string    `json:"address,omitempty"`
	State    string    `json:"state"` // alive, suspect, dead, left, absent
	Since    time.Time `json:"since,omitzero"`
	Serves   string    `json:"serves,omitempty"`   // a hash of the manifests
	Commit   string    `json:"commit,omitempty"`   // of them
	Compared string    `json:"compared,omitempty"` // with this host: behind, differs
	Held     bool      `json:"held,omitempty"`     // a change is held there
	Kept     bool      `json:"kept,omitempty"`     // it serves a last state, for want of another one
	Drained  bool      `json:"drained,omitempty"`
	Isolated bool      `json:"isolated,omitempty"`
	Checks   int       `json:"checks"` // that it's asked about
	Release  string    `json:"release,omitempty"`
}

type troubleShown struct {
	Kind   string    `json:"kind"`
	Member string    `json:"member,omitempty"` // its address, if it has no name
	Since  time.Time `json:"since"`
	Count  int       `json:"count"`
	Detail string    `json:"detail,omitempty"`
}

func (c *control) nodes(w http.ResponseWriter, _ *http.Request) {
	s := c.fleet.Status()
	answer := nodesAnswer{Self: c.source.nodeName, Alone: s.Alone, Isolated: s.Isolated, Nodes: []nodeAnswer{}, Troubles: []troubleShown{}}
	for _, m := range s.View.Members {
		answer.Nodes = append(answer.Nodes, c.node(m, s))
	}
	for _, name := range s.Absent() {
		if !slices.ContainsFunc(answer.Nodes, func(n nodeAnswer) bool { return n.Name == name }) {
			answer.Nodes = append(answer.Nodes, nodeAnswer{Name: name, State: "absent"})
		}
	}
	if !slices.ContainsFunc(answer.Nodes, func(n nodeAnswer) bool { return n.Name == answer.Self }) {
		answer.Nodes = append(answer.Nodes, c.node(gossip.Member{Name: answer.Self}, s))
	}
	slices.SortFunc(answer.Nodes, func(a, b nodeAnswer) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range s.View.Troubles {
		answer.Troubles = append(answer.Troubles, troubleShown{Kind: string(t.Kind), Member: subject(t), Since: t.Since, Count: t.Count, Detail: t.Detail})
	}
	reply(w, answer)
}

func (c *control) node(m gossip.Member, s *gossip.Status) nodeAnswer {
	n := nodeAnswer{Name: m.Name, State: m.State.String(), Since: m.Since, Isolated: m.Meta.Isolated,
		Checks: s.Load[m.Name], Release: m.Meta.Release, Drained: c.fleet.Health().NodeDrained(m.Name)}
	if m.Address.IsValid() {
		n.Address = m.Address.String()
	}
	if m.Name == c.source.nodeName { // of itself it knows at once
		n.Isolated, n.Release = s.Isolated != "", versionText()
	}
	n.serve(m.Meta.Commit, m.Name == c.source.nodeName, c.source.inForce.Load())
	return n
}

// serve takes in what a node says that it serves. Own is what this host does.
func (n *nodeAnswer) serve(says string, isOwn bool, own *inForce) {
	if own != nil && isOwn {
		says = own.text()
	}
	s := readServes(says)
	n.Serves, n.Commit, n.Held, n.Kept = s.state(), s.commit, s.held, s.kept
	if own != nil && !isOwn {
		n.Compared = own.compare(s)
	}
}

// drainAnswer is a drain in force.
type drainAnswer struct {
	Target string    `json:"target"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

type drainsAnswer struct {
	Drains []drainAnswer `json:"drains"`
}

func (c *control) drains(w http.ResponseWriter, _ *http.Request) {
	answer := drainsAnswer{Drains: []drainAnswer{}}
	for _, d := range c.fleet.Health().Drains {
		answer.Drains = append(answer.Drains, drainAnswer{d.Target.String(), d.Reason, d.By, d.Since, d.Until})
	}
	slices.SortFunc(answer.Drains, func(a, b drainAnswer) int { return cmp.Compare(a.Target, b.Target) })
	reply(w, answer)
}

// drainRequest asks for a drain, or for its end.
type drainRequest struct {
	Target    string        `json:"target"` // as state.DrainTarget writes it
	For       time.Duration `json:"for"`
	Reason    string        `json:"reason"`
	UntilBoot bool          `json:"untilBoot"` // of this node, until it has booted again
}

// drainReply is what is to be said of a drain that was accepted.
type drainReply struct {
	Note string `json:"note,omitempty"`
}

func (c *control) drain(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(target state.DrainTarget, q *drainRequest) (string, error) {
		until := time.Now().Add(q.For)
		if q.UntilBoot {
			return "", c.fleet.DrainSelf(q.Reason, until)
		}
		return c.unknown(target), c.fleet.Drain(state.Drain{Target: target, Reason: q.Reason, Until: until})
	})
}

func (c *control) undrain(w http.ResponseWriter, r *http.Request) {
	c.change(w, r, func(target state.DrainTarget, _ *drainRequest) (string, error) {
		note := ""
		if c.fleet.Health().Drains[target] == nil {
			note = target.String() + " isn't drained"
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
			e := &s.Ports[i].Endpoints[k]
			all := t.Endpoint.Port() == 0 && e.Address.Addr() == t.Endpoint.Addr()
			if all || e.Address == t.Endpoint || t.Node != "" && e.NodeName == t.Node {
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
		kind, name, _ := strings.Cut(q.Target, " ")
		target, err = drainTarget(kind, name)
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

// drainTarget reads node NAME, endpoint ADDR[:PORT] or service NS/NAME.
func drainTarget(kind, name string) (t state.DrainTarget, err error) {
	switch kind {
	case "node":
		if t.Node = strings.ToLower(name); name == "" {
			err = fmt.Errorf("node: a name is missing")
		}
	case "endpoint":
		if t.Endpoint, err = netip.ParseAddrPort(name); err == nil {
			break
		}
		var addr netip.Addr
		if addr, err = netip.ParseAddr(strings.Trim(name, "[]")); err != nil {
			err = fmt.Errorf("endpoint: %q is neither an address nor ADDRESS:PORT", name)
		}
		t.Endpoint = netip.AddrPortFrom(addr, 0)
	case "service":
		t.Service.Namespace, t.Service.Name, _ = strings.Cut(name, "/")
		if t.Service.Namespace == "" || t.Service.Name == "" {
			err = fmt.Errorf("service: %q is not NAMESPACE/NAME", name)
		}
	default:
		err = fmt.Errorf("%q can't be drained: name a node, an endpoint or a service", kind)
	}
	t.Endpoint = netip.AddrPortFrom(t.Endpoint.Addr().Unmap(), t.Endpoint.Port())
	return t, err
}
