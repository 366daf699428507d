package main

import (
	"syscall"
	"testing"
)

// The Services of the tests of sources: near's backend is behind n1, far's
// behind n2. keep has both, and keeps its clients' addresses; the backend b2
// is behind n1 as well, yet said to be n2's.
func sources(w *world) {
	w.serve(8080)
	w.Nodes[0].Serve("tcp", 8080)
	w.write("near.yaml", service("near", `type: NodePort, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "2001:db8:96::1"],
		ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, externalIPs: [192.0.2.210, "2001:db8::210"],
		ports: [{name: http, port: 80, nodePort: 30001}]`),
		slice("near/v4", http8080, "10.20.0.11@n1"), slice("near/v6", http8080, "2001:db8:20::11@n1"))
	w.write("far.yaml", service("far", `type: NodePort, clusterIP: 10.96.0.2, externalIPs: [192.0.2.211],
		ports: [{name: http, port: 80, nodePort: 30002}]`),
		slice("far/v4", http8080, "10.20.1.21@n2"))
	w.write("keep.yaml", service("keep", `type: LoadBalancer, externalTrafficPolicy: Local, clusterIP: 10.96.0.3,
		ports: [{name: http, port: 80, nodePort: 30003}]`, "pointsman/load-balancer-ips: 192.0.2.200"),
		slice("keep/v4", http8080, "10.20.0.11@n1", "10.20.0.12@n2"))
	w.write("host.yaml", service("host", "clusterIP: 10.96.0.4, "+http80), slice("host/v4", http8080, "192.0.2.11@n1"))
	w.route(w.Nodes[0], "192.0.2.200", "192.0.2.210", "192.0.2.211", "2001:db8::210")
}

// TestSourceAddress: what the backends see of a client. n1 is 192.0.2.11
// towards b3, and 10.20.0.1 towards b1 and b2.
func TestSourceAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, 0)
	sources(w)
	w.agents()
	c, n1, n3 := w.Client, w.Nodes[0], w.Nodes[2]
	check(t,
		row{name: "ClusterIP, backend near", from: c, to: "10.96.0.1:80", by: "b1", seen: "10.20.0.1"},
		row{name: "ClusterIP, backend near, IPv6", from: c, to: "[2001:db8:96::1]:80", by: "b1", seen: "2001:db8:20::1"},
		row{name: "ClusterIP, backend far", from: c, to: "10.96.0.2:80", by: "b3", seen: "192.0.2.11"},
		row{name: "ClusterIP, backend on the node itself", from: c, to: "10.96.0.4:80", by: "n1", seen: "192.0.2.50"},
		row{name: "ClusterIP, client on the node itself", from: n1, to: "10.96.0.1:80", by: "b1", seen: "10.20.0.1"},
		row{name: "ClusterIP, client on another node", from: n3, to: "10.96.0.2:80", by: "b3", seen: "192.0.2.13"},
		row{name: "policy Cluster, externalIP", from: c, to: "192.0.2.211:80", by: "b3", seen: "192.0.2.11"},
		row{name: "policy Cluster, NodePort of n1", from: c, to: "192.0.2.11:30002", by: "b3", seen: "192.0.2.11"},
		row{name: "policy Cluster, NodePort of n3", from: c, to: "192.0.2.13:30002", by: "b3", seen: "192.0.2.13"},
		row{name: "policy Local, VIP", from: c, to: "192.0.2.200:80", by: "b1", seen: "192.0.2.50"},
		row{name: "policy Local, NodePort", from: c, to: "192.0.2.11:30003", by: "b1", seen: "192.0.2.50"},
		row{name: "policy Local, no backend of this node", from: c, to: "192.0.2.13:30003", want: "timeout"},
		row{name: "policy Local, client on that node itself", from: n3, to: "192.0.2.13:30003", by: "b1 b2", seen: "192.0.2.13"},
		row{name: "policy Local, ClusterIP all the same", from: c, to: "10.96.0.3:80", by: "b1 b2", seen: "10.20.0.1"},
	)
}

// TestSourceAddressOfLocalCIDR: sources within --local-cidr keep their address
// on the way to a ClusterIP, and count as inside.
func TestSourceAddressOfLocalCIDR(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, 0)
	sources(w)
	w.agents("--local-cidr", "192.0.2.0/24", "--local-cidr", "2001:db8::/64")
	c, b1 := w.Client, w.Backends[0]
	check(t,
		row{name: "ClusterIP", from: c, to: "10.96.0.1:80", by: "b1", seen: "192.0.2.50"},
		row{name: "ClusterIP, IPv6", from: c, to: "[2001:db8:96::1]:80", by: "b1", seen: "2001:db8::50"},
		row{name: "ClusterIP, client outside of it", from: b1, to: "10.96.0.2:80", by: "b3", seen: "192.0.2.11"},
		row{name: "policy Cluster, externalIP", from: c, to: "192.0.2.210:80", by: "b1", seen: "10.20.0.1"},
		row{name: "policy Cluster, NodePort", from: c, to: "192.0.2.11:30001", by: "b1", seen: "10.20.0.1"},
		row{name: "policy Local: all backends", from: c, to: "192.0.2.200:80", by: "b1 b2", seen: "192.0.2.50"},
	)
}

// TestC98RoutedClusterIP: clients come in by a router's static route for the
// service range, and the backend is behind another node, to which it would
// reply: without masquerading the client would see a stranger's packets.
func TestC98RoutedClusterIP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	sources(w)
	w.Router.Route("10.96.0.0/16", w.Nodes[0].Addr4())
	w.Client.Route("10.96.0.0/16", w.Router.Addr4())
	n1 := w.agent(w.Nodes[0])
	far := row{name: "to a far backend", from: w.Client, to: "10.96.0.2:80", by: "b3", seen: "192.0.2.11"}
	near := row{name: "to a near backend", from: w.Client, to: "10.96.0.1:80", by: "b1", seen: "10.20.0.1"}
	check(t, far, near)

	n1.end(syscall.SIGTERM)
	w.agent(w.Nodes[0], "--local-cidr", "10.20.0.0/24")
	check(t, far, near, row{name: "from inside --local-cidr", from: w.Backends[1], to: "10.96.0.4:80", by: "n1", seen: "10.20.0.12"})
}

// TestLocalCIDRThatLocksOut: clients in the network that leads to an endpoint
// would be answered past the node, so that range isn't in force.
func TestLocalCIDRThatLocksOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	sources(w)
	n1 := w.Nodes[0]
	n1.Route("0.0.0.0/0", w.Router.Addr4())
	w.Client.Route("10.96.0.0/16", n1.Addr4())
	a := w.agent(n1, "--local-cidr", "192.0.2.0/24", "--local-cidr", "10.20.0.0/24")
	check(t,
		row{name: "from the refused range", from: w.Client, to: "10.96.0.2:80", by: "b3", seen: "192.0.2.11"},
		row{name: "from the other one", from: w.Backends[1], to: "10.96.0.4:80", by: "n1", seen: "10.20.0.12"})
	a.degraded("--local-cidr 192.0.2.0/24 holds clients of 192.0.2.0/24")
}

// TestC52BackendCallsItsOwnService: such a connection is masqueraded, or the
// backend would talk to itself past the node; others keep their address.
func TestC52BackendCallsItsOwnService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	sources(w)
	w.write("keep.yaml", service("keep", `type: LoadBalancer, externalTrafficPolicy: Local, clusterIP: 10.96.0.3,
		ports: [{name: http, port: 80, nodePort: 30003}]`, "pointsman/load-balancer-ips: 192.0.2.200"),
		slice("keep/v4", http8080, "10.20.0.11@n1"))
	k1 := bridged(w)
	w.write("bridged.yaml", service("bridged", `type: NodePort, clusterIP: 10.96.0.5, externalIPs: [192.0.2.212],
		ports: [{name: http, port: 80, nodePort: 30005}]`), slice("bridged/v4", http8080, "10.30.0.11@n1"))
	w.agents("--local-cidr", "10.0.0.0/8", "--local-cidr", "2001:db8::/32")
	b1, c := w.Backends[0], w.Client
	check(t,
		row{name: "routed, ClusterIP", from: b1, to: "10.96.0.1:80", by: "b1", seen: "10.20.0.1"},
		row{name: "routed, ClusterIP, IPv6", from: b1, to: "[2001:db8:96::1]:80", by: "b1", seen: "2001:db8:20::1"},
		row{name: "routed, externalIP", from: b1, to: "192.0.2.210:80", by: "b1", seen: "10.20.0.1"},
		row{name: "routed, NodePort", from: b1, to: "192.0.2.11:30001", by: "b1", seen: "10.20.0.1"},
		row{name: "routed, VIP of policy Local", from: b1, to: "192.0.2.200:80", by: "b1", seen: "10.20.0.1"},
		row{name: "others keep their address", from: c, to: "192.0.2.200:80", by: "b1", seen: "192.0.2.50"},
		row{name: "bridged without hairpin mode, ClusterIP", from: k1, to: "10.96.0.5:80", want: "timeout"},
	)
	w.Nodes[0].IP("link set " + bridgePort + " type bridge_slave hairpin on")
	check(t,
		row{name: "bridged, ClusterIP", from: k1, to: "10.96.0.5:80", by: "k1", seen: "10.30.0.1"},
		row{name: "bridged, externalIP", from: k1, to: "192.0.2.212:80", by: "k1", seen: "10.30.0.1"},
		row{name: "bridged, NodePort", from: k1, to: "192.0.2.11:30005", by: "k1", seen: "10.30.0.1"},
		row{name: "bridged, to a neighbour's Service", from: k1, to: "10.96.0.1:80", by: "b1", seen: "10.30.0.11"},
	)
}
