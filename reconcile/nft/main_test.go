package nft

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pointsman/reconcile/lab"
)

func TestMain(m *testing.M) { lab.Isolated(m) }

var frontend = []Field{Addr, Proto, Service}

// testSchema has one set of each kind.
var testSchema = &Schema{
	Marked:   "entry",
	OnDemand: []string{"pick-", "affinity-"},
	Clients:  Set{Key: []Field{Addr, Addr, Proto, Service}, Dynamic: 1 << 20},
	Sets: []Set{
		{Name: "vips", Key: []Field{Addr}},
		{Name: "ranges", Key: []Field{Addr}, Interval: true, First: true},
		{Name: "services", Key: frontend, Verdict: true, Group: 3},
		{Name: "endpoints", Key: append(slices.Clone(frontend), Slot), Value: []Field{Addr, TCPService}, Group: 3},
		{Name: "guards", Key: append(slices.Clone(frontend), Addr), Interval: true, Group: 3},
	},
}

// entryRules are the rules of the marked chain, which use every set.
var entryRules = []string{
	"ip saddr @ranges ip daddr @vips drop",
	"ip daddr . meta l4proto . th dport . ip saddr @guards drop",
	"ip daddr . meta l4proto . th dport vmap @services",
}

var entryHook = &Hook{Type: "nat", Hook: "prerouting", Priority: -100}

// service gives the elements of a service on 10.0.0.n with some endpoints, as
// a group.
func service(n, endpoints int) *Group {
	key := fmt.Sprintf("10.0.0.%d . tcp . 80", n)
	elements := []Element{{"services", key, fmt.Sprintf("goto pick-%d", endpoints)}}
	for slot := range endpoints {
		elements = append(elements, Element{"endpoints", fmt.Sprintf("%s . %d", key, slot), fmt.Sprintf("10.1.0.%d . 8080", slot+1)})
	}
	return NewGroup(elements)
}

// single gives a group of one element.
func single(set, key string) *Group { return NewGroup([]Element{{Set: set, Key: key}}) }

// tableOf gives a table with some groups, and the chains they need.
func tableOf(groups ...*Group) *Table {
	t := &Table{Family: IPv4, Schema: testSchema, Program: "program 1", Sets: slices.Clone(testSchema.Sets),
		Chains: []Chain{{Name: "entry", Hook: entryHook, Rules: entryRules}}, Groups: map[string]*Group{}}
	for _, g := range groups {
		t.Groups[t.groupID(g)] = g
		for _, e := range *g {
			t.need(e)
		}
	}
	slices.SortFunc(t.Chains, func(a, b Chain) int { return strings.Compare(a.Name, b.Name) })
	return t
}

func (t *Table) groupID(g *Group) string {
	e := (*g)[0]
	i := slices.IndexFunc(t.Sets, func(s Set) bool { return s.Name == e.Set })
	return t.Sets[i].GroupID(e.Key)
}

// need adds the chain that an element goes to.
func (t *Table) need(e Element) {
	name, isGoto := strings.CutPrefix(e.Value, "goto ")
	if !isGoto || slices.ContainsFunc(t.Chains, func(c Chain) bool { return c.Name == name }) {
		return
	}
	t.Chains = append(t.Chains, Chain{Name: name, Rules: []string{
		"meta l4proto tcp dnat ip to ip daddr . meta l4proto . th dport . numgen random mod " +
			strings.TrimPrefix(name, "pick-") + " map @endpoints",
	}})
}

// heldFrom gives what the kernel holds once it has taken a table.
func heldFrom(t *Table) *held {
	nothing := &held{}
	return nothing.after(diff(nothing, t, false), t)
}

// summary gives a change as lines, in the order in which it's written.
func (c *change) summary() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if c.create {
		add("create")
	}
	if c.rewrite {
		add("rewrite")
	}
	for _, t := range c.dropTables {
		add("- flowtable %s", t)
	}
	for _, g := range c.groups {
		for _, e := range g.remove {
			add("- %s { %s }", e.Set, e.Key)
		}
	}
	for _, s := range c.dropSets {
		add("- set %s", s.Name)
	}
	for _, name := range slices.Concat(c.moved, c.dropChains) {
		add("- chain %s", name)
	}
	for _, s := range c.addSets {
		add("+ set %s", s.Name)
	}
	for _, chain := range c.addChains {
		add("+ chain %s", chain.Name)
	}
	for _, chain := range c.fill {
		add("fill %s", chain.Name)
	}
	for _, g := range c.groups {
		for _, e := range g.add {
			add("+ %s { %s }", e.Set, strings.TrimSuffix(e.Key+" : "+e.Value, " : "))
		}
	}
	return lines
}
