package nft

import (
	"slices"
	"strings"
	"testing"
)

// diffCase is a state of the kernel, what is wanted, and the change between.
type diffCase struct {
	name   string
	have   *Table
	damage func(*held)
	want   *Table
	doubt  bool
	change []string
}

// everything is what a rewrite of the program of two() contains.
func everything(more ...string) []string {
	return slices.Concat([]string{"rewrite"}, more, []string{"fill entry", "fill pick-2"})
}

func two() *Table { return tableOf(service(1, 2), single("ranges", "10.9.0.0/16")) }

func elementCases() []diffCase {
	return []diffCase{
		{name: "nothing", have: two(), want: two()},
		{name: "an endpoint comes", have: two(), want: tableOf(service(1, 3), single("ranges", "10.9.0.0/16")), change: []string{
			"- services { 10.0.0.1 . tcp . 80 }", // a new verdict is delete and add: the kernel refuses a second value
			"+ chain pick-3", "fill pick-3",
			"+ endpoints { 10.0.0.1 . tcp . 80 . 2 : 10.1.0.3 . 8080 }",
			"+ services { 10.0.0.1 . tcp . 80 : goto pick-3 }",
		}},
		{name: "an endpoint goes", have: two(), want: tableOf(service(1, 1), single("ranges", "10.9.0.0/16")), change: []string{
			"- endpoints { 10.0.0.1 . tcp . 80 . 1 }",
			"- services { 10.0.0.1 . tcp . 80 }",
			"+ chain pick-1", "fill pick-1",
			"+ services { 10.0.0.1 . tcp . 80 : goto pick-1 }",
		}},
		{name: "groups come and go", have: two(), want: tableOf(service(2, 2), service(3, 2), single("vips", "10.0.0.3")), change: []string{
			"- endpoints { 10.0.0.1 . tcp . 80 . 0 }", "- endpoints { 10.0.0.1 . tcp . 80 . 1 }", "- services { 10.0.0.1 . tcp . 80 }",
			"- ranges { 10.9.0.0/16 }",
			"+ endpoints { 10.0.0.2 . tcp . 80 . 0 : 10.1.0.1 . 8080 }", "+ endpoints { 10.0.0.2 . tcp . 80 . 1 : 10.1.0.2 . 8080 }",
			"+ services { 10.0.0.2 . tcp . 80 : goto pick-2 }",
			"+ vips { 10.0.0.3 }",
			"+ endpoints { 10.0.0.3 . tcp . 80 . 0 : 10.1.0.1 . 8080 }", "+ endpoints { 10.0.0.3 . tcp . 80 . 1 : 10.1.0.2 . 8080 }",
			"+ services { 10.0.0.3 . tcp . 80 : goto pick-2 }",
		}},
		{name: "an element is missing", have: two(), want: two(),
			damage: func(h *held) {
				rest := (*h.groups["10.0.0.1 . tcp . 80"])[1:]
				h.groups["10.0.0.1 . tcp . 80"] = &rest
			},
			change: []string{"+ endpoints { 10.0.0.1 . tcp . 80 . 0 : 10.1.0.1 . 8080 }"}},
	}
}

func chainCases() []diffCase {
	chain := func(name string, edit func(*heldChain)) func(*held) {
		return func(h *held) { c := h.chains[name]; edit(&c); h.chains[name] = c }
	}
	return []diffCase{
		{name: "doubt", have: two(), want: two(), doubt: true, change: everything()},
		{name: "no table", have: two(), want: tableOf(), damage: func(h *held) { *h = held{} }, change: []string{
			"create", "+ set vips", "+ set ranges", "+ set services", "+ set endpoints", "+ set guards", "+ chain entry", "fill entry",
		}},
		{name: "another program", have: two(), want: two(), damage: func(h *held) { h.program = "program 0" }, change: everything()},
		{name: "dormant", have: two(), want: two(), damage: func(h *held) { h.dormant = true }, change: everything()},
		{name: "chain missing", have: two(), want: two(), damage: func(h *held) { delete(h.chains, "entry") },
			change: everything("+ chain entry")},
		{name: "chain emptied", have: two(), want: two(), damage: chain("entry", func(c *heldChain) { c.rules = 0 }), change: everything()},
		{name: "another hook", have: two(), want: two(),
			damage: chain("entry", func(c *heldChain) { c.hook = &Hook{Type: "nat", Hook: "output", Priority: -100} }),
			change: everything("- chain entry", "+ chain entry")},
		{name: "another policy", have: two(), want: two(), damage: chain("entry", func(c *heldChain) { c.accept = false }),
			change: everything("+ chain entry")},
		{name: "an on-demand chain emptied", have: two(), want: two(), damage: chain("pick-2", func(c *heldChain) { c.rules = 0 }),
			change: []string{"fill pick-2"}},
		{name: "an on-demand chain with a rule more", have: two(), want: two(), damage: chain("pick-2", func(c *heldChain) { c.rules = 2 }),
			change: everything()},
		{name: "an on-demand chain with a hook", have: two(), want: two(), damage: chain("pick-9", func(c *heldChain) { c.hook = entryHook }),
			change: everything("- chain pick-9")},
		{name: "a wanted on-demand chain with a hook", have: two(), want: two(),
			damage: chain("pick-2", func(c *heldChain) { c.hook, c.rules = entryHook, 0 }),
			change: everything("- chain pick-2", "+ chain pick-2")},
		{name: "a foreign chain", have: two(), want: two(), damage: chain("evil", func(c *heldChain) {}),
			change: everything("- chain evil")},
		{name: "an idle chain stays", have: two(), want: two(), damage: chain("pick-7", func(c *heldChain) { c.idle = true })},
		{name: "an idle chain goes along", have: two(), want: tableOf(service(1, 2)), damage: chain("pick-7", func(c *heldChain) { c.idle = true }),
			change: []string{"- ranges { 10.9.0.0/16 }", "- chain pick-7"}},
		{name: "a chain that is no longer needed stays once more", have: two(), want: tableOf(service(1, 1), single("ranges", "10.9.0.0/16")),
			change: []string{
				"- endpoints { 10.0.0.1 . tcp . 80 . 1 }", "- services { 10.0.0.1 . tcp . 80 }",
				"+ chain pick-1", "fill pick-1", "+ services { 10.0.0.1 . tcp . 80 : goto pick-1 }",
			}},
	}
}

func setCases() []diffCase {
	set := func(name string, s heldSet) func(*held) { return func(h *held) { h.sets[name] = s } }
	affinity := tableOf()
	affinity.Sets = append(affinity.Sets, Set{Name: "affinity-0", Key: testSchema.Clients.Key, Dynamic: testSchema.Clients.Dynamic})
	return []diffCase{
		{name: "an on-demand set", have: tableOf(), want: affinity, change: []string{"+ set affinity-0"}},
		{name: "an on-demand set that isn't needed stays", have: affinity, want: tableOf()},
		{name: "also when the program is rewritten", have: affinity, want: tableOf(), doubt: true,
			change: []string{"rewrite", "fill entry"}},
		{name: "unless it's defined otherwise", have: tableOf(), want: tableOf(), doubt: true, damage: set("affinity-0", heldSet{}),
			change: []string{"rewrite", "- set affinity-0", "fill entry"}},
		{name: "an on-demand set with another definition", have: affinity, want: affinity, damage: set("affinity-0", heldSet{}),
			change: []string{"rewrite", "- set affinity-0", "+ set affinity-0", "fill entry"}},
		{name: "another definition", have: two(), want: two(),
			damage: func(h *held) {
				h.sets["ranges"] = heldSet{isMap: true}
				delete(h.groups, "ranges 10.9.0.0/16")
			},
			change: append(everything("- set ranges", "+ set ranges"), "+ ranges { 10.9.0.0/16 }")},
		{name: "a foreign set", have: two(), want: two(), damage: set("evil", heldSet{}), change: everything("- set evil")},
		{name: "a foreign flowtable", have: two(), want: two(), damage: func(h *held) { h.flowtables = []string{"evil"} },
			change: everything("- flowtable evil")},
	}
}

func TestDiff(t *testing.T) {
	cases := slices.Concat(elementCases(), chainCases(), setCases())
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			have := heldFrom(c.have)
			if c.damage != nil {
				c.damage(have)
			}
			got := diff(have, c.want, c.doubt)
			if got.empty() != (len(c.change) == 0) {
				t.Errorf("empty is %v", got.empty())
			}
			if lines := got.summary(); !got.empty() && !slices.Equal(lines, c.change) {
				t.Errorf("change:\ngot  %s\nwant %s", strings.Join(lines, "\n     "), strings.Join(c.change, "\n     "))
			}
		})
	}
}

// TestDiffIsDone: once a change is made, nothing is left to do, and chains
// that aren't needed go with the next one.
func TestDiffIsDone(t *testing.T) {
	have := heldFrom(two())
	want := tableOf(service(1, 1))
	have = have.after(diff(have, want, false), want)
	if c := diff(have, want, false); !c.empty() {
		t.Errorf("left to do: %q", c.summary())
	}
	if h := have.chains["pick-2"]; !h.idle {
		t.Errorf("pick-2 isn't idle: %+v", h)
	}
	next := tableOf(service(1, 1), single("vips", "10.0.0.1"))
	c := diff(have, next, false)
	if !slices.Equal(c.dropChains, []string{"pick-2"}) {
		t.Errorf("drops %q", c.dropChains)
	}
	if have = have.after(c, next); len(have.chains) != 2 {
		t.Errorf("holds %v", have.chains)
	}
}

// TestLoadOrder: wherever a load is cut, what has been loaded works.
func TestLoadOrder(t *testing.T) {
	want := tableOf(service(2, 1), single("vips", "10.0.0.2"), service(10, 1), single("ranges", "10.9.0.0/16"),
		single("vips", "10.0.0.10"), single("ranges", "10.8.0.0/16"))
	var got []string
	for _, g := range diff(&held{}, want, false).groups {
		got = append(got, g.add[0].Set+" "+g.add[0].Key)
	}
	wantOrder := []string{
		"ranges 10.8.0.0/16", "ranges 10.9.0.0/16",
		"vips 10.0.0.10", "endpoints 10.0.0.10 . tcp . 80 . 0",
		"vips 10.0.0.2", "endpoints 10.0.0.2 . tcp . 80 . 0",
	}
	if !slices.Equal(got, wantOrder) {
		t.Errorf("got  %q\nwant %q", got, wantOrder)
	}
}
