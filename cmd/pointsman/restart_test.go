package main

import (
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// background starts ten connections a second by each kind of address: from
// the client by n1's ClusterIP, NodePort and VIP, and from n1 itself.
func (w *world) background() (stop func()) {
	w.t.Helper()
	var streams []*lab.Stream
	for _, to := range []string{"10.96.0.20:80", "192.0.2.11:30080", "192.0.2.200:80", "[2001:db8:96::20]:80"} {
		for _, from := range []*lab.Host{w.Client, w.Nodes[0]} {
			streams = append(streams, from.Stream(w.t.Context(), lab.TCP, addrPort(to), tenPerSecond))
		}
	}
	return func() {
		w.t.Helper()
		for _, s := range streams {
			tally := s.Stop()
			if err := tally.Check(); err != nil {
				w.t.Errorf("%v; %s", err, &tally)
			}
			w.t.Logf("%d connections: %s", tally.Total, &tally)
		}
	}
}

// threeWays is a world with a Service by ClusterIP, NodePort and VIP.
func threeWays(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 2, 1)
	w.serve(8080)
	w.write("web.yaml", service("web", `type: LoadBalancer, clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"],
		ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, ports: [{name: http, port: 80, nodePort: 30080}]`, "pointsman/load-balancer-ips: 192.0.2.200"),
		slice("web/v4", http8080, "10.20.0.11", "10.20.0.12", "10.20.1.21"), slice("web/v6", http8080, "2001:db8:20::11", "2001:db8:20::12"))
	w.route(w.Nodes[0], "192.0.2.200")
	return w
}

// TestC55Restarts: twenty restarts, half of them by kill -9, and no connection
// fails; nor while the agent is down.
func TestC55Restarts(t *testing.T) {
	t.Parallel()
	w := threeWays(t)
	n1 := w.agent(w.Nodes[0])
	before := rules(t, n1.node)
	stop := w.background()
	for i := range 20 {
		signal := syscall.SIGTERM
		if i%2 == 1 {
			signal = syscall.SIGKILL
		}
		n1.end(signal)
		if i < 2 {
			check(t, row{name: "down by " + signal.String(), from: w.Client, to: "10.96.0.20:80", by: "b1 b2 b3"})
		}
		n1.start()
		n1.healthy()
		if n := n1.metric("pointsman_nftables_elements_written_total"); n != 0 {
			t.Errorf("restart %d: %v elements were written, and nothing had changed", i, n)
		}
	}
	stop()
	if after := rules(t, n1.node); after != before {
		t.Errorf("the rules were\n%s\nand are\n%s", before, after)
	}
}

// otherVersion makes another program of this one, as a former or later version
// may have been: another hash, a chain and a map that this one doesn't know, and
// a set of another type.
const otherVersion = `
	add chain FAMILY pointsman dispatch-v0
	add map FAMILY pointsman services-v0 { type inet_service : verdict; elements = { 9 : drop }; }
	add rule FAMILY pointsman dispatch-v0 tcp dport vmap @services-v0
	insert rule FAMILY pointsman dispatch jump dispatch-v0 comment "program 0123456789abcdef"
	flush chain FAMILY pointsman firewall
	delete set FAMILY pointsman firewalled
	add set FAMILY pointsman firewalled { type inet_service; }`

// TestUpgrade: the program of another version is replaced as a whole, under
// traffic: no connection fails, and clients with affinity stay where they are.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	w := threeWays(t)
	w.write("sticky.yaml", service("sticky", "clusterIP: 10.96.0.21, sessionAffinity: ClientIP, "+http80),
		slice("sticky/1", http8080, "10.20.0.11", "10.20.0.12", "10.20.1.21"))
	n1 := w.agent(w.Nodes[0])
	right := rules(t, n1.node)
	bound := w.Client.Connect(t.Context(), lab.TCP, addrPort("10.96.0.21:80"), deadline)
	stop := w.background()
	for range 5 {
		n1.end(syscall.SIGTERM)
		for _, family := range []string{"ip", "ip6"} {
			sh(t, n1.node, "nft '"+strings.ReplaceAll(otherVersion, "FAMILY", family)+"'")
		}
		if rules(t, n1.node) == right {
			t.Fatal("the other version is this one")
		}
		n1.start()
		n1.healthy()
		n1.said("rewritten=true")
	}
	stop()
	if after := rules(t, n1.node); after != right {
		t.Errorf("the rules were\n%s\nand are\n%s", right, after)
	}
	for range few {
		if got := w.Client.Connect(t.Context(), lab.TCP, addrPort("10.96.0.21:80"), deadline); got.Backend != bound.Backend {
			t.Errorf("the client of %s has come to %s", bound, got)
		}
	}
}
