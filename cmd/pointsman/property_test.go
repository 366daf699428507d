package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/reconcile"
	"pointsman/reconcile/nft"
	"pointsman/state/manifest"
)

// The laws that join validation with the kernel: what validates is taken by
// it, what is refused doesn't get there, and what turns bad stays there.

// directory is a manifests directory of a host that starts.
type directory struct {
	place
	files map[string][]string // documents, by path
	asked string              // whether nft or the kernel is asked of it
}

// GoString is what rapid tells of a failure.
func (d directory) GoString() string { return fmt.Sprintf("%+v\n%s", d.place, text(d.files)) }

func text(files map[string][]string) string {
	var b strings.Builder
	for _, f := range snapshotOf(files).Files {
		fmt.Fprintf(&b, "== %s\n%s\n", f.Path, f.Data)
	}
	return b.String()
}

var directories = rapid.Custom(func(t *rapid.T) directory {
	a := &author{t: t}
	a.crowd = a.oneIn(2)
	return directory{a.place(), a.files(3), a.pick("nobody", "nobody", "nft", "kernel")}
})

// Whatever validates is planned, and nft and the kernel take it: all objects
// of a directory that have no error, next to those that do. nft costs 10 ms,
// so it's asked about every other directory.
func TestWhatValidatesIsTakenByTheKernel(t *testing.T) {
	t.Parallel()
	gates := openGates(t)
	checked, held := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := directories.Draw(t, "directory")
		for f, table := range d.plan(d.load(d.files)) {
			requireWellFormed(t, table)
			switch d.asked {
			case "nft":
				checked++
				gates[f].check(t, table)
			case "kernel":
				held++
				requireSameLines(t, "read back", gates[f].hold(t, table), reconcile.Canonical(table.Groups))
			}
		}
	})
	if checked == 0 || held == 0 {
		t.Errorf("nft was asked %d times and the kernel %d times", checked, held)
	}
}

// What is refused never reaches nft: the ruleset is that of the accepted
// objects alone, and says nothing that they don't. Nothing is refused without
// a word.
//
// Services are apart: one takes nothing from another but a claim, and only if
// it comes first by namespace and name.
func TestWhatIsRefusedLeavesNoTrace(t *testing.T) {
	t.Parallel()
	var good, bad, lost int
	rapid.Check(t, func(t *rapid.T) {
		d := directories.Draw(t, "directory")
		r := d.load(d.files)
		tables := d.plan(r)
		accepted, refused := d.accepted(d.files)
		requireSameLines(t, "with what is refused", lines(tables), lines(d.plan(d.load(filesOf(accepted...)))))
		for _, table := range tables {
			hear(accepted).requireSaid(t, d.place, table)
		}
		for _, o := range refused {
			requireTold(t, o, r.Problems)
		}
		lost += d.requireApart(t, accepted, tables)
		good, bad = good+len(accepted), bad+len(refused)
	})
	if good < bad/4 || bad < good/4 || lost == 0 {
		t.Errorf("%d objects were accepted and %d refused, and %d claims lost: that proves little", good, bad, lost)
	}
}

// requireTold requires an error about an object that is refused.
func requireTold(t rapid.TB, o *manifest.Object, problems []manifest.Problem) {
	t.Helper()
	if !slices.ContainsFunc(problems, func(p manifest.Problem) bool {
		return p.Severity == manifest.Error && p.Object == o.Key && p.Source.File == o.Source.File && p.Source.Line >= o.Source.Line
	}) {
		t.Errorf("%s (%s) is refused without a word", o.Key, o.Source)
	}
}

// requireApart compares what each Service means without the others with what
// it means among them, and gives the number of groups that it has lost.
func (d directory) requireApart(t rapid.TB, accepted []*manifest.Object, whole map[nft.Family]*nft.Table) (lost int) {
	t.Helper()
	isService := func(o *manifest.Object) bool { return o.Key.Kind == manifest.KindService }
	rest := snapshotOf(filesOf(slices.DeleteFunc(slices.Clone(accepted), isService)...)).Files
	services := slices.DeleteFunc(slices.Clone(accepted), func(o *manifest.Object) bool { return !isService(o) })
	slices.SortFunc(services, func(x, y *manifest.Object) int { return x.Key.Compare(y.Key) })
	l := manifest.NewLoader(d.Config, "") // it decodes the rest only once
	for i, o := range services {
		earlier, own := hear(services[:i]), &manifest.File{Path: "own.yaml", Data: o.Raw}
		for f, alone := range d.plan(l.Load(&manifest.Snapshot{Files: append(slices.Clone(rest), own)})) {
			for id, g := range alone.Groups {
				if sameGroup(g, whole[f].Groups[id]) {
					continue
				}
				lost++
				if !earlier.claims((*g)[0]) {
					t.Errorf("%s has lost %v, and nobody before it claims that", o.Key, *g)
				}
			}
		}
	}
	return lost
}

func sameGroup(a, b *nft.Group) bool {
	one := func(g *nft.Group) []string { return reconcile.Canonical(map[string]*nft.Group{"": g}) }
	return b != nil && slices.Equal(one(a), one(b))
}

// turn is a directory in which some documents turn bad while others come.
type turn struct {
	place
	before map[string][]string
	after  map[string][]string
	ideal  map[string][]string // after, if none had turned bad
	again  bool                // whether the host restarts meanwhile
}

// GoString is what rapid tells of a failure.
func (d turn) GoString() string {
	return fmt.Sprintf("%+v\nbefore\n%safter\n%s", d.place, text(d.before), text(d.after))
}

var turns = rapid.Custom(func(t *rapid.T) turn {
	a := &author{t: t, apart: true}
	d := turn{a.place(), a.files(3), map[string][]string{}, map[string][]string{}, a.oneIn(2)}
	for _, path := range slices.Sorted(maps.Keys(d.before)) {
		d.after[path], d.ideal[path] = a.spoiled(d.before[path]), d.before[path]
	}
	for path, docs := range a.files(1) {
		d.after["new-"+path], d.ideal["new-"+path] = docs, docs
	}
	return d
})

// A document that turns bad, in whatever way, is as if it had stayed as it
// was, whatever else is pushed with it, also after a restart.
func TestTurnedBadIsAsItWas(t *testing.T) {
	t.Parallel()
	stale, dir := 0, t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		d := turns.Draw(t, "turn")
		l := manifest.NewLoader(d.Config, "")
		l.Accept(l.Load(snapshotOf(d.before)))
		if d.again {
			l = restarted(t, d.Config, l.LastGood(), dir)
		}
		r := l.Load(snapshotOf(d.after))
		requireSameLines(t, "turned bad", lines(d.plan(r)), lines(d.plan(d.load(d.ideal))))
		stale += len(r.Stale)
	})
	if stale == 0 {
		t.Error("nothing had to stay: that proves nothing")
	}
}

// restarted gives the Loader of the process after, without the sync of a
// WriteFile, which takes its time.
func restarted(t rapid.TB, cfg manifest.Config, lastGood manifest.LastGood, dir string) *manifest.Loader {
	t.Helper()
	var saved bytes.Buffer
	if _, err := lastGood.WriteTo(&saved); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "last-good")
	if err := os.WriteFile(path, saved.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return manifest.NewLoader(cfg, path)
}
