package reconcile

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"

	"pointsman/state"
)

// HealthCheck is what a healthCheckNodePort tells an outside load balancer.
type HealthCheck struct {
	Service state.ObjectName

	// IPv4 and IPv6 count the addresses of this node's ready endpoints, over
	// all ports. A balancer that asks on an address of one family will send
	// traffic of that family, so each is answered by itself. (kube-proxy has
	// two listeners that know a family each: kubernetes/kubernetes#114702.)
	IPv4, IPv6 int
}

// healthChecks gives the health checks by port. Only ready endpoints count:
// a node whose last ones are terminating still serves, but is to be left
// alone by new clients (KEP-1669).
func healthChecks(services []*state.Service, node string) map[uint16]HealthCheck {
	checks := map[uint16]HealthCheck{}
	for _, s := range services {
		if s.HealthCheckNodePort == 0 {
			continue
		}
		// Manifests settle who has a port; the first by name is their rule.
		if _, taken := checks[s.HealthCheckNodePort]; !taken {
			checks[s.HealthCheckNodePort] = healthCheck(s, node)
		}
	}
	return checks
}

func healthCheck(s *state.Service, node string) HealthCheck {
	check := HealthCheck{Service: s.ObjectName}
	counted := map[netip.Addr]bool{}
	for i := range s.Ports {
		for _, e := range s.Ports[i].Endpoints {
			a := e.Address.Addr()
			if !e.Ready || e.NodeName == "" || e.NodeName != node || counted[a] {
				continue
			}
			counted[a] = true
			if a.Is6() {
				check.IPv6++
			} else {
				check.IPv4++
			}
		}
	}
	return check
}

// worsened gives, for each check that is answered now, the worse of it and what
// is to come, each family by itself; one that goes has no endpoints any more.
// A port that moves to another Service speaks for the former until it has moved.
func worsened(now, next map[uint16]HealthCheck) map[uint16]HealthCheck {
	worse := make(map[uint16]HealthCheck, len(now))
	for port, c := range now {
		c.IPv4, c.IPv6 = min(c.IPv4, next[port].IPv4), min(c.IPv6, next[port].IPv6)
		worse[port] = c
	}
	return worse
}

// healthBody is the body of an answer, as kube-proxy has it.
type healthBody struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// answer answers a request that came in on an address: 200 if this node has a
// ready endpoint of that family and can program the kernel, else 503.
func (c HealthCheck) answer(w http.ResponseWriter, on netip.Addr, agentHealthy bool) {
	body := healthBody{LocalEndpoints: c.IPv4, ServiceProxyHealthy: agentHealthy}
	if on.Is6() {
		body.LocalEndpoints = c.IPv6
	}
	body.Service.Namespace, body.Service.Name = c.Service.Namespace, c.Service.Name
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(body.LocalEndpoints))
	if body.LocalEndpoints == 0 || !agentHealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// An error here means that the client has gone.
	_ = json.NewEncoder(w).Encode(body)
}
