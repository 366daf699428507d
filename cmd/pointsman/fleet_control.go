package main

import (
	"cmp"
	"slices"
	"time"

	"pointsman/gossip"
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

func (c *control) nodes(q wanted) answer {
	s := c.fleet.Status()
	a := nodesAnswer{Self: c.source.nodeName, Alone: s.Alone, Isolated: s.Isolated, Troubles: []troubleShown{}}
	for _, m := range s.View.Members {
		a.Nodes = append(a.Nodes, c.node(m, s))
	}
	for _, name := range s.Absent() {
		if !slices.ContainsFunc(a.Nodes, func(n nodeAnswer) bool { return n.Name == name }) {
			a.Nodes = append(a.Nodes, nodeAnswer{Name: name, State: "absent"})
		}
	}
	if !slices.ContainsFunc(a.Nodes, func(n nodeAnswer) bool { return n.Name == a.Self }) {
		a.Nodes = append(a.Nodes, c.node(gossip.Member{Name: a.Self}, s))
	}
	a.Nodes = slices.DeleteFunc(a.Nodes, func(n nodeAnswer) bool { return q.name != "" && q.name != n.Name })
	slices.SortFunc(a.Nodes, func(a, b nodeAnswer) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range s.View.Troubles {
		a.Troubles = append(a.Troubles, troubleShown{Kind: string(t.Kind), Member: subject(t), Since: t.Since, Count: t.Count, Detail: t.Detail})
	}
	out := answerOf(a)
	out.missing = q.missing(len(a.Nodes) > 0, "node")
	return out
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
