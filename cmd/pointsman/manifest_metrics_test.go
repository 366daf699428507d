package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/state/change"
	"pointsman/state/manifest"
)

// TestManifestMetrics: what is said of a load, and of what is held.
func TestManifestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newManifestMetrics(registry, manifest.NewWatcher(t.TempDir(), manifest.WatchOptions{}))
	values := func() map[string]float64 {
		all := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				name := f.GetName()
				for _, l := range metric.GetLabel() {
					name += " " + l.GetValue()
				}
				all[name] = metric.GetGauge().GetValue()
			}
		}
		return all
	}
	check := func(want map[string]float64) {
		t.Helper()
		got := values()
		for name, n := range want {
			if got["pointsman_manifests_"+name] != n {
				t.Errorf("%s: %v, not %v", name, got["pointsman_manifests_"+name], n)
			}
		}
	}
	problems := []manifest.Problem{{Severity: manifest.Error}, {Severity: manifest.Warning}, {Severity: manifest.Error}}
	m.loaded(&manifest.Result{Problems: problems, Stale: make([]manifest.Key, 3)})
	var v change.Verdict
	v.Services.Gone, v.Endpoints.Gone, v.Frontends.Gone = 4, 5, 6
	m.shown("c0ffee", true, &heldChange{verdict: v})
	check(map[string]float64{"problems error": 2, "problems warning": 1, "stale_objects": 3, "stale": 1, "held": 1,
		"held_removals services": 4, "held_removals endpoints": 5, "held_removals frontends": 6, "commit_info c0ffee": 1})
	m.loaded(&manifest.Result{})
	m.shown("", false, nil)
	check(map[string]float64{"problems error": 0, "problems warning": 0, "stale_objects": 0, "stale": 0, "held": 0, "held_removals services": 0, "commit_info c0ffee": 0})
}
