package main

import (
	"pointsman/state/change"
	"pointsman/state/manifest"
)

// planAnswer is what a change of the manifests would change on a node.
type planAnswer struct {
	Node      string          `json:"node"`
	From      pastState       `json:"from"`
	To        pastState       `json:"to"`
	Changes   bool            `json:"changes"` // of what this node serves
	Services  []serviceChange `json:"services"`
	Endpoints countAnswer     `json:"endpoints"`
	Elements  countAnswer     `json:"elements"` // of nftables
	jsonProblems
	Stale    []string    `json:"stale"` // objects that would stay as they are for their documents' errors
	Held     *heldAnswer `json:"held,omitempty"`
	Approved bool        `json:"approved,omitempty"` // it would be held but for approve.yaml
}

type countAnswer struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

// serviceChange is what becomes of one Service.
type serviceChange struct {
	Name             string        `json:"name"`
	Change           string        `json:"change"`              // added, removed, changed
	Addresses        []string      `json:"addresses,omitempty"` // of one that is added or removed
	Fields           []fieldChange `json:"fields,omitempty"`
	EndpointsAdded   []string      `json:"endpointsAdded,omitempty"`
	EndpointsRemoved []string      `json:"endpointsRemoved,omitempty"`
}

type fieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// compare tells what differs on the node.
func (b *basis) compare(after *manifest.Result, commit string) *planAnswer {
	p := &planAnswer{Node: b.node, From: b.state, To: pastState{manifest.HashText(after.Hash()), commit},
		Services: []serviceChange{}, jsonProblems: problemList(after.Problems), Stale: []string{}}
	for _, k := range after.Stale {
		p.Stale = append(p.Stale, k.String())
	}
	d := change.Compare(servedBy(b.served.Services, b.node), servedBy(after.Services, b.node))
	for _, s := range d.Removed {
		p.note(serviceChange{Name: s.ObjectName.String(), Change: "removed", Addresses: change.Frontends(s)}, change.Pair{Before: s})
	}
	for _, s := range d.Added {
		p.note(serviceChange{Name: s.ObjectName.String(), Change: "added", Addresses: change.Frontends(s)}, change.Pair{After: s})
	}
	for _, pair := range d.Changed {
		s := serviceChange{Name: pair.After.ObjectName.String(), Change: "changed"}
		for _, f := range pair.Fields() {
			s.Fields = append(s.Fields, fieldChange{f.Name, f.Before, f.After})
		}
		p.note(s, pair)
	}
	return p
}

// note takes in what becomes of a Service, with its endpoints.
func (p *planAnswer) note(s serviceChange, pair change.Pair) {
	added, removed := pair.Endpoints()
	s.EndpointsAdded, s.EndpointsRemoved = endpointTexts(added), endpointTexts(removed)
	p.Services = append(p.Services, s)
	p.Endpoints.Added += len(added)
	p.Endpoints.Removed += len(removed)
}

// judge tells whether the change would be held.
func (b *basis) judge(p *planAnswer, after *manifest.Result, limits change.Limits) {
	l := newLedger(b.node, limits, b.past)
	if len(b.served.Services) > 0 {
		l.served, l.state = b.served, b.state
	}
	v, through := l.judge(after, p.To)
	p.Approved = through && v.Held()
	if !through {
		p.Held = heldOf(&heldChange{from: p.From, to: p.To, verdict: v})
	}
}

func endpointTexts(endpoints []change.Endpoint) []string {
	var out []string
	for _, e := range endpoints {
		out = append(out, e.Address.String())
	}
	return out
}
