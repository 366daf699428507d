package nft

import (
	"strings"

	"sigs.k8s.io/knftables"
)

// maxElements bounds the elements of one transaction: nft needs 2.4 KB of
// memory for each, and its peak counts against the agent's cgroup.
const maxElements = 50_000

// typeNames are nft's names of the column types, and typeExprs expressions of
// that type, for sets that need typeof.
func (f Family) typeName(field Field) string {
	switch field {
	case Proto:
		return "inet_proto"
	case Service, TCPService, UDPService, SCTPService:
		return "inet_service"
	case Slot:
		return "integer"
	}
	if f == IPv6 {
		return "ipv6_addr"
	}
	return "ipv4_addr"
}

func (f Family) typeExpr(field Field) string {
	switch field {
	case Proto:
		return "meta l4proto"
	case Service:
		return "th dport"
	case TCPService:
		return "tcp dport"
	case UDPService:
		return "udp dport"
	case SCTPService:
		return "sctp dport"
	case Slot:
		return "numgen random mod 2"
	}
	return string(f) + " daddr"
}

func join(fields []Field, name func(Field) string) string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = name(field)
	}
	return strings.Join(names, " . ")
}

// types gives a set's type or its typeof, one of which is empty.
func (s *Set) types(f Family) (typ, typeOf string) {
	name, needsTypeof := f.typeName, false
	for _, field := range s.Key {
		needsTypeof = needsTypeof || field == Slot
	}
	if needsTypeof {
		name = f.typeExpr
	}
	t := join(s.Key, name)
	switch {
	case s.Verdict:
		t += " : verdict"
	case s.IsMap():
		t += " : " + join(s.Value, name)
	}
	if needsTypeof {
		return "", t
	}
	return t, ""
}

func (s *Set) object(f Family) knftables.Object {
	typ, typeOf := s.types(f)
	if s.IsMap() {
		return &knftables.Map{Name: s.Name, Type: typ, TypeOf: typeOf}
	}
	set := &knftables.Set{Name: s.Name, Type: typ, TypeOf: typeOf}
	if s.Interval {
		set.Flags = []knftables.SetFlag{knftables.IntervalFlag}
	}
	if s.Dynamic > 0 {
		set.Flags = []knftables.SetFlag{knftables.DynamicFlag, knftables.TimeoutFlag}
		set.Size = knftables.PtrTo(uint64(s.Dynamic))
	}
	return set
}

// nameOf is what deleting a set needs.
func (s *Set) nameOf() knftables.Object {
	if s.IsMap() {
		return &knftables.Map{Name: s.Name}
	}
	return &knftables.Set{Name: s.Name}
}

func (c *Chain) object() *knftables.Chain {
	chain := &knftables.Chain{Name: c.Name}
	if c.Hook != nil {
		chain.Type = knftables.PtrTo(knftables.BaseChainType(c.Hook.Type))
		chain.Hook = knftables.PtrTo(knftables.BaseChainHook(c.Hook.Hook))
		chain.Priority = knftables.PtrTo(knftables.BaseChainPriority(itoa(c.Hook.Priority)))
		chain.Policy = knftables.PtrTo(knftables.AcceptPolicy)
	}
	return chain
}

// writer appends the parts of a change to a transaction, in the order the
// kernel needs: what refers to a thing goes before the thing goes, and comes
// after it came.
type writer struct {
	tx   *knftables.Transaction
	want *Table
	maps map[string]bool
}

func newWriter(tx *knftables.Transaction, want *Table) *writer {
	w := &writer{tx: tx, want: want, maps: map[string]bool{}}
	for _, s := range want.Sets {
		w.maps[s.Name] = s.IsMap()
	}
	return w
}

func (w *writer) table() {
	w.tx.Add(&knftables.Table{Comment: knftables.PtrTo("written by pointsman; changes made by others are undone")})
}

// whole writes a change as one part.
func (w *writer) whole(c *change) {
	w.part(c, part{groups: c.groups, first: true, last: true})
}

// part writes a part of a change: the program comes with the first, and what
// nothing refers to any more goes with the last.
func (w *writer) part(c *change, p part) {
	if p.first {
		w.begin(c)
	}
	for _, g := range p.groups {
		w.elements(w.tx.Delete, g.remove, false)
	}
	if p.first {
		for _, s := range c.dropSets {
			w.tx.Delete(s.nameOf())
		}
		w.dropChains(c.moved)
	}
	if p.last {
		w.dropChains(c.dropChains)
	}
	if p.first {
		w.program(c)
	}
	for _, g := range p.groups {
		w.elements(w.tx.Add, g.add, true)
	}
}

// begin makes way: rules that others are to be written in place of refer to
// what may have to go.
func (w *writer) begin(c *change) {
	if c.create {
		w.table()
	}
	for _, name := range c.flush {
		w.tx.Flush(&knftables.Chain{Name: name})
	}
	for _, name := range c.dropTables {
		w.tx.Delete(&knftables.Flowtable{Name: name})
	}
}

func (w *writer) dropChains(names []string) {
	for _, name := range names {
		w.tx.Flush(&knftables.Chain{Name: name}) // one may refer to another
	}
	for _, name := range names {
		w.tx.Delete(&knftables.Chain{Name: name})
	}
}

func (w *writer) program(c *change) {
	for _, s := range c.addSets {
		w.tx.Add(s.object(w.want.Family))
	}
	for _, chain := range c.addChains {
		w.tx.Add(chain.object())
	}
	w.rules(c.fill)
}

func (w *writer) rules(chains []Chain) {
	for _, chain := range chains {
		w.tx.Flush(&knftables.Chain{Name: chain.Name})
		for i, rule := range chain.Rules {
			r := &knftables.Rule{Chain: chain.Name, Rule: rule}
			if i == 0 && chain.Name == w.want.Schema.Marked {
				r.Comment = knftables.PtrTo(w.want.Program)
			}
			w.tx.Add(r)
		}
	}
}

func (w *writer) elements(do func(knftables.Object), elements []Element, values bool) {
	for _, e := range elements {
		do(w.element(e, values))
	}
}

func (w *writer) element(e Element, values bool) *knftables.Element {
	el := &knftables.Element{Key: strings.Split(e.Key, " . ")}
	if !w.maps[e.Set] {
		el.Set = e.Set
		return el
	}
	el.Map = e.Set
	if values {
		el.Value = strings.Split(e.Value, " . ")
	}
	return el
}

// purge removes clients; adding first tolerates one that has expired since it
// was listed.
func (w *writer) purge(clients []Element) {
	for _, e := range clients {
		w.tx.Add(w.element(e, false))
		w.tx.Delete(w.element(e, false))
	}
}
