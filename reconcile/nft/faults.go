package nft

import (
	"fmt"
	"maps"
	"slices"
)

// faults says what of a table isn't as it should be, apart from its elements.
// What is made on demand may be missing.
func (h *held) faults(want *Table) []string {
	switch {
	case !h.exists:
		return []string{fmt.Sprintf("there is no table %s %s", want.Family, TableName)}
	case h.dormant:
		return []string{fmt.Sprintf("table %s %s is dormant: no packet meets it", want.Family, TableName)}
	}
	var out []string
	if h.program != want.Program {
		out = append(out, fmt.Sprintf("chain %s is marked as of %q, and should be of %q", want.Schema.Marked, h.program, want.Program))
	}
	for i := range want.Chains {
		if f := h.chainFault(&want.Chains[i], want.Schema); f != "" {
			out = append(out, f)
		}
	}
	for i := range want.Sets {
		name := want.Sets[i].Name
		switch s, ok := h.sets[name]; {
		case !ok:
			out = append(out, "set "+name+" is missing")
		case !s.asDefined:
			out = append(out, "set "+name+" is of another type")
		}
	}
	return append(out, h.strangers(want)...)
}

func (h *held) chainFault(want *Chain, schema *Schema) string {
	have, ok := h.chains[want.Name]
	switch {
	case !ok && have.mayStay(want.Name, schema):
		return ""
	case !ok:
		return "chain " + want.Name + " is missing"
	case !have.hook.equal(want.Hook):
		return "chain " + want.Name + " hangs elsewhere"
	case !have.accept:
		return "chain " + want.Name + " drops what no rule accepts"
	case have.rules != len(want.Rules):
		return fmt.Sprintf("chain %s has %d rules, and should have %d", want.Name, have.rules, len(want.Rules))
	}
	return ""
}

// strangers names what isn't ours.
func (h *held) strangers(want *Table) (out []string) {
	wanted := want.names()
	for _, name := range slices.Sorted(maps.Keys(h.chains)) {
		if !wanted[name] && !h.chains[name].mayStay(name, want.Schema) {
			out = append(out, "chain "+name+" is somebody else's")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.sets)) {
		if !wanted[name] && !want.Schema.onDemand(name) {
			out = append(out, "set "+name+" is somebody else's")
		}
	}
	for _, name := range h.flowtables {
		out = append(out, "flowtable "+name+" is somebody else's")
	}
	return out
}
