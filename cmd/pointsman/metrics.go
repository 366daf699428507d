package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"pointsman/state/manifest"
)

// manifestMetrics are about what the manifests directory holds.
type manifestMetrics struct {
	services, endpoints, stale prometheus.Gauge
	problems                   *prometheus.GaugeVec
}

func newManifestMetrics(r prometheus.Registerer, watcher *manifest.Watcher) *manifestMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &manifestMetrics{
		services:  gauge("pointsman_services", "Services that are served."),
		endpoints: gauge("pointsman_endpoints", "Endpoints of all ports of these Services."),
		stale:     gauge("pointsman_manifests_stale_objects", "Objects of which a last good version is served."),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pointsman_manifests_problems", Help: "Findings about the manifests.",
		}, []string{"severity"}),
	}
	polling := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pointsman_manifests_polling",
		Help: "1 while the directory is polled because the kernel gives no events (inotify).",
	}, func() float64 {
		if watcher.Status().Inotify {
			return 0
		}
		return 1
	})
	r.MustRegister(m.services, m.endpoints, m.stale, m.problems, polling)
	return m
}

func (m *manifestMetrics) loaded(r *manifest.Result) {
	m.services.Set(float64(len(r.Services)))
	m.endpoints.Set(float64(endpoints(r.Services)))
	m.stale.Set(float64(len(r.Stale)))
	errors := 0
	for _, p := range r.Problems {
		if p.Severity == manifest.Error {
			errors++
		}
	}
	m.problems.WithLabelValues("error").Set(float64(errors))
	m.problems.WithLabelValues("warning").Set(float64(len(r.Problems) - errors))
}
