package nft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/knftables"
)

// fakeNFT is knftables' Fake with a reader over it, a record of the
// transactions, and failures on demand. The Fake is kinder than the kernel
// (it takes a second value for a key, and deletes chains that elements refer
// to), so what passes here is tried in the kernel as well.
type fakeNFT struct {
	*knftables.Fake
	sent       []*knftables.Transaction
	fail       func(n int) error // before the nth transaction, counted from 1
	tried      int
	generation uint32
	bound      map[string][]Element // clients, by set
}

func newFake() *fakeNFT { return &fakeNFT{Fake: knftables.NewFake(knftables.IPv4Family, TableName)} }

func (f *fakeNFT) kernel() *Kernel {
	return &Kernel{family: IPv4, schema: testSchema, nft: f, reader: f, max: maxElements,
		generation: func() (uint32, error) { return f.generation, nil }}
}

func (f *fakeNFT) Run(ctx context.Context, tx *knftables.Transaction) error {
	f.tried++
	if f.fail != nil {
		if err := f.fail(f.tried); err != nil {
			return err
		}
	}
	if err := f.Fake.Run(ctx, tx); err != nil {
		return err
	}
	f.sent = append(f.sent, tx)
	f.generation++
	return nil
}

// prints is the reader's: the Fake has no bytecode.
func (f *fakeNFT) prints(Family, *Schema) (Prints, error) { return nil, nil }

// read is the reader's.
func (f *fakeNFT) read(_ Family, schema *Schema) (*held, error) {
	h := &held{sets: map[string]heldSet{}, chains: map[string]heldChain{}, groups: map[string]*Group{}}
	if f.Table == nil {
		return h, nil
	}
	h.exists = true
	for name, c := range f.Table.Chains {
		h.chains[name] = fakeChain(c)
		if name == schema.Marked && len(c.Rules) > 0 && c.Rules[0].Comment != nil {
			h.program = *c.Rules[0].Comment
		}
	}
	groups := map[string][]Element{}
	add := func(name string, isMap bool, elements []*knftables.Element) {
		h.sets[name] = heldSet{isMap: isMap, asDefined: true}
		for i := range schema.Sets {
			if s := &schema.Sets[i]; s.Name == name {
				for _, e := range elements {
					key := strings.Join(e.Key, " . ")
					groups[s.GroupID(key)] = append(groups[s.GroupID(key)], Element{name, key, strings.Join(e.Value, " . ")})
				}
			}
		}
	}
	for name, s := range f.Table.Sets {
		add(name, false, s.Elements)
	}
	for name, m := range f.Table.Maps {
		add(name, true, m.Elements)
	}
	for id, elements := range groups {
		h.groups[id] = NewGroup(elements)
	}
	return h, nil
}

func fakeChain(c *knftables.FakeChain) heldChain {
	h := heldChain{accept: true, rules: len(c.Rules)}
	if c.Hook != nil {
		h.hook = &Hook{Type: string(*c.Type), Hook: string(*c.Hook)}
		_, _ = fmt.Sscan(string(*c.Priority), &h.hook.Priority)
	}
	return h
}

// clients is the reader's.
func (f *fakeNFT) clients(_ Family, s *Set) ([]Element, error) { return f.bound[s.Name], nil }

// lines are the commands of the transactions since the last call, by
// transaction.
func (f *fakeNFT) lines() [][]string {
	var all [][]string
	for _, tx := range f.sent {
		all = append(all, strings.Split(strings.TrimSuffix(tx.String(), "\n"), "\n"))
	}
	f.sent = nil
	return all
}

func mustSync(t rapid.TB, k *Kernel, want *Table) Stats {
	t.Helper()
	stats, err := k.Sync(context.Background(), want)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// genTable draws a table of a few services, single elements and ranges.
func genTable(t *rapid.T) *Table {
	var groups []*Group
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 6, rapid.ID[int]).Draw(t, "services") {
		groups = append(groups, service(n, rapid.IntRange(1, 4).Draw(t, "endpoints")))
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 6, rapid.ID[int]).Draw(t, "vips") {
		groups = append(groups, single("vips", fmt.Sprintf("10.0.0.%d", n)))
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 3, rapid.ID[int]).Draw(t, "ranges") {
		groups = append(groups, single("ranges", fmt.Sprintf("10.%d.0.0/16", n)))
	}
	return tableOf(groups...)
}

// elementsOf gives a table's elements as text, sorted.
func elementsOf(groups map[string]*Group) []string {
	var all []string
	for _, g := range groups {
		for _, e := range *g {
			all = append(all, fmt.Sprint(e))
		}
	}
	slices.Sort(all)
	return all
}

// TestPathIndependence: what is there after a walk through tables, with
// restarts and failures, is what a fresh start gives, and nothing is left to
// do.
func TestPathIndependence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake()
		k := f.kernel()
		k.max = rapid.SampledFrom([]int{1, 3, 10, 1000}).Draw(t, "max")
		f.fail = func(int) error {
			if rapid.IntRange(0, 5).Draw(t, "fails") == 0 {
				return errors.New("no")
			}
			return nil
		}
		var want *Table
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			want = genTable(t)
			_, err := k.Sync(context.Background(), want)
			if err != nil || rapid.Bool().Draw(t, "restart") {
				k.Forget(rapid.Bool().Draw(t, "doubt"))
			}
		}
		f.fail = nil
		mustSync(t, k, want)
		got, _ := f.read(IPv4, testSchema)
		if !slices.Equal(elementsOf(got.groups), elementsOf(want.Groups)) {
			t.Fatalf("holds %q\nwant  %q", elementsOf(got.groups), elementsOf(want.Groups))
		}
		if s := mustSync(t, k, want); s != (Stats{}) {
			t.Fatalf("applied again, it sent %+v", s)
		}
		k.Forget(false)
		if s := mustSync(t, k, want); s.Elements != 0 || s.Rewritten {
			t.Fatalf("after a restart it sent %+v", s)
		}
		fresh := newFake()
		mustSync(t, fresh.kernel(), want)
		if got, want := f.names(), fresh.names(); !slices.Equal(got, want) {
			t.Fatalf("after a restart it holds %q, a fresh start %q", got, want)
		}
		k.Forget(false)
		if s := mustSync(t, k, want); s != (Stats{}) {
			t.Fatalf("after a second restart it sent %+v", s)
		}
	})
}

// names gives the names of the chains and sets there are, sorted.
func (f *fakeNFT) names() []string {
	h, _ := f.read(IPv4, testSchema)
	return slices.Sorted(func(yield func(string) bool) {
		for name := range h.chains {
			if !yield("chain " + name) {
				return
			}
		}
		for name := range h.sets {
			if !yield("set " + name) {
				return
			}
		}
	})
}

// interceptor looks at each transaction before it runs.
type interceptor struct {
	*fakeNFT
	look func(text string) error
}

func (i interceptor) Run(ctx context.Context, tx *knftables.Transaction) error {
	if err := i.look(tx.String()); err != nil {
		return err
	}
	return i.fakeNFT.Run(ctx, tx)
}

// reads does something before each reading.
type reads struct {
	*fakeNFT
	before func() error
}

func (r reads) read(f Family, schema *Schema) (*held, error) {
	if err := r.before(); err != nil {
		return nil, err
	}
	return r.fakeNFT.read(f, schema)
}
