// Package nft makes a kernel table equal to a value. It knows sets, maps,
// chains and elements, and nothing of Services. It writes with
// sigs.k8s.io/knftables, of which it's the only importer, and reads over netlink.
//
//	Table            what the kernel should hold: a plain value
//	held             what it does hold, remembered only after a transaction succeeded
//	diff(held, want) the changes, pure
//	Kernel.Sync      reads back what isn't known, sends the changes, remembers
package nft

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Family is an nftables family, "ip" or "ip6".
type Family string

// The families that have a table.
const (
	IPv4 Family = "ip"
	IPv6 Family = "ip6"
)

// TableName is the name of our table in both families.
const TableName = "pointsman"

// Field is the type of one column of a key or a value.
type Field int

// The column types. A Slot is a number that is matched with numgen (or
// jhash); it needs typeof, since no type name stands for it. And where a map
// has a slot column, the ports in its values need a protocol: once the kernel
// has given such a map back to it, nft 1.0.6 takes no rule that translates TCP
// to a "th dport".
const (
	Addr Field = iota
	Proto
	Service // a port number: nftables' inet_service
	Slot
	TCPService
	UDPService
	SCTPService
)

// Set describes a set or, where it has a Value or is a Verdict map, a map.
type Set struct {
	Name     string
	Key      []Field
	Value    []Field
	Verdict  bool
	Interval bool

	// Dynamic is the size of a dynamic set with timeouts, whose elements the
	// kernel adds by itself, and 0 for all others. They are no part of the
	// ruleset, and survive a change of the program. A rule that finds no room
	// for another one doesn't match: its packet goes on.
	Dynamic uint32

	// Group is the number of leading key columns that name the Group an
	// element belongs to; with 0 each element is a group by itself.
	Group int

	// First marks a set whose elements must be there before those of the
	// others, when a load takes several transactions.
	First bool
}

// IsMap reports whether the set is a map.
func (s *Set) IsMap() bool { return s.Verdict || len(s.Value) > 0 }

// Hook attaches a base chain.
type Hook struct {
	Type     string // filter or nat
	Hook     string // prerouting, input, forward, output, postrouting
	Priority int    // a number: nft 1.0.6 refuses the name dstnat on the output hook
}

// Chain is a chain with its rules in nft's syntax. A base chain has a Hook
// and the policy accept.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []string
}

// Element is one element of a set or map, in nft's syntax with the columns
// joined by " . ".
type Element struct {
	Set   string
	Key   string
	Value string // empty in a set
}

func (e Element) compare(o Element) int {
	return cmp.Or(cmp.Compare(e.Set, o.Set), cmp.Compare(e.Key, o.Key))
}

// Group is the elements that are written together, such as all elements of
// one frontend: an immutable value, sorted by set and key. Two groups of a
// table share no element.
type Group []Element

// NewGroup sorts the elements and drops repeats.
func NewGroup(elements []Element) *Group {
	slices.SortFunc(elements, Element.compare)
	g := Group(slices.Compact(elements))
	return &g
}

// Purge asks that a client set forget the clients of one frontend before a
// slot number of that frontend is given to another endpoint.
type Purge struct {
	Set    string
	Suffix string // of the key: the frontend
}

// Schema is what can be told of a table before it is read.
type Schema struct {
	// Sets are those that are always there.
	Sets []Set

	// Marked is the chain whose first rule carries the program's version as
	// its comment.
	Marked string

	// OnDemand are the prefixes of the names of chains and sets that are made
	// when an element first needs them, and stay a while when none does. What
	// has another unknown name in our table is foreign, and is removed.
	OnDemand []string

	// Clients is how the sets of clients that are made on demand are defined,
	// whatever their names.
	Clients Set
}

func (s *Schema) onDemand(name string) bool {
	return slices.ContainsFunc(s.OnDemand, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Version is the identity of a Table's groups.
type Version struct{ _ byte }

// Table is a whole ruleset as a value: a program and the elements that it
// looks up.
type Table struct {
	Family  Family
	Schema  *Schema
	Program string // the version of the program: two of one version have the same chains and sets
	Sets    []Set  // the schema's, and those that are needed on demand
	Chains  []Chain
	Groups  map[string]*Group

	// Version is nil where the groups have no identity. Whoever made them from
	// those of an earlier version, Since, names the groups in which both may
	// differ (each once): where the kernel holds Since, no others are compared.
	Version *Version
	Since   *Version
	Changed []string

	Purges []Purge
}

// Elements is the number of elements in all groups.
func (t *Table) Elements() int {
	n := 0
	for _, g := range t.Groups {
		n += len(*g)
	}
	return n
}

// GroupID names the group that an element of the set belongs to. The groups
// that hold elements of several sets are named by a key prefix, the others by
// set and key, so that names never clash.
func (s *Set) GroupID(key string) string {
	if s.Group == 0 {
		return s.Name + " " + key
	}
	return prefix(key, s.Group)
}

// prefix gives the first n columns of a key.
func prefix(key string, n int) string {
	end := 0
	for range n {
		i := strings.Index(key[end:], " . ")
		if i < 0 {
			return key
		}
		end += i + len(" . ")
	}
	return key[:end-len(" . ")]
}

// Slots gives the values of a group's elements in a map whose last key column
// is a slot number, by that number.
func (g *Group) Slots(set string) map[int]string {
	if g == nil {
		return nil
	}
	slots := map[int]string{}
	for _, e := range *g {
		if e.Set != set {
			continue
		}
		if n, err := strconv.Atoi(e.Key[strings.LastIndex(e.Key, " ")+1:]); err == nil {
			slots[n] = e.Value
		}
	}
	return slots
}
