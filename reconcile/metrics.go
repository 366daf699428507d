package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/reconcile/nft"
)

// Metrics are the loop's. Names end as kube-proxy's do where it counts the
// same.
type Metrics struct {
	duration *prometheus.HistogramVec
	elements *prometheus.CounterVec
	failures prometheus.Counter
	drift    prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pointsman_sync_proxy_rules_duration_seconds",
			Help:    "Time from reading what the kernel holds to its being right, of syncs that sent something.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"ip_family"}),
		elements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pointsman_nftables_elements_written_total",
			Help: "Elements of sets and maps that were added, changed or removed.",
		}, []string{"ip_family"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pointsman_sync_proxy_rules_nftables_sync_failures_total",
			Help: "Syncs that failed and were tried again.",
		}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pointsman_nftables_drift_total",
			Help: "Changes that somebody else made to our tables, which were repaired.",
		}),
	}
	r.MustRegister(m.duration, m.elements, m.failures, m.drift)
	return m
}

func (m *Metrics) synced(f nft.Family, s nft.Stats, took time.Duration) {
	m.duration.WithLabelValues(string(f)).Observe(took.Seconds())
	m.elements.WithLabelValues(string(f)).Add(float64(s.Elements))
}
