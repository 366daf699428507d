package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pointsman/reconcile/lab"
)

// TestRefusals: a frontend that leads nowhere answers at once, for every kind
// and protocol.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.write("web.yaml", service("web", everyWay, `pointsman/load-balancer-ips: "192.0.2.200,2001:db8::200"`),
		slice("web/v4", everyPort), slice("web/v6", everyPort))
	w.route(w.Nodes[0], "192.0.2.200", "192.0.2.210", "2001:db8::200", "2001:db8::210")
	w.agents()
	for _, to := range []string{
		"10.96.0.80:80", "192.0.2.210:80", "192.0.2.200:80", "192.0.2.11:30080", "192.0.2.12:30080",
		"[2001:db8:96::80]:80", "[2001:db8::210]:80", "[2001:db8::200]:80", "[2001:db8::11]:30080", "[2001:db8::12]:30080",
		"10.96.0.80:81", "[2001:db8:96::80]:81", // other ports of a ClusterIP
	} {
		for _, p := range []string{lab.TCP, lab.UDP, lab.SCTP} {
			check(t, row{from: w.Client, proto: p, to: to, want: lab.Refused},
				row{from: w.Nodes[0], proto: p, to: to, want: lab.Refused})
		}
	}
}

// TestC83UnallocatedAddresses: an address of --service-cidr that no Service
// has leads nowhere, and not out of the uplink either.
func TestC83UnallocatedAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	web := []string{service("web", `clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"],
		ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, `+http80),
		slice("web/v4", http8080, "10.20.0.11"), slice("web/v6", http8080, "2001:db8:20::11")}
	w.write("web.yaml", web...)
	a := w.agent(w.Nodes[0], "--service-cidr", "10.96.0.0/16,2001:db8:96::/112")
	passed := watch(t, w.Router, "10.96.0.0/16", "2001:db8:96::/112")
	c, n1, b1 := w.Client, w.Nodes[0], w.Backends[0]
	for _, from := range []*lab.Host{c, n1, b1} {
		for _, to := range []string{"10.96.7.7:80", "10.96.0.0:80", "10.96.255.255:80", "[2001:db8:96::7:7]:80", "[2001:db8:96::]:80"} {
			check(t, row{from: from, to: to, want: lab.Timeout})
		}
		check(t, row{from: from, to: "10.96.0.20:81", want: lab.Refused},
			row{from: from, to: "[2001:db8:96::20]:81", want: lab.Refused},
			row{from: from, to: "10.96.0.20:80", by: "b1"}, row{from: from, to: "[2001:db8:96::20]:80", by: "b1"})
	}
	if n := passed(); n != 0 {
		t.Errorf("%d packets for the range have left by the uplink", n)
	}
	w.write("new.yaml", service("new", "clusterIP: 10.96.7.7, "+http80), slice("new/v4", http8080, "10.20.0.11"))
	await(t, row{from: c, to: "10.96.7.7:80", by: "b1"})

	// Without a range nothing is dropped: packets go where the routes lead.
	a.Kill()
	w.agent(n1)
	await(t, row{from: c, to: "10.96.7.8:80", want: lab.Unreachable})
}

// watch counts what a host forwards to some addresses.
func watch(t *testing.T, h *lab.Host, prefixes ...string) (passed func() int) {
	t.Helper()
	rules := "table inet watch {\ncounter seen { }\nchain c {\ntype filter hook prerouting priority -300\n"
	for _, p := range prefixes {
		family := "ip"
		if netip.MustParsePrefix(p).Addr().Is6() {
			family = "ip6"
		}
		rules += fmt.Sprintf("%s daddr %s counter name seen\n", family, p)
	}
	sh(t, h, "nft '"+rules+"}\n}'")
	return func() (n int) {
		t.Helper()
		out := sh(t, h, "nft reset counter inet watch seen")
		_, rest, _ := strings.Cut(out, "packets ")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return n
	}
}

// TestC82RoutedVIP: a VIP is routed to a node that doesn't own its address,
// and whose default route leads back. What isn't for one of its ports is
// refused instead of circling until its TTL ends.
func TestC82RoutedVIP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	c, r, n1 := w.Client, w.Router, w.Nodes[0]
	for _, vip := range []string{"198.18.0.10", "198.18.0.11", "198.18.0.12"} {
		r.Route(vip+"/32", n1.Addr4())
	}
	r.Route("2001:db8:18::10/128", n1.Addr6())
	n1.Route("default", r.Addr4())
	n1.Route("default", r.Addr6())
	c.Sysctl("net.ipv4.conf.eth0.accept_redirects", "0")
	c.Sysctl("net.ipv4.conf.all.accept_redirects", "0")
	c.Sysctl("net.ipv6.conf.eth0.accept_redirects", "0")
	const ports = "ports: [{name: http, port: 443}]"
	w.write("web.yaml", service("web", `clusterIP: 10.96.0.20, externalIPs: [198.18.0.10, "2001:db8:18::10"], clusterIPs: [10.96.0.20, "2001:db8:96::20"],
		ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, `+ports),
		slice("web/v4", http8080, "10.20.0.11"), slice("web/v6", http8080, "2001:db8:20::11"))
	w.write("lb.yaml", service("lb", "type: LoadBalancer, "+ports, "pointsman/load-balancer-ips: 198.18.0.11"),
		slice("lb/v4", http8080, "10.20.0.11"))
	w.write("idle.yaml", service("idle", "externalIPs: [198.18.0.12], "+ports))
	w.agents()
	passed := watch(t, r, "198.18.0.0/16", "2001:db8:18::/64")
	for _, vip := range []string{"198.18.0.10", "198.18.0.11", "198.18.0.12", "[2001:db8:18::10]"} {
		passed()
		for _, r := range []row{
			{from: c, to: vip + ":23", want: lab.Refused},
			{from: c, to: vip + ":999", proto: lab.UDP, want: lab.Refused},
			{from: c, to: vip + ":999", proto: lab.SCTP, want: lab.Refused},
		} {
			check(t, r)
			if n := passed(); n != 1 {
				t.Errorf("%s: %d packets have crossed the router, want 1", r.title(), n)
			}
		}
		pingOnce(t, c, netip.MustParseAddr(strings.Trim(vip, "[]")))
		if n := passed(); n != 1 {
			t.Errorf("ping %s: %d packets have crossed the router, want 1", vip, n)
		}
	}
	check(t, row{from: c, to: "198.18.0.10:443", by: "b1"}, row{from: c, to: "[2001:db8:18::10]:443", by: "b1"},
		row{from: c, to: "198.18.0.11:443", by: "b1"}, row{from: c, to: "198.18.0.12:443", want: lab.Refused})
}

// pingOnce sends one echo request and waits until an error about it comes back
// or time is up.
func pingOnce(t *testing.T, from *lab.Host, to netip.Addr) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	if err := from.Ping(ctx, to); err == nil {
		t.Errorf("%s has answered a ping", to)
	}
}

// TestAddressOfAnotherNode: an externalIP may be another node's own address.
// Its other ports are that node's business: nothing may cut them off, and the
// node keeps its ssh.
func TestAddressOfAnotherNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	c, n1, n2, b1 := w.Client, w.Nodes[0], w.Nodes[1], w.Backends[0]
	n1.Serve(lab.TCP, 22)
	n2.Serve(lab.TCP, 22)
	n2.Serve(lab.UDP, 7946)
	w.write("web.yaml", service("web", `externalIPs: [192.0.2.12, "2001:db8::12"], clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"],
		ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, `+http80),
		slice("web/v4", http8080, "10.20.0.11"), slice("web/v6", http8080, "2001:db8:20::11"))
	w.agents("--service-cidr", "10.96.0.0/16,2001:db8:96::/112")
	for _, from := range []*lab.Host{c, n1, n2, b1} {
		check(t, row{from: from, to: "192.0.2.12:80", by: "b1"}, row{from: from, to: "[2001:db8::12]:80", by: "b1"},
			row{from: from, to: "192.0.2.12:22", by: "n2"}, row{from: from, to: "[2001:db8::12]:22", by: "n2"},
			row{from: from, proto: lab.UDP, to: "192.0.2.12:7946", by: "n2"},
			row{from: from, to: "192.0.2.11:22", by: "n1"})
	}
	check(t, row{from: c, to: "192.0.2.12:23", want: lab.Refused})
}
