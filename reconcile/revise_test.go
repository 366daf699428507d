package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// remembers is a kernel that holds a table, or doesn't know what it holds.
type remembers struct{ table *nft.Table }

func (h *remembers) Group(id string) *nft.Group {
	if h.table == nil {
		return nil
	}
	return h.table.Groups[id]
}

func (h *remembers) Version() *nft.Version {
	if h.table == nil {
		return nil
	}
	return h.table.Version
}

func (h *remembers) groups() map[string]*nft.Group {
	if h.table == nil {
		return nil
	}
	return h.table.Groups
}

// TestReviseIsPlan: whatever the history, what is made from the last ruleset
// is what a planner without a past makes, and the groups in which they may
// differ are named. Services that stay keep their pointers, as the manifests'
// do.
func TestReviseIsPlan(t *testing.T) {
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		rapid.Check(t, func(t *rapid.T) {
			p, h, in := NewPlanner(f), &remembers{}, genInput(t)
			for range 6 {
				in = mutate(t, in)
				got := p.Next(in, h)
				requireSame(t, Canonical(got.Groups), Canonical(NewPlanner(f).Plan(in, nil).Groups))
				requireSame(t, chainNames(got), chainNames(NewPlanner(f).Plan(in, h.Group)))
				if got.Since != nil {
					requireNamed(t, h.groups(), got)
				}
				if h.table = got; rapid.IntRange(0, 5).Draw(t, "forgets") == 0 {
					h.table = nil
				}
			}
		})
	}
}

// mutate replaces, removes and adds some Services; the others stay the same
// values.
func mutate(t *rapid.T, in *Input) *Input {
	next, fresh := *in, genInput(t)
	next.Services = nil
	for i := range 12 {
		from := in.Services
		if rapid.IntRange(0, 3).Draw(t, "new") == 0 {
			from = fresh.Services
		}
		named := func(s *state.Service) bool { return s.Name == fmt.Sprintf("s%d", i) }
		if k := slices.IndexFunc(from, named); k >= 0 {
			next.Services = append(next.Services, from[k])
		}
	}
	return &next
}

func chainNames(t *nft.Table) []string {
	var names []string
	for _, c := range t.Chains {
		names = append(names, c.Name)
	}
	return names
}

// requireNamed fails unless all groups that differ are named.
func requireNamed(t rapid.TB, before map[string]*nft.Group, got *nft.Table) {
	t.Helper()
	for _, groups := range []map[string]*nft.Group{before, got.Groups} {
		for id := range groups {
			if _, named := slices.BinarySearch(got.Changed, id); before[id] != got.Groups[id] && !named {
				t.Fatalf("%s differs and isn't named", id)
			}
		}
	}
}

// TestReviseClash: two Services that claim one frontend on this host are
// settled by their order, which takes all of them.
func TestReviseClash(t *testing.T) {
	a, b := simple(1, 2), simple(2, 3)
	a.Ports[0].Frontends = append(a.Ports[0].Frontends, nodePorts(30080)...)
	b.Ports[0].Frontends = append(b.Ports[0].Frontends,
		state.Frontend{Kind: state.ExternalIP, Address: addrs("192.0.2.11")[0], Port: 30080})
	with := func(services ...*state.Service) *Input {
		return &Input{Node: Node{Name: "n1"}, NodePortAddresses: addrs("192.0.2.11"), Services: services}
	}
	p, h := NewPlanner(nft.IPv4), &remembers{}
	for _, in := range []*Input{with(b), with(a, b), with(b), with(a), with(a, b), with(a)} {
		h.table = p.Next(in, h)
		requireSame(t, Canonical(h.table.Groups), Canonical(NewPlanner(nft.IPv4).Plan(in, nil).Groups))
	}
}

// TestReviseInKernel: a change that was worked out for what differs alone
// makes the kernel right.
func TestReviseInKernel(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	a, b := simple(1, 2), simple(2, 3)
	for i, services := range [][]*state.Service{{a}, {a, b}, {simple(1, 1), b}, {b}, {b}} {
		in := &Input{Node: Node{Name: "n1"}, Services: services}
		if err := k.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := p.Next(in, k)
		if revised := want.Since != nil; revised != (i > 0) {
			t.Errorf("step %d: revised: %v", i, revised)
		}
		if _, err := k.Sync(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		reader, err := nft.Open(nft.IPv4, schema, host.Generation)
		if err == nil {
			err = reader.Load(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, Canonical(reader.Groups()), Canonical(NewPlanner(nft.IPv4).Plan(in, nil).Groups))
	}
}
