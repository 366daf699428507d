package conformance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pointsman/reconcile/conformance/reading"
)

// judgeCount notes a host that translated a connection and didn't count it
// once, for its frontend and its endpoint, or counted one that it didn't
// translate.
func (t *tracer) judgeCount(h *reading.Host, p *packet, fate string) {
	want := map[string]int{}
	if p.dnat && fate == next {
		want[fmt.Sprintf("%s . %s . %d . %s . %d", p.orig, p.proto, p.origPort, p.dst, p.port)] = 1
	}
	if !maps.Equal(t.counted, want) {
		t.miscounts = append(t.miscounts, fmt.Sprintf("%s counted %v, and should %v", h.Name, t.counted, want))
	}
}

// miscounts tells what is counted wrongly of a connection, whatever becomes of
// it.
func miscounts(w *reading.World, tables map[string]*ruleset, conn reading.Connection) (all []string) {
	t := &tracer{w: w, tables: tables}
	for more := true; more; more = t.dice.again() {
		t.run(conn)
		all = append(all, t.miscounts...)
	}
	return all
}

// counting are the mutants that no connection feels.
var counting = []mutant{
	{chain: "nat-input", rule: "1"}, {chain: "nat-postrouting", rule: "1"},
	{chain: "count", rule: "0"}, {chain: "count", rule: "1"}, {chain: "count", rule: "2"},
	{chain: "counted", rule: "0"},
}

// TestCountingMutations: whatever rule is taken out that counts connections,
// the tracer finds one that is counted wrongly, in both families.
func TestCountingMutations(t *testing.T) {
	all, rules := loadAll(), compiler{}
	for _, m := range counting {
		for _, f := range families {
			if !slices.ContainsFunc(all, func(l loaded) bool { return l.miscounts(t, rules, f, m) }) {
				t.Errorf("%s: every connection of %s is counted all the same", m, f.Family)
			}
		}
	}
}

// miscounts tells whether a mutant counts one of a scenario's connections
// wrongly.
func (l *loaded) miscounts(t *testing.T, rules compiler, f family, m mutant) bool {
	mutated, _ := m.all(l.tables[f.Family])
	rulesets, err := rules.rulesets(mutated)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(l.checks, func(c check) bool {
		return c.Family == f.Family && len(miscounts(f.World, rulesets, c.Connection)) > 0
	})
}
