package main

import (
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/reconcile"
	"pointsman/state"
)

// servedMetrics counts what this host serves when it's asked. Neither Services
// nor endpoints are named by a label: there may be 100,000 of them.
type servedMetrics struct {
	latest func() *reconcile.Desired
	node   string

	services, endpoints, causes, nowhere, build *prometheus.Desc
}

func newServedMetrics(latest func() *reconcile.Desired, node string) *servedMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pointsman_"+name, help, labels, nil)
	}
	return &servedMetrics{
		latest: latest, node: node,
		services: desc("services", "Services that this host serves, by the worst that one of their frontends has in the whole fleet: ready endpoints, "+
			"only terminating ones, none (then clients are refused), or no frontend at all (headless).", "condition"),
		endpoints: desc("endpoints", "Endpoints of all ports of these Services by their effective conditions: ready, terminating (they serve if no ready one is left), "+
			"serving (open UDP flows go on), down (none of these).", "condition"),
		causes: desc("endpoints_by_cause", "Endpoints whose conditions aren't those that the manifests declare, or are in spite of what was seen, by the reason.", "cause"),
		nowhere: desc("sync_proxy_rules_no_local_endpoints_total", "Ports of Services whose traffic policy is Local that have endpoints, but none on this host: "+
			"their clients here are dropped.", "traffic_policy"),
		build: desc("build_info", "The release that runs.", "version", "goversion"),
	}
}

// Describe makes it a prometheus.Collector.
func (m *servedMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.services, m.endpoints, m.causes, m.nowhere, m.build} {
		ch <- d
	}
}

// Collect makes it a prometheus.Collector.
func (m *servedMetrics) Collect(ch chan<- prometheus.Metric) {
	var services []*state.Service
	if d := m.latest(); d != nil {
		services = d.Services
	}
	s := survey(services, m.node)
	for desc, counts := range map[*prometheus.Desc]map[string]int{
		m.services: s.services, m.endpoints: s.endpoints, m.causes: s.causes, m.nowhere: s.nowhere,
	} {
		for label, n := range counts {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), label)
		}
	}
	ch <- prometheus.MustNewConstMetric(m.build, prometheus.GaugeValue, 1, versionText(), runtime.Version())
}

// census is numbers of what is served, each by the value of a label.
type census struct{ services, endpoints, causes, nowhere map[string]int }

// survey counts. Every value of a label is there, if only with zero.
func survey(services []*state.Service, node string) census {
	c := census{
		services:  map[string]int{conditionReady: 0, conditionTerminating: 0, conditionNone: 0, conditionHeadless: 0},
		endpoints: map[string]int{conditionReady: 0, conditionTerminating: 0, conditionServing: 0, conditionDown: 0},
		causes:    map[string]int{},
		nowhere:   map[string]int{"internal": 0, "external": 0},
	}
	for k := state.SeenDown; k <= state.KeptAnyway; k++ {
		c.causes[causeLabel(k)] = 0
	}
	for _, s := range services {
		c.services[conditionOf(s)]++
		for i := range s.Ports {
			c.port(s, &s.Ports[i], node)
		}
	}
	return c
}

// The values of the label condition.
const (
	conditionReady       = "ready"
	conditionTerminating = "terminating"
	conditionServing     = "serving"
	conditionDown        = "down"
	conditionNone        = "none"
	conditionHeadless    = "headless"
)

func causeLabel(k state.CauseKind) string { return strings.ReplaceAll(k.String(), " ", "_") }

// conditionOf gives the worst that a frontend of a Service has.
func conditionOf(s *state.Service) string {
	worst := 0
	order := []string{conditionHeadless, conditionReady, conditionTerminating, conditionNone}
	for i := range s.Ports {
		for _, f := range s.Ports[i].Frontends {
			worst = max(worst, slices.Index(order, best(s.Ports[i].Endpoints, f.Address.Is6())))
		}
	}
	return order[worst]
}

// best gives the best condition of the endpoints of a family that takes
// connections.
func best(endpoints []state.Endpoint, ipv6 bool) string {
	best := conditionNone
	for i := range endpoints {
		if endpoints[i].Address.Addr().Is6() != ipv6 {
			continue
		}
		switch endpointCondition(&endpoints[i]) {
		case conditionReady:
			return conditionReady
		case conditionTerminating:
			best = conditionTerminating
		}
	}
	return best
}

// port counts one port's endpoints, and whether there are only others'.
func (c census) port(s *state.Service, p *state.Port, node string) {
	usable, here := false, false
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		c.endpoints[endpointCondition(e)]++
		if e.Cause != nil {
			c.causes[causeLabel(e.Cause.Kind)]++
		}
		if e.Ready || e.Serving && e.Terminating {
			usable, here = true, here || e.NodeName == node
		}
	}
	if !usable || here {
		return
	}
	internal, external := false, false
	for _, f := range p.Frontends {
		internal, external = internal || !f.Kind.External(), external || f.Kind.External()
	}
	if internal && s.InternalTrafficPolicy == state.Local {
		c.nowhere["internal"]++
	}
	if external && s.ExternalTrafficPolicy == state.Local {
		c.nowhere["external"]++
	}
}

func endpointCondition(e *state.Endpoint) string {
	switch {
	case e.Ready:
		return conditionReady
	case e.Serving && e.Terminating:
		return conditionTerminating
	case e.Serving:
		return conditionServing
	}
	return conditionDown
}
