package main

import (
	"fmt"
	"testing"

	"pointsman/reconcile/lab"
)

// everyWay is a Service with every kind of frontend, of every protocol and both
// families.
const everyWay = `type: LoadBalancer, ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack,
  clusterIPs: [10.96.0.80, "2001:db8:96::80"], clusterIP: 10.96.0.80,
  externalIPs: [192.0.2.210, "2001:db8::210"],
  ports: [{name: t, protocol: TCP, port: 80, nodePort: 30080}, {name: u, protocol: UDP, port: 80, nodePort: 30080},
          {name: s, protocol: SCTP, port: 80, nodePort: 30080}]`

const everyPort = `{name: t, protocol: TCP, port: 8080}, {name: u, protocol: UDP, port: 8080}, {name: s, protocol: SCTP, port: 8080}`

// TestFrontends: every way to a Service leads to all its backends, wherever
// these are, for clients that are routed through a node and for processes of
// the node itself.
func TestFrontends(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1, 1)
	w.write("web.yaml", service("web", everyWay, `pointsman/load-balancer-ips: "192.0.2.200,2001:db8::200"`),
		slice("web/v4", everyPort, "10.20.0.11@n1", "10.20.1.21@n2", "10.20.2.31@n3"),
		slice("web/v6", everyPort, "2001:db8:20::11@n1", "2001:db8:20:1::21@n2", "2001:db8:20:2::31@n3"))
	protocols := []string{lab.TCP, lab.UDP, lab.SCTP}
	for _, b := range w.Backends {
		for _, p := range protocols {
			b.Serve(p, 8080)
		}
	}
	w.route(w.Nodes[0], "192.0.2.200", "192.0.2.210", "2001:db8::200", "2001:db8::210")
	w.agents()
	for _, way := range []struct{ name, v4, v6 string }{
		{"ClusterIP", "10.96.0.80:80", "[2001:db8:96::80]:80"},
		{"externalIP", "192.0.2.210:80", "[2001:db8::210]:80"},
		{"load balancer", "192.0.2.200:80", "[2001:db8::200]:80"},
		{"NodePort of n1", "192.0.2.11:30080", "[2001:db8::11]:30080"},
		{"NodePort of n2", "192.0.2.12:30080", "[2001:db8::12]:30080"},
	} {
		for _, from := range []*lab.Host{w.Client, w.Nodes[0], w.Backends[0]} {
			for _, p := range protocols {
				check(t,
					row{fmt.Sprintf("%s/%s/%s/IPv4", way.name, from, p), from, p, way.v4, lab.OK, "b1 b2 b3", ""},
					row{fmt.Sprintf("%s/%s/%s/IPv6", way.name, from, p), from, p, way.v6, lab.OK, "b1 b2 b3", ""})
			}
		}
	}
}
