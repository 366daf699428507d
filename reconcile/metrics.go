package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/reconcile/nft"
)

// Metrics are the loop's. Names end as kube-proxy's do where it counts the
// same.
type Metrics struct {
	duration, full, partial          *prometheus.HistogramVec
	transactions, elements, failures *prometheus.CounterVec
	last                             *prometheus.GaugeVec
	queued                           prometheus.Gauge
	latency                          *prometheus.HistogramVec
	drift                            prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: syncDurations("sync_proxy_rules", "Time that a sync took: from reading what the kernel holds, where it isn't known, to its being right. Those that sent nothing or failed count, too."),
		full:     syncDurations("sync_full_proxy_rules", "Of these the ones that read back everything: at the start, after a failure, after somebody else's change, once an hour."),
		partial:  syncDurations("sync_partial_proxy_rules", "Of these the ones that knew what the kernel holds."),
		transactions: familyCounter("pointsman_nftables_transactions_total",
			"Transactions that changed our tables: one for each sync that had something to send, unless it was very large."),
		elements: familyCounter("pointsman_nftables_elements_written_total",
			"Elements of sets and maps that were added, changed or removed."),
		failures: familyCounter("pointsman_sync_proxy_rules_nftables_sync_failures_total",
			"Syncs that failed and were tried again."),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pointsman_sync_proxy_rules_last_timestamp_seconds",
			Help: "When a sync last succeeded.",
		}, []string{"ip_family"}),
		queued: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pointsman_sync_proxy_rules_last_queued_timestamp_seconds",
			Help: "When a sync was last asked for.",
		}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pointsman_network_programming_duration_seconds",
			Help:    "Time from a change to the kernel's being right: from the first event of a file (the manifests are read when they hold still), or from when a verdict, a drain, an address or a damage was known.",
			Buckets: []float64{.005, .01, .025, .05, .1, .2, .3, .4, .5, .75, 1, 1.5, 2, 3, 5, 10, 30, 60, 120, 300},
		}, []string{"cause"}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pointsman_nftables_drift_total",
			Help: "Changes that somebody else made to our tables, which were repaired.",
		}),
	}
	r.MustRegister(m.duration, m.full, m.partial, m.transactions, m.elements, m.failures, m.last, m.queued, m.latency, m.drift)
	m.begin()
	return m
}

func syncDurations(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pointsman_" + name + "_duration_seconds", Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"ip_family"})
}

func familyCounter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"ip_family"})
}

// begin has everything that is counted begin with zero: of a counter that
// comes into being with its first failure, rate() sees nothing.
func (m *Metrics) begin() {
	for _, f := range families() {
		for _, c := range []*prometheus.CounterVec{m.transactions, m.elements, m.failures} {
			c.WithLabelValues(string(f))
		}
		for _, h := range []*prometheus.HistogramVec{m.duration, m.full, m.partial} {
			h.WithLabelValues(string(f))
		}
	}
	for _, c := range causes {
		m.latency.WithLabelValues(string(c))
	}
}

// outcome is what became of a family's sync.
type outcome struct {
	full  bool // everything was read back
	stats nft.Stats
	took  time.Duration
	err   error
}

func (m *Metrics) synced(f nft.Family, o outcome) {
	family, kind := string(f), m.partial
	if o.full {
		kind = m.full
	}
	kind.WithLabelValues(family).Observe(o.took.Seconds())
	m.duration.WithLabelValues(family).Observe(o.took.Seconds())
	m.transactions.WithLabelValues(family).Add(float64(o.stats.Transactions))
	m.elements.WithLabelValues(family).Add(float64(o.stats.Elements))
	if o.err != nil {
		m.failures.WithLabelValues(family).Inc()
		return
	}
	m.last.WithLabelValues(family).SetToCurrentTime()
}

// programmed notes what waited until the kernel was right.
func (m *Metrics) programmed(now time.Time, w waiting) {
	for c, since := range w {
		m.latency.WithLabelValues(string(c)).Observe(now.Sub(since).Seconds())
	}
}
