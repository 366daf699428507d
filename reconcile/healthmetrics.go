package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// healthMetrics collects a Health when it's asked. It says what /healthz and
// /livez say, for those who come by way of Prometheus.
type healthMetrics struct {
	health                            *Health
	healthy, alive, drained, degraded *prometheus.Desc
}

// Collector gives the health as metrics.
func (h *Health) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pointsman_"+name, help, labels, nil)
	}
	return &healthMetrics{
		health:  h,
		healthy: desc("healthy", "1 while the kernel is as it should be."),
		alive:   desc("loop_alive", "1 unless the reconcile loop is stuck."),
		drained: desc("drained", "1 while this host is drained."),
		degraded: desc("degraded", "1 while something keeps the agent from doing all it should; /healthz has the reason.",
			"what"),
	}
}

// Describe makes it a prometheus.Collector.
func (m *healthMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.healthy, m.alive, m.drained, m.degraded} {
		ch <- d
	}
}

// Collect makes it a prometheus.Collector.
func (m *healthMetrics) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	flag := func(d *prometheus.Desc, on bool, labels ...string) {
		v := 0.0
		if on {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := m.health.Status(now)
	flag(m.healthy, s.Healthy)
	flag(m.drained, s.Drained)
	flag(m.alive, m.health.Live(now).Healthy)
	for _, what := range m.health.whats(now) {
		flag(m.degraded, true, what)
	}
}

// whats names what is degraded: words of the program, so there are few.
func (h *Health) whats(now time.Time) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := maps.Clone(h.degraded)
	if all == nil {
		all = map[string]string{}
	}
	for whom, why := range h.silent(now) {
		all[string(whom)] = why
	}
	return slices.Sorted(maps.Keys(all))
}
