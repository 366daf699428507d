package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/reconcile"
)

// connectionMetrics collects the connections when it's asked.
type connectionMetrics struct {
	connections *connections

	service, endpoint, leftOut, pairs *prometheus.Desc
}

func newConnectionMetrics(n *connections) *connectionMetrics {
	port := []string{"namespace", "service", "port", "protocol"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pointsman_"+name, help, labels, nil)
	}
	return &connectionMetrics{
		connections: n,
		service: desc("service_connections_total", "Connections (of UDP: flows) to any address of a Service port that this host gave to an endpoint.",
			port...),
		endpoint: desc("endpoint_connections_total", "Those that an endpoint was given. All endpoints of a Service port are here, or none.",
			append(port, "endpoint")...),
		leftOut: desc("connections_series_left_out", "Series that there would be without --connection-metrics-limit.", "metric"),
		pairs: desc("connection_pairs", "Pairs of an address and port with an endpoint that the kernel counts. Of more than 65536 connections are not counted.",
			"ip_family"),
	}
}

// Describe makes it a prometheus.Collector.
func (m *connectionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.service, m.endpoint, m.leftOut, m.pairs} {
		ch <- d
	}
}

// Collect makes it a prometheus.Collector.
func (m *connectionMetrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, p *reconcile.PortConnections, more ...string) {
		labels := append([]string{p.Namespace, p.Name, p.Port, string(p.Protocol)}, more...)
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), label)
	}
	r := m.connections.look(time.Now())
	ports, services, endpoints := bounded(r.ports, m.connections.limit)
	for i := range ports {
		counter(m.service, ports[i].Total, &ports[i])
		for _, e := range ports[i].Endpoints {
			counter(m.endpoint, e.Total, &ports[i], e.Address.String())
		}
	}
	gauge(m.leftOut, services, "service")
	gauge(m.leftOut, endpoints, "endpoint")
	gauge(m.pairs, r.v4, "ip")
	gauge(m.pairs, r.v6, "ip6")
}

// bounded gives the ports, and those of their endpoints, that make no more
// series than a limit: a series for each port first, by name, and then for the
// endpoints of those ports whose endpoints all find room. Who is in doesn't
// depend on traffic, so no series comes and goes with it, and all hosts have
// the same. The others are counted.
func bounded(all []reconcile.PortConnections, limit int) (ports []reconcile.PortConnections, services, endpoints int) {
	ports = append(ports, all[:min(len(all), limit)]...)
	room := limit - len(ports)
	for i := range all {
		n := len(all[i].Endpoints)
		switch {
		case i < len(ports) && n <= room:
			room -= n
			continue
		case i < len(ports):
			ports[i].Endpoints = nil
		}
		endpoints += n
	}
	return ports, len(all) - len(ports), endpoints
}
