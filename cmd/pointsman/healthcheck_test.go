package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
)

// localLB gives a Service with a healthCheckNodePort, and its slice.
func localLB(name, nodePort, checkPort string, endpoints ...string) []string {
	return []string{service(name, `type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: `+checkPort+
		`, ports: [{name: http, port: 80, nodePort: `+nodePort+`}]`), slice(name+"/v4", http8080, endpoints...)}
}

// TestHealthCheckNodePort: what an outside balancer learns of each node, from
// the first programming on, through changes and a port that moves.
func TestHealthCheckNodePort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.write("web.yaml", localLB("web", "30080", "30900", "10.20.0.11@n1", "10.20.1.21@n2")...)
	w.agents()
	n1 := &daemon{t: t, node: w.Client}
	says := func(at string, code int, service string, endpoints int) error {
		got, body, err := n1.get("http://" + at + "/healthz")
		var b struct {
			Service        struct{ Name string }
			LocalEndpoints int
		}
		if err == nil {
			err = json.Unmarshal(body, &b)
		}
		if err == nil && (got != code || b.Service.Name != service || b.LocalEndpoints != endpoints) {
			err = fmt.Errorf("%s says %d %s, want %d %s %d", at, got, body, code, service, endpoints)
		}
		return err
	}
	for _, at := range []string{"192.0.2.11:30900", "192.0.2.12:30900"} {
		eventually(t, func() error { return says(at, http.StatusOK, "web", 1) })
	}
	// The address towards the backends is not one of the NodePorts'.
	if _, _, err := n1.get("http://10.20.0.1:30900/"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("another address of n1: %v, want a refusal", err)
	}

	w.write("web.yaml", localLB("web", "30080", "30900", "10.20.1.21@n2")...)
	eventually(t, func() error { return says("192.0.2.11:30900", http.StatusServiceUnavailable, "web", 0) })

	w.write("web.yaml", append(localLB("web", "30080", "30901", "10.20.1.21@n2"),
		localLB("api", "30081", "30900", "10.20.0.11@n1")...)...)
	eventually(t, func() error { return says("192.0.2.11:30900", http.StatusOK, "api", 1) })
	eventually(t, func() error { return says("192.0.2.11:30901", http.StatusServiceUnavailable, "web", 0) })
	w.write("web.yaml", localLB("web", "30080", "30901", "10.20.1.21@n2")...)
	eventually(t, func() error {
		if _, _, err := n1.get("http://192.0.2.11:30900/"); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("got %w, want a refusal", err)
		}
		return nil
	})
}
