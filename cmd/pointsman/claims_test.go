package main

import (
	"fmt"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// TestC31TwoServicesClaimOneAddress: the first by name has it, on every host,
// whatever else changes, and after a restart. The other keeps all it claims
// alone.
func TestC31TwoServicesClaimOneAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1, 1)
	w.serve(8080)
	w.write("1.yaml", service("b/web", "clusterIP: 10.96.0.2, externalIPs: [192.0.2.210], "+http80), slice("b/web/1", http8080, "10.20.1.21"))
	w.write("2.yaml", service("a/web", "clusterIP: 10.96.0.1, externalIPs: [192.0.2.210], "+http80), slice("a/web/1", http8080, "10.20.0.11"))
	w.write("3.yaml", service("c/web", "externalIPs: [192.0.2.210], ports: [{name: http, port: 80, protocol: UDP}, {name: alt, port: 81}]"),
		slice("c/web/1", "{name: alt, port: 8080}", "10.20.2.31"))
	var all []*daemon
	for _, n := range w.Nodes {
		all = append(all, w.agent(n))
	}
	for i := range 5 {
		name := fmt.Sprintf("new%d", i)
		w.write(name+".yaml", service(name, fmt.Sprintf("clusterIP: 10.96.1.%d, %s", i, http80)), slice(name+"/1", http8080, "10.20.2.31"))
		for j, n := range w.Nodes {
			await(t, row{from: n, to: fmt.Sprintf("10.96.1.%d:80", i), by: "b3"})
			check(t, row{name: fmt.Sprintf("change %d, n%d", i, j+1), from: n, to: "192.0.2.210:80", by: "b1"})
		}
	}
	for _, a := range all {
		a.restart(syscall.SIGTERM)
		check(t, row{name: "restarted " + a.node.Name, from: a.node, to: "192.0.2.210:80", by: "b1"},
			row{from: a.node, to: "10.96.0.2:80", by: "b2"},
			row{from: a.node, to: "192.0.2.210:81", by: "b3"})
		a.said("1.yaml:")
	}
	w.remove("2.yaml")
	for _, n := range w.Nodes {
		await(t, row{from: n, to: "192.0.2.210:80", by: "b2"})
	}
}

// TestC32OneAddressForSeveralServices: protocols and ports of one address may
// belong to several Services.
func TestC32OneAddressForSeveralServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.Backends[0].Serve(lab.UDP, 53)
	w.Backends[1].Serve(lab.TCP, 53)
	w.Backends[2].Serve(lab.TCP, 25)
	const vip = "pointsman/load-balancer-ips: 192.0.2.200"
	w.write("udp.yaml", service("dns-udp", "type: LoadBalancer, ports: [{port: 53, protocol: UDP}]", vip), slice("dns-udp/1", "{port: 53, protocol: UDP}", "10.20.0.11"))
	w.write("tcp.yaml", service("dns-tcp", "type: LoadBalancer, ports: [{port: 53, protocol: TCP}]", vip), slice("dns-tcp/1", "{port: 53}", "10.20.0.12"))
	w.write("mail.yaml", service("mail", "type: LoadBalancer, ports: [{port: 25}]", vip), slice("mail/1", "{port: 25}", "10.20.0.13"))
	w.route(w.Nodes[0], "192.0.2.200")
	w.agents()
	udp := row{from: w.Client, proto: lab.UDP, to: "192.0.2.200:53", by: "b1"}
	tcp := row{from: w.Client, to: "192.0.2.200:53", by: "b2"}
	mail := row{from: w.Client, to: "192.0.2.200:25", by: "b3"}
	check(t, udp, tcp, mail)
	w.remove("udp.yaml")
	udp.want = lab.Timeout // no frontend now: it goes on to where a host of that address would be
	await(t, udp)
	check(t, tcp, mail)
}

// TestC97SCTP: a port number is one of each protocol.
func TestC97SCTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	b1, b2 := w.Backends[0], w.Backends[1]
	b1.Serve(lab.SCTP, 3868)
	b2.Serve(lab.TCP, 3868)
	w.write("diameter.yaml", service("diameter", `type: NodePort, clusterIP: 10.96.0.38,
		ports: [{name: s, port: 3868, protocol: SCTP, nodePort: 30868}, {name: t, port: 3868, nodePort: 30868}]`),
		slice("diameter/s", "{name: s, port: 3868, protocol: SCTP}", "10.20.0.11"), slice("diameter/t", "{name: t, port: 3868}", "10.20.0.12"))
	w.write("tcp.yaml", service("tcp", "clusterIP: 10.96.0.39, ports: [{port: 3868}]"), slice("tcp/1", "{port: 3868}", "10.20.0.12"))
	w.agents()
	check(t, row{from: w.Client, proto: lab.SCTP, to: "10.96.0.38:3868", by: "b1"},
		row{from: w.Client, proto: lab.SCTP, to: "192.0.2.11:30868", by: "b1"},
		row{from: w.Client, to: "10.96.0.38:3868", by: "b2"},
		row{from: w.Client, to: "192.0.2.11:30868", by: "b2"},
		row{from: w.Client, proto: lab.SCTP, to: "10.96.0.39:3868", want: lab.Refused})
}

// TestC95OtherFamily: an address of a family that the Service doesn't have
// takes nothing else down.
func TestC95OtherFamily(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	n1 := w.Nodes[0]
	w.write("v4.yaml", service("v4", `ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, clusterIP: 10.96.0.20,
		externalIPs: [192.0.2.210, "2001:db8::210"], `+http80), slice("v4/1", http8080, "10.20.0.11"), slice("v4/2", http8080, "2001:db8:20::11"))
	w.write("dual.yaml", service("dual", `ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, clusterIP: 10.96.0.21,
		clusterIPs: [10.96.0.21, "2001:db8:96::21"], externalIPs: [192.0.2.211, "2001:db8::211"], `+http80), slice("dual/1", http8080, "10.20.0.11"))
	w.route(n1, "192.0.2.210", "192.0.2.211", "2001:db8::210", "2001:db8::211")
	a := w.agent(n1)
	c := w.Client
	v4 := []row{{from: c, to: "10.96.0.20:80", by: "b1"}, {from: c, to: "192.0.2.210:80", by: "b1"},
		{from: c, to: "10.96.0.21:80", by: "b1"}, {from: c, to: "192.0.2.211:80", by: "b1"}}
	check(t, v4...)
	check(t, row{from: c, to: "[2001:db8:96::21]:80", want: lab.Refused}, row{from: c, to: "[2001:db8::211]:80", want: lab.Refused},
		row{name: "an address of the other family is not served", from: c, to: "[2001:db8::210]:80", want: lab.Timeout})
	a.said("v4.yaml:8") // the warning that names it

	n1.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
	a.restart(syscall.SIGTERM)
	check(t, v4...)
}
