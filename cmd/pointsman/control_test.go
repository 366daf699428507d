package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"pointsman/state"
)

// TestReadmeListsRoutes: what can be asked for on the control socket is in README.md,
// with its method, and nothing else is.
func TestReadmeListsRoutes(t *testing.T) {
	c := &control{source: &source{}, words: newTurnstile(), lists: newTurnstile(), reasons: newTurnstile()}
	var want, got []string
	for method, routes := range map[string][]string{"GET": slices.Collect(maps.Keys(c.reads())), "POST": slices.Collect(maps.Keys(c.changes()))} {
		for _, path := range routes {
			want = append(want, method+" "+path)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| ([A-Z]+) `(/v1/[^`]*)` \\|").FindAllStringSubmatch(string(must[[]byte](t)(os.ReadFile("../../README.md"))), -1) {
		got = append(got, m[1]+" "+m[2])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("README.md has %q, not %q", got, want)
	}
}

// TestDeclares: what manifests know that a drain may be of.
func TestDeclares(t *testing.T) {
	r := place{}.load(map[string][]string{"web.yaml": {
		service("shop/web", "clusterIP: 10.96.0.20, "+http80), slice("shop/web/v4", http8080, "10.20.0.11@n4"),
		"apiVersion: v1\nkind: Node\nmetadata: {name: n3}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.13}]}",
	}})
	for target, want := range map[string]bool{
		"node n3": true, "node n4": true, "node n5": false, "service shop/web": true, "service shop/wbe": false,
		"endpoint 10.20.0.11": true, "endpoint 10.20.0.11:8080": true, "endpoint 10.20.0.11:80": false, "endpoint 10.20.0.12": false,
	} {
		if got := declares(r, must[state.DrainTarget](t)(parseTarget(target))); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}
