package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/state"
)

// keptWatch says it loudly when a Service is served by endpoints that all fail
// their probes: a wrong probe must not switch it off, but somebody must look.
type keptWatch struct {
	gauge prometheus.Gauge
	known map[state.ObjectName]bool
}

func newKeptWatch(r prometheus.Registerer) *keptWatch {
	w := &keptWatch{gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pointsman_services_served_anyway",
		Help: "Services with a port whose endpoints fail their probes and are served all the same, since too few would be left.",
	})}
	r.MustRegister(w.gauge)
	return w
}

// look compares the Services that are declared with what health made of them,
// one by one, and gives those that began to be served anyway, and the names of
// those that ceased to be. A Service that health doesn't change is the same pointer in both.
func (w *keptWatch) look(declared, effective []*state.Service) (began []*state.Service, ended []string) {
	now := map[state.ObjectName]bool{}
	for i, s := range effective {
		if s == declared[i] || !servedAnyway(s) {
			continue
		}
		now[s.ObjectName] = true
		if !w.known[s.ObjectName] {
			began = append(began, s)
		}
	}
	for name := range w.known {
		if !now[name] {
			ended = append(ended, name.String())
		}
	}
	slices.Sort(ended)
	w.known = now
	w.gauge.Set(float64(len(now)))
	return began, ended
}

// names gives the Services that are served anyway.
func (w *keptWatch) names() []string {
	var names []string
	for name := range w.known {
		names = append(names, name.String())
	}
	slices.Sort(names)
	return names
}

func servedAnyway(s *state.Service) bool {
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			if c := s.Ports[i].Endpoints[k].Cause; c != nil && c.Kind == state.KeptAnyway {
				return true
			}
		}
	}
	return false
}
