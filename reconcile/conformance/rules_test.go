package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pointsman/reconcile/nft"
)

// statement is one part of a rule: a match, or what is done.
type statement struct {
	do     string // match, vmap, dnat, update, count, or a word of its own: drop, fib source, ...
	fields []string
	mod    int // of numgen
	offset int
	set    string   // or the target of goto and jump
	not    bool     // of a match
	values []string // of a match without a set
}

// ruleset is a table made ready for tracing.
type ruleset struct {
	chains    map[string][][]statement
	hooks     []nft.Chain // sorted by priority
	elements  map[string]map[string]string
	intervals map[string][]interval
}

// interval is an element whose last column is a prefix.
type interval struct {
	key    string // of the columns before
	prefix netip.Prefix
}

// compiler remembers rules that it has read.
type compiler map[string][]statement

func (c compiler) table(t *nft.Table) (*ruleset, error) {
	r := &ruleset{chains: map[string][][]statement{}, elements: map[string]map[string]string{}, intervals: map[string][]interval{}}
	for _, chain := range t.Chains {
		r.chains[chain.Name] = nil
		for _, text := range chain.Rules {
			rule, err := c.rule(text)
			if err != nil {
				return nil, fmt.Errorf("chain %s: %w", chain.Name, err)
			}
			r.chains[chain.Name] = append(r.chains[chain.Name], rule)
		}
		if chain.Hook != nil {
			r.hooks = append(r.hooks, chain)
		}
	}
	slices.SortStableFunc(r.hooks, func(a, b nft.Chain) int { return cmp.Compare(a.Hook.Priority, b.Hook.Priority) })
	ranges := map[string]bool{}
	for _, s := range t.Sets {
		r.elements[s.Name] = map[string]string{}
		ranges[s.Name] = s.Interval
	}
	for _, g := range t.Groups {
		for _, e := range *g {
			if ranges[e.Set] {
				r.interval(e)
			} else {
				r.elements[e.Set][e.Key] = e.Value
			}
		}
	}
	return r, nil
}

func (r *ruleset) interval(e nft.Element) {
	i := strings.LastIndex(e.Key, " ") + 1
	r.intervals[e.Set] = append(r.intervals[e.Set], interval{e.Key[:i], netip.MustParsePrefix(e.Key[i:])})
}

// lookup finds a key in a set or map.
func (r *ruleset) lookup(set, key string) (value string, ok bool) {
	if ranges := r.intervals[set]; len(ranges) > 0 {
		i := strings.LastIndex(key, " ") + 1
		a := netip.MustParseAddr(key[i:])
		return "", slices.ContainsFunc(ranges, func(x interval) bool { return x.key == key[:i] && x.prefix.Contains(a) })
	}
	value, ok = r.elements[set][key]
	return value, ok
}

func (c compiler) rule(text string) ([]statement, error) {
	if rule, ok := c[text]; ok {
		return rule, nil
	}
	p := &parser{strings.NewReplacer("ip6 ", "ip ", "icmpv6 ", "icmp ").Replace(text) + " "}
	var rule []statement
	for p.rest != "" {
		s, err := p.statement()
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		rule = append(rule, s)
	}
	c[text] = rule
	return rule, nil
}

// parser reads a rule. Only what our program says is understood: whoever adds
// a sentence to it must say here what it means.
type parser struct{ rest string }

func (p *parser) accept(words string) bool {
	rest, ok := strings.CutPrefix(p.rest, words+" ")
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) word() string {
	word, rest, _ := strings.Cut(p.rest, " ")
	p.rest = rest
	return word
}

// sentences are statements without parameters.
var sentences = []string{
	"ct state new", "ct status dnat", "fib saddr type local", "fib daddr . iif oif exists",
	"masquerade fully-random", "reject with tcp reset", "reject with icmp type port-unreachable", "drop", "return",
}

func (p *parser) statement() (statement, error) {
	for _, s := range sentences {
		if p.accept(s) {
			return statement{do: s}, nil
		}
	}
	for _, s := range []string{"goto", "jump"} {
		if p.accept(s) {
			return statement{do: s, set: p.word()}, nil
		}
	}
	switch {
	case p.accept("dnat ip to"):
		s, err := p.fields()
		if err == nil && !p.accept("map") {
			err = errors.New("dnat without a map")
		}
		s.do, s.set = "dnat", strings.TrimPrefix(p.word(), "@")
		return s, err
	case p.accept("update"):
		return p.update()
	}
	return p.match()
}

// update is what a rule adds to a set, with a timeout, which isn't traced, or
// counts in it.
func (p *parser) update() (statement, error) {
	set := strings.TrimPrefix(p.word(), "@")
	if !p.accept("{") {
		return statement{}, errors.New("update without an element")
	}
	s, err := p.fields()
	s.do, s.set = "update", set
	if err == nil && !p.accept("timeout") {
		err = errors.New("update without a timeout")
	}
	p.word()
	if p.accept("counter") {
		s.do = "count"
	}
	if err == nil && !p.accept("}") {
		err = errors.New("update without an end")
	}
	return s, err
}

// match is a key that is looked up, or compared.
func (p *parser) match() (statement, error) {
	s, err := p.fields()
	if err != nil {
		return s, err
	}
	s.do = "match"
	switch {
	case p.accept("vmap"):
		s.do = "vmap"
	case p.accept("!="):
		s.not = true
	case p.accept("{"):
		for !p.accept("}") {
			s.values = append(s.values, strings.TrimSuffix(p.word(), ","))
			if p.rest == "" {
				return s, errors.New("a set without end")
			}
		}
		return s, nil
	}
	if word := p.word(); word[0] == '@' {
		s.set = word[1:]
	} else {
		s.values = []string{word}
	}
	return s, nil
}

var fieldNames = []string{"ct original ip daddr", "ct original proto-dst", "ip saddr", "ip daddr", "meta l4proto", "th dport", "rt ip nexthop"}

// fields are a key's columns.
func (p *parser) fields() (s statement, err error) {
	for {
		n := len(s.fields)
		for _, f := range fieldNames {
			if len(s.fields) == n && p.accept(f) {
				s.fields = append(s.fields, f)
			}
		}
		if len(s.fields) == n && p.accept("numgen random mod") {
			s.fields = append(s.fields, "numgen")
			if s.mod, err = strconv.Atoi(p.word()); err == nil && p.accept("offset") {
				s.offset, err = strconv.Atoi(p.word())
			}
		}
		if err != nil {
			return s, err
		}
		if len(s.fields) == n {
			return s, fmt.Errorf("unknown: %q", p.rest)
		}
		if !p.accept(".") {
			return s, nil
		}
	}
}
