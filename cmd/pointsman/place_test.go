package main

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/reconcile"
	"pointsman/reconcile/host"
	"pointsman/reconcile/lab"
	"pointsman/reconcile/nft"
	"pointsman/state/manifest"
)

const (
	hostAddress4 = "192.0.2.11"
	hostAddress6 = "2001:db8::11"
)

var bothFamilies = []nft.Family{nft.IPv4, nft.IPv6}

// place is a host and its configuration.
type place struct {
	manifest.Config
	local []netip.Prefix
}

// load gives what the host makes of files as it starts.
func (s place) load(files map[string][]string) *manifest.Result {
	return manifest.NewLoader(s.Config, "").Load(snapshotOf(files))
}

func snapshotOf(files map[string][]string) *manifest.Snapshot {
	s := &manifest.Snapshot{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		s.Files = append(s.Files, &manifest.File{Path: path, Data: []byte(join(files[path]))})
	}
	return s
}

// plan gives the host's tables.
func (s place) plan(r *manifest.Result) map[nft.Family]*nft.Table {
	addresses := []netip.Addr{netip.MustParseAddr(hostAddress4), netip.MustParseAddr(hostAddress6)}
	in := &reconcile.Input{
		Services: servedBy(r.Services, "n1"), Node: reconcile.Node{Name: "n1", Zone: "a"},
		NodePortAddresses: addresses, Addresses: addresses, ServiceCIDRs: s.ServiceCIDRs, LocalCIDRs: s.local,
	}
	tables := map[nft.Family]*nft.Table{}
	for _, f := range bothFamilies {
		tables[f] = reconcile.NewPlanner(f).Plan(in, nil)
	}
	return tables
}

func join(docs []string) string { return strings.Join(docs, "\n---\n") }

// lines gives the elements of both families, in order.
func lines(tables map[nft.Family]*nft.Table) []string {
	var all []string
	for _, f := range bothFamilies {
		for _, line := range reconcile.Canonical(tables[f].Groups) {
			all = append(all, string(f)+" "+line)
		}
	}
	return all
}

func requireSameLines(t rapid.TB, what string, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s: %s is too much", what, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s: %s is missing", what, line)
		}
	}
}

// accepted gives the objects that a host without a past serves: those that
// have no error by themselves, of each name the first. The others are refused.
func (s place) accepted(files map[string][]string) (accepted, refused []*manifest.Object) {
	seen := map[manifest.Key]bool{}
	for _, f := range snapshotOf(files).Files {
		for _, o := range manifest.Decode(f, s.Config) {
			if seen[o.Key] || o.Failed() || manifest.HasErrors(s.load(filesOf(o)).Problems) {
				refused = append(refused, o)
				continue
			}
			seen[o.Key] = true
			accepted = append(accepted, o)
		}
	}
	return accepted, refused
}

// filesOf gives each of the objects a file.
func filesOf(objects ...*manifest.Object) map[string][]string {
	files := map[string][]string{}
	for i, o := range objects {
		files[fmt.Sprintf("%03d.yaml", i)] = []string{string(o.Raw)}
	}
	return files
}

// gate is the kernel's table of one family, on a host of its own.
type gate struct {
	*nft.Kernel
	host *lab.Host
}

func openGates(t *testing.T) map[nft.Family]*gate {
	h := lab.New(t).Host("n1")
	gates := map[nft.Family]*gate{}
	empty := place{}.plan(&manifest.Result{})
	for _, f := range bothFamilies {
		err := h.Do(func() error {
			k, err := nft.Open(f, empty[f].Schema, host.Generation)
			gates[f] = &gate{k, h}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return gates
}

func (g *gate) check(t rapid.TB, table *nft.Table) {
	if err := g.host.Do(func() error { return g.Check(context.Background(), table) }); err != nil {
		t.Fatalf("nft --check: %v\n%s", err, nft.Render(table))
	}
}

// hold loads a table into the kernel, in place of the one before, and gives the
// elements that are read back.
func (g *gate) hold(t rapid.TB, table *nft.Table) []string {
	err := g.host.Do(func() error {
		if _, err := g.Sync(context.Background(), table); err != nil {
			return err
		}
		g.Forget(true)
		return g.Load(context.Background())
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, nft.Render(table))
	}
	return reconcile.Canonical(g.Groups())
}
