package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"pointsman/state/change"
	"pointsman/state/manifest"
)

// manifestMetrics are about what the manifests directory holds.
type manifestMetrics struct {
	stale, kept, held          prometheus.Gauge
	problems, removals, commit *prometheus.GaugeVec
}

func newManifestMetrics(r prometheus.Registerer, watcher *manifest.Watcher) *manifestMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &manifestMetrics{
		stale: gauge("pointsman_manifests_stale_objects", "Objects of which a last good version is served."),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pointsman_manifests_problems", Help: "Findings about the manifests.",
		}, []string{"severity"}),
		kept: gauge("pointsman_manifests_stale", "1 while a last state is served instead of what the directory means."),
		held: gauge("pointsman_manifests_held", "1 while a change is held for what it would take away."),
		removals: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pointsman_manifests_held_removals", Help: "What the change that is held would take away.",
		}, []string{"kind"}),
		commit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pointsman_manifests_commit_info", Help: "The commit of the manifests that are served, where it's known.",
		}, []string{"commit"}),
	}
	polling := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pointsman_manifests_polling",
		Help: "1 while the directory is polled because the kernel gives no events (inotify).",
	}, func() float64 { return oneIf(!watcher.Status().Inotify) })
	r.MustRegister(m.stale, m.kept, m.held, m.problems, m.removals, m.commit, polling)
	return m
}

func (m *manifestMetrics) loaded(r *manifest.Result) {
	m.stale.Set(float64(len(r.Stale)))
	errors := len(manifest.Errors(r.Problems))
	m.problems.WithLabelValues("error").Set(float64(errors))
	m.problems.WithLabelValues("warning").Set(float64(len(r.Problems) - errors))
}

// shown takes in the commit that is served, whether a last state is kept
// instead of what there is now, and what is held, if anything is.
func (m *manifestMetrics) shown(commit string, kept bool, held *heldChange) {
	m.commit.Reset()
	if commit != "" {
		m.commit.WithLabelValues(commit).Set(1)
	}
	m.kept.Set(oneIf(kept))
	m.held.Set(oneIf(held != nil))
	var v change.Verdict
	if held != nil {
		v = held.verdict
	}
	m.removals.WithLabelValues("services").Set(float64(v.Services.Gone))
	m.removals.WithLabelValues("endpoints").Set(float64(v.Endpoints.Gone))
	m.removals.WithLabelValues("frontends").Set(float64(v.Frontends.Gone))
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
