package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state"
)

// fleetMetrics collects what the agent knows of the fleet when it's asked.
type fleetMetrics struct {
	agent *gossip.Agent

	members, absent, isolated, troubles, verdicts, drains *prometheus.Desc
	checks, probes, late, packetBytes, streamBytes        *prometheus.Desc
	exchanges, fetched, refused, rejoins                  *prometheus.Desc
}

func newFleetMetrics(agent *gossip.Agent) *fleetMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pointsman_"+name, help, labels, nil)
	}
	return &fleetMetrics{
		agent:       agent,
		members:     desc("gossip_members", "Members of the fleet, this host too, by what this host thinks of them.", "state"),
		absent:      desc("gossip_absent_nodes", "Hosts with a Node manifest that aren't alive."),
		isolated:    desc("gossip_isolated", "1 while this host is cut off and judges by itself."),
		troubles:    desc("gossip_troubles", "Troubles with other hosts, or of this one, that are shown by pointsman get nodes.", "kind"),
		verdicts:    desc("health_checks", "Checks of backends by what the fleet thinks of them.", "verdict"),
		drains:      desc("drains", "Drains in force."),
		checks:      desc("probe_checks", "Checks that this host probes."),
		probes:      desc("probes_total", "Probes made by this host."),
		late:        desc("probes_late_total", "Probes that began more than a second late."),
		packetBytes: desc("gossip_sent_packet_bytes_total", "Bytes sent in packets."),
		streamBytes: desc("gossip_sent_stream_bytes_total", "Bytes sent by TCP."),
		exchanges:   desc("gossip_exchanges_total", "Comparisons of what is known with another host, begun by this one."),
		fetched:     desc("gossip_fetched_total", "News that gossip had lost and a comparison brought."),
		refused:     desc("gossip_refused_messages_total", "Messages that were malformed or beyond a bound."),
		rejoins:     desc("gossip_rejoins_total", "Attempts to reach absent members.", "result"),
	}
}

// Describe makes it a prometheus.Collector.
func (m *fleetMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect makes it a prometheus.Collector.
func (m *fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := m.agent.Status()
	isolated := 0
	if s.Isolated != "" {
		isolated = 1
	}
	gauge(m.isolated, isolated)
	gauge(m.absent, len(s.Absent()))
	gauge(m.checks, s.Probes.Checks)
	gauge(m.drains, len(m.agent.Health().Drains))
	counter(m.probes, s.Probes.Started)
	counter(m.late, s.Probes.Late)
	counter(m.packetBytes, s.View.Stats.PacketBytesSent)
	counter(m.streamBytes, s.View.Stats.StreamBytes)
	counter(m.exchanges, s.View.Stats.Exchanges)
	counter(m.fetched, s.View.Stats.Fetched)
	counter(m.refused, s.View.Stats.Refused)
	counter(m.rejoins, s.View.Stats.Rejoins, "ok")
	counter(m.rejoins, s.View.Stats.RejoinsFailed, "failed")
	for label, n := range countMembers(s.View) {
		gauge(m.members, n, label)
	}
	for label, n := range countTroubles(s.View) {
		gauge(m.troubles, n, label)
	}
	for v, n := range countVerdicts(m.agent.Health()) {
		gauge(m.verdicts, n, v.String())
	}
}

func countMembers(v *gossip.View) map[string]int {
	n := map[string]int{}
	for s := gossip.Alive; s <= gossip.Dead; s++ {
		n[s.String()] = 0
	}
	for _, m := range v.Members {
		n[m.State.String()]++
	}
	return n
}

func countTroubles(v *gossip.View) map[string]int {
	n := map[string]int{}
	for _, t := range v.Troubles {
		n[string(t.Kind)]++
	}
	return n
}

func countVerdicts(h *state.Health) map[state.Verdict]int {
	n := map[state.Verdict]int{state.Up: 0, state.Down: 0, state.Unknown: 0}
	for _, j := range h.Verdicts.All() {
		n[j.Verdict]++
	}
	return n
}

// reportFleet keeps what is wrong with the fleet in /healthz, which stays 200:
// the kernel is served all the same. It rings for those who watch the fleet.
func reportFleet(agent *gossip.Agent, health *reconcile.Health, news *bell) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			health.Degraded("fleet", fleetText(agent.Status()))
			news.ring()
			select {
			case <-ctx.Done():
				return nil
			case <-agent.News():
			}
		}
	}
}

// fleetText says what is wrong with the fleet, "" if nothing is.
func fleetText(s *gossip.Status) string {
	var texts []string
	if s.Isolated != "" {
		texts = append(texts, "this host judges by itself alone: "+s.Isolated)
	}
	if absent := s.Absent(); len(absent) > 0 {
		texts = append(texts, fmt.Sprintf("%d of %d hosts absent (%s)", len(absent), s.Known, shortList(absent)))
	}
	for _, t := range s.View.Troubles {
		texts = append(texts, fmt.Sprintf("%s: %s", strings.TrimSpace(string(t.Kind)+" "+subject(t)), t.Detail))
	}
	return shortened(texts, "; ")
}

// subject names the host that a trouble is with, by its address if it has no
// name; "" for a trouble of this host alone.
func subject(t gossip.Trouble) string {
	if t.Member == "" && t.Address.IsValid() {
		return t.Address.String()
	}
	return t.Member
}

// shortList joins the first texts, and counts the others.
func shortList(texts []string) string { return shortened(texts, ", ") }

func shortened(texts []string, separator string) string {
	const most = 5
	if n := len(texts) - most; n > 0 {
		texts = append(texts[:most:most], fmt.Sprintf("%d more", n))
	}
	return strings.Join(texts, separator)
}
