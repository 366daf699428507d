package nft

import (
	"cmp"
	"maps"
	"slices"
)

// held is what the kernel holds of a table, as far as we know.
type held struct {
	exists     bool
	dormant    bool
	program    string
	sets       map[string]heldSet
	chains     map[string]heldChain
	flowtables []string
	groups     map[string]*Group
	version    *Version // of the Table that was written; nil after a read-back
}

// heldSet is a set in the kernel. Elements of one that isn't as defined are
// not in any group.
type heldSet struct {
	isMap     bool
	asDefined bool // its type and flags are those of the schema
}

// heldChain is a chain in the kernel. Rules can't be compared with those that are
// wanted (the kernel gives them back as bytecode), only counted, and compared with
// what they were: see Print.
type heldChain struct {
	hook   *Hook
	accept bool // a base chain's policy
	rules  int
	print  Print
	idle   bool // no element referred to it before the last transaction
}

// change is what makes a held table equal to a wanted one.
type change struct {
	create     bool // add the table
	wake       bool // the table is dormant
	tidy       bool // dropping what is idle is what it's for
	rewrite    bool // flush the chains that are there and write all rules anew
	flush      []string
	moved      []string // base chains that are added anew
	dropChains []string
	dropSets   []Set    // Name and whether it's a map
	dropTables []string // flowtables
	addSets    []Set
	addChains  []Chain
	fill       []Chain       // chains that get their rules
	groups     []groupChange // in the order of writing
}

// groupChange is what changes in one group. It's never spread over several
// transactions.
type groupChange struct{ remove, add []Element }

func (g groupChange) size() int { return len(g.remove) + len(g.add) }

// part is as much of a change as goes into one transaction.
type part struct {
	groups      []groupChange
	size        int
	first, last bool
}

// parts cuts a change where a transaction would grow larger than max: nearly
// all changes are one part.
func (c *change) parts(max int) []part {
	parts := []part{{first: true}}
	start := 0
	for i, g := range c.groups {
		p := &parts[len(parts)-1]
		if p.size > 0 && p.size+g.size() > max {
			start = i
			parts = append(parts, part{})
			p = &parts[len(parts)-1]
		}
		p.groups, p.size = c.groups[start:i+1], p.size+g.size()
	}
	parts[len(parts)-1].last = true
	return parts
}

// elements is the number of them in parts.
func elements(parts []part) int {
	n := 0
	for _, p := range parts {
		n += p.size
	}
	return n
}

// empty reports whether there is nothing to send. Dropping idle chains alone
// is no reason for a transaction, unless it's time to tidy up.
func (c *change) empty() bool {
	return !c.create && !c.rewrite && !c.tidy && len(c.addSets)+len(c.addChains)+len(c.fill)+len(c.groups) == 0
}

// diff finds the changes from what is held to what is wanted. With rewrite
// the chains are written anew even if they seem to be right.
func diff(have *held, want *Table, rewrite bool) *change {
	c := &change{create: !have.exists, wake: have.dormant}
	c.rewrite = have.exists && (rewrite || have.program != want.Program || foreign(have, want) || damaged(have, want))
	c.diffSets(have, want)
	c.diffChains(have, want)
	c.diffGroups(have, want)
	return c
}

// tidy finds what was made on demand and nothing refers to any more, when the
// kernel holds just the elements that are wanted. Without it a host would keep
// the chains and sets of its former configuration (C38).
func tidy(have *held, want *Table) *change {
	c := &change{}
	wanted := want.names()
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		if !wanted[name] {
			c.flush, c.dropChains = append(c.flush, name), append(c.dropChains, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.sets)) {
		if !wanted[name] {
			c.dropSets = append(c.dropSets, dropped(name, have.sets[name]))
		}
	}
	c.tidy = len(c.dropChains)+len(c.dropSets) > 0
	return c
}

// foreign reports whether the table holds what is not ours.
func foreign(have *held, want *Table) bool {
	wanted := want.names()
	for name, h := range have.chains {
		if !wanted[name] && !h.mayStay(name, want.Schema) {
			return true
		}
	}
	for name := range have.sets {
		if !wanted[name] && !want.Schema.onDemand(name) {
			return true
		}
	}
	return len(have.flowtables) > 0
}

// mayStay reports whether a chain that isn't wanted may be one of ours that
// was. Those have no hook.
func (h heldChain) mayStay(name string, schema *Schema) bool {
	return schema.onDemand(name) && h.hook == nil
}

// names gives the names of all sets and chains.
func (t *Table) names() map[string]bool {
	names := make(map[string]bool, len(t.Sets)+len(t.Chains))
	for _, s := range t.Sets {
		names[s.Name] = true
	}
	for _, c := range t.Chains {
		names[c.Name] = true
	}
	return names
}

// damaged reports whether the table, or a chain or set of ours, isn't as it
// was written. What is made on demand may be missing.
func damaged(have *held, want *Table) bool {
	if have.dormant {
		return true
	}
	for _, w := range want.Chains {
		h, ok := have.chains[w.Name]
		spare := h.rules == 0 && h.mayStay(w.Name, want.Schema) // absent, or emptied by the last rewrite
		if !spare && !(ok && h.hook.equal(w.Hook) && h.accept && h.rules == len(w.Rules)) {
			return true
		}
	}
	for _, w := range want.Sets {
		if h, ok := have.sets[w.Name]; ok && !h.asDefined {
			return true
		}
	}
	return false
}

func (h *Hook) equal(o *Hook) bool {
	return h == nil && o == nil || h != nil && o != nil && *h == *o
}

// diffSets adds the sets that are missing, and when the program is rewritten,
// so that no rule refers to them, drops those that are foreign or not as
// defined.
func (c *change) diffSets(have *held, want *Table) {
	wanted := map[string]bool{}
	for _, w := range want.Sets {
		wanted[w.Name] = true
		h, ok := have.sets[w.Name]
		if ok && h.asDefined {
			continue
		}
		if ok {
			c.dropSets = append(c.dropSets, dropped(w.Name, h))
		}
		c.addSets = append(c.addSets, w)
	}
	if !c.rewrite {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(have.sets)) {
		if h := have.sets[name]; !wanted[name] && !(want.Schema.onDemand(name) && h.asDefined) {
			c.dropSets = append(c.dropSets, dropped(name, h))
		}
	}
}

func dropped(name string, h heldSet) Set { return Set{Name: name, Verdict: h.isMap} }

// diffChains adds the chains that are missing, fills all of them when the
// program is rewritten, and drops what is idle or foreign. A base chain whose
// hook is wrong can't be changed: it's dropped and added.
func (c *change) diffChains(have *held, want *Table) {
	wanted := map[string]bool{}
	for _, w := range want.Chains {
		wanted[w.Name] = true
		h, ok := have.chains[w.Name]
		moved := ok && !h.hook.equal(w.Hook)
		if moved {
			c.moved = append(c.moved, w.Name)
		}
		if !ok || moved || !h.accept {
			c.addChains = append(c.addChains, w)
		}
		if c.rewrite || h.rules != len(w.Rules) {
			c.fill = append(c.fill, w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		if c.rewrite {
			c.flush = append(c.flush, name)
		}
		if h := have.chains[name]; !wanted[name] && (h.idle || !h.mayStay(name, want.Schema)) {
			c.dropChains = append(c.dropChains, name)
		}
	}
	if c.rewrite {
		c.dropTables = have.flowtables
	}
}

// diffGroups finds the groups that go, and those that come or change. What
// goes is written first: it may be in the way.
func (c *change) diffGroups(have *held, want *Table) {
	going, others := have.differences(want)
	slices.Sort(going)
	for _, id := range going {
		c.groups = append(c.groups, groupChange{remove: *have.groups[id]})
	}
	for _, id := range inOrder(others, want) {
		var h Group
		if have.groups[id] != nil {
			h = *have.groups[id]
		}
		c.groups = append(c.groups, between(h, *want.Groups[id]))
	}
}

// differences names the groups that are held and not wanted, and those that
// are wanted and not held as they are.
func (h *held) differences(want *Table) (going, others []string) {
	differs := func(id string, w *Group) bool {
		g := h.groups[id]
		return g == nil || g != w && !slices.Equal(*g, *w)
	}
	if h.isSince(want) {
		for _, id := range want.Changed {
			if w := want.Groups[id]; w != nil && differs(id, w) {
				others = append(others, id)
			}
		}
		return h.going(want), others
	}
	for id, w := range want.Groups {
		if differs(id, w) {
			others = append(others, id)
		}
	}
	return h.going(want), others
}

// going names the groups that are held and not wanted.
func (h *held) going(want *Table) []string {
	var going []string
	look := func(id string) {
		if h.groups[id] != nil && want.Groups[id] == nil {
			going = append(going, id)
		}
	}
	if h.isSince(want) {
		for _, id := range want.Changed {
			look(id)
		}
		return going
	}
	for id := range h.groups {
		look(id)
	}
	return going
}

func (h *held) isSince(want *Table) bool { return want.Since != nil && want.Since == h.version }

// between compares two groups element by element.
func between(have, want Group) (c groupChange) {
	for len(have) > 0 && len(want) > 0 {
		switch order := have[0].compare(want[0]); {
		case order < 0:
			c.remove, have = append(c.remove, have[0]), have[1:]
		case order > 0:
			c.add, want = append(c.add, want[0]), want[1:]
		default:
			if have[0].Value != want[0].Value {
				c.remove, c.add = append(c.remove, have[0]), append(c.add, want[0])
			}
			have, want = have[1:], want[1:]
		}
	}
	c.remove = append(c.remove, have...)
	c.add = append(c.add, want...)
	return c
}

// inOrder sorts groups so that wherever a load is cut, what has been loaded
// works: first the sets that go first, then everything by key, so that an
// address and all frontends on it are neighbours.
func inOrder(ids []string, want *Table) []string {
	sets := map[string]*Set{}
	for i := range want.Sets {
		sets[want.Sets[i].Name] = &want.Sets[i]
	}
	type item struct {
		late int
		key  string
		id   string
	}
	items := make([]item, 0, len(ids))
	for _, id := range ids {
		it := item{late: 1, key: id, id: id}
		if e := (*want.Groups[id])[0]; sets[e.Set].Group == 0 {
			it.key = e.Key
			if sets[e.Set].First {
				it.late = 0
			}
		}
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.late, b.late), cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	})
	for i, it := range items {
		ids[i] = it.id
	}
	return ids
}
