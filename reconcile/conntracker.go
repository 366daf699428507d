package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state/event"
)

// Conntracker keeps the UDP flows that are tracked in line with what is
// served, after every change that the kernel was programmed with and once in a
// period. It has a goroutine of its own, as going over a large table takes a
// second, in which an endpoint may die. A nil Conntracker does nothing.
type Conntracker struct {
	period  time.Duration
	log     *slog.Logger
	health  *Health
	metrics conntrackMetrics
	forget  func(context.Context, host.Family, func(host.Flow) bool) (int, error)

	mu    sync.Mutex
	syncs map[nft.Family]*syncs
	wake  chan struct{}

	tables []*flowTable // Run's alone
}

// syncs is what the loop told of its syncs of one family.
type syncs struct {
	begun  *Input // the latest that began
	ended  *Input // the latest that succeeded, unless Run knows it
	served *Input // the same, for ever
	former map[netip.AddrPort]bool
}

// flowTable is one family's part.
type flowTable struct {
	family    nft.Family
	rules     flowRules
	in        *Input    // the latest sync that succeeded
	ends      time.Time // the next end of a drain's grace; zero if there's none
	due       bool
	notBefore time.Time
	failures  int // in a row

	begun *Input       // the latest sync that was looked at while it went on,
	soon  udpFrontends // and its frontends
}

// NewConntracker makes a Conntracker with the period in which all flows are
// looked at, changes or not: that of --resync.
func NewConntracker(period time.Duration, log *slog.Logger, health *Health, r prometheus.Registerer) *Conntracker {
	c := &Conntracker{
		period: period, log: log, health: health, metrics: newConntrackMetrics(r), forget: host.ForgetFlows,
		syncs: map[nft.Family]*syncs{}, wake: make(chan struct{}, 1),
	}
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		c.syncs[f] = &syncs{former: map[netip.AddrPort]bool{}}
		c.tables = append(c.tables, &flowTable{family: f, rules: flowRules{former: map[netip.AddrPort]time.Time{}}})
	}
	return c
}

// Syncing tells that a family's part of the kernel is about to be made equal
// to what an input means, and which groups are going. The function that it gives
// is to be called with the outcome. That goes for every sync: one that sends
// nothing may be about an endpoint that was not in use any more, and one that
// fails may have taken something away. Neither function blocks.
func (c *Conntracker) Syncing(in *Input, f nft.Family, going []string) (ended func(error)) {
	if c == nil {
		return func(error) {}
	}
	former := formerUDP(going)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.syncs[f]
	s.begun = in
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.Copy(s.former, former)
		if err != nil {
			return
		}
		s.ended, s.served = in, in
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// Run goes over the flows until ctx ends.
func (c *Conntracker) Run(ctx context.Context) error {
	tick := time.NewTicker(c.period)
	defer tick.Stop()
	again := time.NewTimer(never)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-again.C:
		case <-tick.C:
			for _, t := range c.tables {
				t.due = t.due || t.rules.now != nil
			}
		}
		c.take(time.Now())
		again.Reset(c.passes(ctx))
	}
}

// take takes over what is known of syncs, and of drains whose grace is over. As
// long as no sync succeeds, the kernel may translate as it did before.
func (c *Conntracker) take(now time.Time) {
	for _, t := range c.tables {
		in, former := c.synced(t.family)
		switch {
		case in != nil:
			t.in = in
		case t.ends.IsZero() || now.Before(t.ends):
			continue
		}
		t.begun = t.in
		t.soon, t.ends = udpFrontendsOf(t.family, t.in, now)
		if t.rules.update(t.soon, former, now) {
			t.due = true
		}
	}
}

// synced gives the input that a family was synced to since it was last asked
// for, nil if it wasn't, and the frontends that left.
func (c *Conntracker) synced(f nft.Family) (in *Input, former map[netip.AddrPort]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.syncs[f]
	if s.ended == nil {
		return nil, nil
	}
	in, former = s.ended, s.former
	s.ended, s.former = nil, map[netip.AddrPort]bool{}
	return in, former
}

// passes makes the passes that are due, and gives the time until the next.
func (c *Conntracker) passes(ctx context.Context) time.Duration {
	next := time.Duration(never)
	for _, t := range c.tables {
		if t.due && time.Until(t.notBefore) <= 0 {
			c.pass(ctx, t)
		}
		if t.due {
			next = min(next, max(0, time.Until(t.notBefore)))
		}
		if !t.ends.IsZero() {
			next = min(next, max(0, time.Until(t.ends)))
		}
	}
	return next
}

// idle is how many times as long as a pass took no other begins: with a table
// of a million flows and an endpoint that flaps, a pass is too dear to be made
// for each change.
const idle = 3

// pass goes over one family's flows.
func (c *Conntracker) pass(ctx context.Context, t *flowTable) {
	t.due = false
	if len(t.rules.now) == 0 && len(t.rules.former) == 0 {
		return
	}
	began := time.Now()
	why := map[fate]int{}
	n, err := c.forget(ctx, hostFamily(t.family), func(f host.Flow) bool {
		fate := c.judge(t, f)
		if fate.forgotten() {
			why[fate]++
		}
		return fate.forgotten()
	})
	took := time.Since(began)
	t.notBefore = began.Add(took + idle*took)
	c.metrics.passed(t.family, took, n)
	if n > 0 {
		c.log.Info("UDP flows forgotten", "reason", event.UDPFlowsForgotten, "family", t.family, "flows", n, "why", why, "took", took.Round(100*time.Microsecond))
	}
	switch {
	case err == nil:
		c.succeeded(t, began)
	case ctx.Err() == nil:
		c.failed(t, err)
	}
}

// judge decides about a flow during a pass. The loop may program an endpoint
// meanwhile that the rules don't know yet; flows to it are none of those to
// forget. Such a flow is seen after its sync began.
func (c *Conntracker) judge(t *flowTable, f host.Flow) fate {
	fate := t.rules.judge(f)
	if !fate.forgotten() {
		return fate
	}
	c.mu.Lock()
	begun := c.syncs[t.family].begun
	c.mu.Unlock()
	if begun != t.begun {
		t.begun = begun
		t.soon, _ = udpFrontendsOf(t.family, begun, time.Now())
	}
	if t.soon.serve(f) {
		return served
	}
	return fate
}

func hostFamily(f nft.Family) host.Family {
	if f == nft.IPv6 {
		return host.IPv6
	}
	return host.IPv4
}

// succeeded forgets former frontends after a pass that came a period after
// they left, not the first: a packet that was translated just before may not
// have been tracked yet when that looked (it waits in an NFQUEUE, say).
func (c *Conntracker) succeeded(t *flowTable, began time.Time) {
	maps.DeleteFunc(t.rules.former, func(_ netip.AddrPort, left time.Time) bool { return began.Sub(left) >= c.period })
	if t.failures > 0 {
		c.log.Info("all UDP flows have been looked at after all", "family", t.family, "failures", t.failures)
		t.failures = 0
	}
	c.health.Degraded("UDP flows ("+string(t.family)+")", "")
}

// failed has the pass made again, at the next period at the latest
// (kubernetes/kubernetes#126130). What it has seen, it has dealt with.
func (c *Conntracker) failed(t *flowTable, err error) {
	t.due = true
	t.failures++
	wait := min(backoff(t.failures), c.period)
	t.notBefore = time.Now().Add(wait)
	c.metrics.failures.WithLabelValues(string(t.family)).Inc()
	c.log.Error("not all UDP flows could be looked at", "reason", event.UDPFlowsUnchecked, "family", t.family, "error", err, "failures", t.failures, "retry", wait)
	c.health.Degraded("UDP flows ("+string(t.family)+")", err.Error())
}

// conntrackMetrics are named as kube-proxy's, where it has them.
type conntrackMetrics struct {
	duration *prometheus.HistogramVec
	deleted  *prometheus.CounterVec
	failures *prometheus.CounterVec
}

func newConntrackMetrics(r prometheus.Registerer) conntrackMetrics {
	family := []string{"ip_family"}
	m := conntrackMetrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pointsman_conntrack_reconciler_sync_duration_seconds",
			Help:    "Time that going over the UDP flows took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, family),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pointsman_conntrack_reconciler_deleted_entries_total",
			Help: "UDP flows that were forgotten because their endpoint or frontend is gone, or was not there when they began.",
		}, family),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pointsman_conntrack_reconciler_failures_total",
			Help: "Passes over the UDP flows that failed or were cut short, and were made again.",
		}, family),
	}
	r.MustRegister(m.duration, m.deleted, m.failures)
	for _, f := range families() { // they begin with zero: see Metrics.begin
		m.duration.WithLabelValues(string(f))
		m.deleted.WithLabelValues(string(f))
		m.failures.WithLabelValues(string(f))
	}
	return m
}

func (m conntrackMetrics) passed(f nft.Family, took time.Duration, deleted int) {
	m.duration.WithLabelValues(string(f)).Observe(took.Seconds())
	m.deleted.WithLabelValues(string(f)).Add(float64(deleted))
}
