package main

import (
	"testing"

	"pointsman/reconcile/nft"
	"pointsman/state/manifest"
)

// FuzzManifestToRuleset takes any bytes from a file of the manifests to the
// text that nft reads: nothing panics, and whatever is served makes a table
// that is well formed, also where it's the last good version of a file that
// has become other bytes.
func FuzzManifestToRuleset(f *testing.F) {
	for i := range 12 {
		for _, docs := range directories.Example(i).files {
			f.Add([]byte(join(docs)), []byte(join(docs[:len(docs)-1])))
		}
	}
	at := turns.Example(0).place
	f.Fuzz(func(t *testing.T, before, after []byte) {
		l := manifest.NewLoader(at.Config, "")
		for _, data := range [][]byte{before, after} {
			r := l.Load(&manifest.Snapshot{Files: []*manifest.File{{Path: "f.yaml", Data: data}}})
			for _, table := range at.plan(r) {
				requireWellFormed(t, table)
				if nft.Render(table) == "" {
					t.Error("there is no text")
				}
			}
			l.Accept(r)
		}
	})
}
