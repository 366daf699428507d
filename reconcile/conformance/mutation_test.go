package conformance

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pointsman/reconcile/conformance/reading"
	"pointsman/reconcile/lab"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// mutant is the program without one rule, or without the elements of one set.
// Chains and sets that are made on demand are alike but for a number and a
// protocol: they lack the rule together, and each protocol must notice.
type mutant struct {
	chain, rule string // the rule's number, or "goto"
	set         string
}

func (m mutant) String() string {
	if m.set != "" {
		return "without the elements of " + m.set
	}
	return "chain " + m.chain + " without rule " + m.rule
}

// equivalent are the mutants that no connection can tell from the program, and
// why they need not be noticed.
var equivalent = map[mutant]string{
	{chain: "pick-PROTO-N", rule: "1"}:       "it catches the packet that meets the map in the middle of a change",
	{chain: "pick-PROTO-local-N", rule: "1"}: "as above",
}

// kind gives a chain or set on demand, or one a protocol, its family name.
func kind(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words {
		switch {
		case w == "tcp" || w == "udp" || w == "sctp":
			words[i] = "PROTO"
		case w[0] >= '0' && w[0] <= '9':
			words[i] = "N"
		}
	}
	return strings.Join(words, "-")
}

func ruleName(i int, rule string) string {
	if strings.HasPrefix(rule, "goto ") {
		return "goto"
	}
	return strconv.Itoa(i)
}

// mutants are those of all rules and elements that the scenarios use.
func mutants() []mutant {
	all := map[mutant]bool{}
	for _, s := range scenarios {
		for _, t := range families[0].tables(cluster(s.settings, s.services...)) {
			for _, c := range t.Chains {
				for i, r := range c.Rules {
					all[mutant{chain: kind(c.Name), rule: ruleName(i, r)}] = true
				}
			}
			for _, s := range t.Sets {
				if s.Dynamic == 0 {
					all[mutant{set: kind(s.Name)}] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b mutant) int { return strings.Compare(a.String(), b.String()) })
}

// of gives a table as the mutant has it, and whether it differs at all.
func (m mutant) of(t *nft.Table) (*nft.Table, bool) {
	out := *t
	if m.set != "" {
		return &out, m.withoutElements(&out)
	}
	differs := false
	out.Chains = slices.Clone(t.Chains)
	for i, c := range out.Chains {
		if kind(c.Name) != m.chain {
			continue
		}
		out.Chains[i].Rules = nil
		for j, r := range c.Rules {
			if ruleName(j, r) != m.rule {
				out.Chains[i].Rules = append(out.Chains[i].Rules, r)
			}
		}
		differs = differs || len(out.Chains[i].Rules) < len(c.Rules)
	}
	return &out, differs
}

func (m mutant) withoutElements(t *nft.Table) (differs bool) {
	ours := map[string]bool{}
	for _, s := range t.Sets {
		ours[s.Name] = kind(s.Name) == m.set
	}
	t.Groups = maps.Clone(t.Groups)
	for id, g := range t.Groups {
		kept := slices.DeleteFunc(slices.Clone(*g), func(e nft.Element) bool { return ours[e.Set] })
		switch {
		case len(kept) == len(*g):
			continue
		case len(kept) == 0:
			delete(t.Groups, id)
		default:
			t.Groups[id] = &kept
		}
		differs = true
	}
	return differs
}

// loaded is a scenario with the tables that it needs, and its checks.
type loaded struct {
	scenario
	tables map[nft.Family]map[string]*nft.Table
	checks []check
}

func loadAll() (out []loaded) {
	for _, s := range scenarios {
		l := loaded{scenario: s, tables: map[nft.Family]map[string]*nft.Table{},
			checks: append(s.checks(state.TCP, state.UDP), answered(s.checks(state.SCTP))...)}
		for _, f := range families {
			l.tables[f.Family] = f.tables(cluster(s.settings, s.services...))
		}
		out = append(out, l)
	}
	return out
}

// group is a family and a protocol: each has rows that notice a mutant.
type group struct {
	nft.Family
	state.Protocol
}

// fits are the checks of a scenario that the tracer says will notice a mutant.
// Those come first that need not wait for an answer that never comes.
func (l *loaded) fits(rules compiler, m mutant) (found []check, err error) {
	var slow []check
	for _, f := range families {
		mutated, differs := m.all(l.tables[f.Family])
		if !differs {
			continue
		}
		rulesets, err := rules.rulesets(mutated)
		if err != nil {
			return nil, err
		}
		for _, c := range l.checks {
			if c.Family != f.Family {
				continue
			}
			switch got := trace(f.World, rulesets, c.Connection).String(); {
			case got == c.want.String():
			case strings.Contains(got, reading.Dropped) || strings.Contains(got, noReply):
				slow = append(slow, c)
			default:
				found = append(found, c)
			}
		}
	}
	return append(found, slow...), nil
}

// all gives all nodes' tables as the mutant has them, and whether any differs.
func (m mutant) all(tables map[string]*nft.Table) (map[string]*nft.Table, bool) {
	out, differs := map[string]*nft.Table{}, false
	for n, t := range tables {
		mutated, does := m.of(t)
		out[n], differs = mutated, differs || does
	}
	return out, differs
}

// round is a scenario with the checks that should notice a mutant.
type round struct {
	*loaded
	checks []check
}

// rounds gives the scenarios that it takes for each group to notice a mutant,
// and these groups.
func rounds(rules compiler, all []loaded, m mutant) (out []round, groups map[group]bool, err error) {
	groups = map[group]bool{}
	for i := 0; i < len(all) && len(groups) < len(families)*len(protocols); i++ {
		fits, err := all[i].fits(rules, m)
		if err != nil {
			return nil, nil, err
		}
		fresh := false
		for _, c := range fits {
			g := group{c.Family, c.Proto}
			fresh = fresh || !groups[g]
			groups[g] = true
		}
		if fresh {
			out = append(out, round{&all[i], fits})
		}
	}
	return out, groups, nil
}

// wanted are the groups that have to notice a mutant.
func (m mutant) wanted() (out []group) {
	for _, f := range families {
		if strings.Contains(m.chain+m.set, "PROTO") {
			for _, p := range protocols {
				out = append(out, group{f.Family, p})
			}
		}
	}
	return out
}

// TestMutations: whatever rule or kind of element is taken out of the program,
// a row of the table turns red in the kernel, in both families.
func TestMutations(t *testing.T) {
	t.Parallel()
	b, all, rules := newBench(t), loadAll(), compiler{}
	for _, m := range mutants() {
		plan, groups, err := rounds(rules, all, m)
		if err != nil {
			t.Fatal(err)
		}
		why := equivalent[m]
		if slices.Contains(counting, m) {
			why = "it only counts"
		}
		if why != "" {
			if len(plan) > 0 {
				t.Errorf("%s is noticed, though %s", m, why)
			}
			continue
		}
		for _, g := range m.wanted() {
			if !groups[g] {
				t.Errorf("%s: no row of %s/%s would notice", m, g.Family, g.Protocol)
			}
		}
		if len(plan) == 0 {
			t.Errorf("%s: no row would notice", m)
			continue
		}
		b.notices(m, plan, groups)
	}
}

// attempts bounds how often rows are tried that notice by chance: a client
// whose affinity is forgotten may get the same server again.
const attempts = 8

// notices requires that a row of each group turns red.
func (b *bench) notices(m mutant, plan []round, groups map[group]bool) {
	missing := maps.Clone(groups)
	for range attempts {
		for _, r := range plan {
			checks := slices.DeleteFunc(slices.Clone(r.checks), func(c check) bool { return !missing[group{c.Family, c.Proto}] })
			if len(checks) == 0 {
				continue
			}
			if err := b.load(m.tables(r.loaded)); err != nil {
				b.t.Fatalf("%s: %v", m, err)
			}
			b.red(checks, missing)
		}
		if len(missing) == 0 {
			return
		}
	}
	b.t.Errorf("%s: all rows are green in %v", m, slices.Collect(maps.Keys(missing)))
}

// side is how many checks of a group are made at a time.
const side = 4

// red makes checks until one of each group has failed.
func (b *bench) red(checks []check, missing map[group]bool) {
	byGroup := map[group][]check{}
	for _, c := range checks {
		g := group{c.Family, c.Proto}
		byGroup[g] = append(byGroup[g], c)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	for g, checks := range byGroup {
		wait.Go(func() {
			n := side
			if g.Protocol == state.SCTP {
				n = 1 // its sockets hear of each other's refusals
			}
			ctx, cancel := context.WithCancel(b.t.Context())
			defer cancel()
			for part := range slices.Chunk(checks, n) {
				b.all(ctx, part, lab.Patience, func(error) {
					mu.Lock()
					delete(missing, g)
					mu.Unlock()
					cancel()
				})
			}
		})
	}
	wait.Wait()
}

// tables are the mutated rulesets of a scenario.
func (m mutant) tables(l *loaded) map[string][]*nft.Table {
	out := map[string][]*nft.Table{}
	for _, tables := range l.tables {
		mutated, _ := m.all(tables)
		for n, t := range mutated {
			out[n] = append(out[n], t)
		}
	}
	return out
}
