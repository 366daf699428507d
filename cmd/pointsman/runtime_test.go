package main

import (
	"fmt"
	"net/http"
	"testing"

	"pointsman/reconcile/lab"
)

// TestAddressesAtRunTime: addresses come and go while the agent runs. NodePorts
// follow them, and a service range that comes to hold one is out of force.
func TestAddressesAtRunTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.write("web.yaml", service("web", "type: NodePort, clusterIP: 10.96.0.20, ports: [{name: http, port: 80, nodePort: 30080}]"),
		slice("web/1", http8080, "10.20.0.11"))
	n1, c := w.Nodes[0], w.Client
	w.route(n1, "203.0.113.1")
	a := w.agent(n1, "--nodeport-addresses", "203.0.113.0/24", "--service-cidr", "10.96.0.0/16")
	check(t, row{name: "the default address isn't named", from: c, to: "192.0.2.11:30080", want: lab.Refused})
	a.hears("services", "no address here for NodePort 30080 (IPv4)/TCP", `"status":"ok"`, func() { n1.IP("addr add 203.0.113.1/32 dev eth0") })
	await(t, row{from: c, to: "203.0.113.1:30080", by: "b1"})
	n1.IP("addr del 203.0.113.1/32 dev eth0")
	await(t, row{from: c, to: "203.0.113.1:30080", want: lab.Unreachable})

	unallocated := row{from: c, to: "10.96.7.7:80", want: lab.Timeout}
	check(t, unallocated)
	n1.IP("addr add 10.96.255.1/24 dev eth1")
	if code := a.degraded("--service-cidr 10.96.0.0/16 holds address 10.96.255.1"); code != http.StatusOK {
		t.Errorf("healthz is %d: all else is served", code)
	}
	unallocated.want = lab.Unreachable
	await(t, unallocated)
	check(t, row{from: c, to: "10.96.0.20:80", by: "b1"})
	n1.IP("addr del 10.96.255.1/24 dev eth1")
	unallocated.want = lab.Timeout
	await(t, unallocated)
}

// TestPortInUse: that /healthz can't be served keeps nothing else from being
// served, and is made good when the port is free.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	taken := w.Nodes[0].Serve(lab.TCP, 10256)
	a := w.begin(w.Nodes[0], "--healthz-listen", "192.0.2.11:10256")
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
	a.said("address already in use")
	taken.Close()
	eventually(t, func() error {
		code, body, err := httpGet(w.Client, "http://192.0.2.11:10256/healthz")
		if code != http.StatusOK {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		return nil
	})
	if code, _, err := httpGet(w.Client, "http://192.0.2.11:10256/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %v", code, err)
	}
}
