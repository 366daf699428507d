package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"pointsman/reconcile/nft"
)

// requireWellFormed requires of a table what nft would, as far as that can be
// told without it: every element is of its set's type and of the family, in
// the one spelling that is read back, none is there twice and no ranges
// overlap, and verdicts lead to chains that are there.
func requireWellFormed(t rapid.TB, table *nft.Table) {
	t.Helper()
	f := form{table: table, sets: map[string]*nft.Set{}, seen: map[string]bool{}, ranges: map[string][]netip.Prefix{}}
	for i := range table.Sets {
		f.sets[table.Sets[i].Name] = &table.Sets[i]
	}
	for id, g := range table.Groups {
		for _, e := range *g {
			if err := f.check(id, e); err != nil {
				t.Errorf("%s %s { %s : %s }: %v", table.Family, e.Set, e.Key, e.Value, err)
			}
		}
	}
}

type form struct {
	table  *nft.Table
	sets   map[string]*nft.Set
	seen   map[string]bool
	ranges map[string][]netip.Prefix // of interval sets, by what goes before the range
}

func (f *form) check(id string, e nft.Element) error {
	set := f.sets[e.Set]
	switch {
	case set == nil:
		return fmt.Errorf("there is no such set")
	case set.GroupID(e.Key) != id:
		return fmt.Errorf("it's in the group %q", id)
	case f.seen[e.Set+" "+e.Key]:
		return fmt.Errorf("it's there twice")
	}
	f.seen[e.Set+" "+e.Key] = true
	if err := f.key(set, e.Key); err != nil {
		return err
	}
	if set.Verdict {
		return f.verdict(e.Value)
	}
	if len(set.Value) == 0 && e.Value == "" {
		return nil
	}
	return f.columns(set.Value, e.Value)
}

// key checks a key. The last column of an interval set is a range.
func (f *form) key(set *nft.Set, key string) error {
	if !set.Interval {
		return f.columns(set.Key, key)
	}
	before, last, n := "", key, len(set.Key)-1
	if i := strings.LastIndex(key, " . "); i >= 0 {
		before, last = key[:i], key[i+len(" . "):]
		if err := f.columns(set.Key[:n], before); err != nil {
			return err
		}
	}
	p, err := netip.ParsePrefix(last)
	if err != nil || p != p.Masked() || !f.isMine(p.Addr()) {
		return fmt.Errorf("%q is no range", last)
	}
	where := set.Name + " " + before
	if slices.ContainsFunc(f.ranges[where], p.Overlaps) {
		return fmt.Errorf("the range overlaps another")
	}
	f.ranges[where] = append(f.ranges[where], p)
	return nil
}

func (f *form) isMine(a netip.Addr) bool {
	return a.Zone() == "" && !a.Is4In6() && a.Is4() == (f.table.Family == nft.IPv4)
}

func (f *form) columns(fields []nft.Field, text string) error {
	columns := strings.Split(text, " . ")
	if len(columns) != len(fields) {
		return fmt.Errorf("%q has %d columns, not %d", text, len(columns), len(fields))
	}
	for i, c := range columns {
		if !f.isA(fields[i], c) {
			return fmt.Errorf("%q is not of type %d", c, fields[i])
		}
	}
	return nil
}

func (f *form) isA(field nft.Field, text string) bool {
	switch field {
	case nft.Addr:
		a, err := netip.ParseAddr(text)
		return err == nil && f.isMine(a) && a.String() == text && !a.IsMulticast() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast()
	case nft.Proto:
		return text == "tcp" || text == "udp" || text == "sctp"
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text && (n > 0 || field == nft.Slot)
}

var verdictForm = regexp.MustCompile(`^(?:goto|jump) ([a-z0-9-]+)$`)

func (f *form) verdict(text string) error {
	if text == "drop" {
		return nil
	}
	m := verdictForm.FindStringSubmatch(text)
	if m == nil || !slices.ContainsFunc(f.table.Chains, func(c nft.Chain) bool { return c.Name == m[1] }) {
		return fmt.Errorf("the verdict %q leads nowhere", text)
	}
	return nil
}
