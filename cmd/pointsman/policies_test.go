package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// nodePorts writes Services by NodePort of both families, one of which has
// policy Local and a health check.
func (w *world) nodePorts() {
	w.t.Helper()
	w.write("web.yaml", service("web", dual+`type: NodePort, clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"],
		ports: [{name: http, port: 80, nodePort: 30080}]`), slice("web/v4", http8080, "10.20.0.11@n1"), slice("web/v6", http8080, "2001:db8:20::11@n1"))
	w.write("local.yaml", localLB("local", "30081", "30900", "10.20.0.11@n1")...)
}

// reloaded writes one more Service and waits until it is served.
func (w *world) reloaded(a *daemon, name, address string) {
	w.t.Helper()
	w.simple(name, address, "10.20.0.11")
	await(w.t, row{from: a.node, to: address + ":80", by: "b1"})
}

// TestC35RouteLocalnet: what listens on loopback stays out of a neighbour's
// reach. That it's in reach where route_localnet is on, is seen first.
func TestC35RouteLocalnet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.nodePorts()
	n1, c := w.Nodes[0], w.Client
	n1.Serve(lab.TCP, 9000, addrPort("127.0.0.1:9000").Addr())
	c.Sysctl("net.ipv4.conf.all.route_localnet", "1") // for the answers
	c.IP("addr del 127.0.0.1/8 dev lo", "route add 127.0.0.1/32 via 192.0.2.11 src 192.0.2.50")
	n1.Sysctl("net.ipv4.conf.eth0.route_localnet", "1")
	check(t, row{name: "with route_localnet", from: c, to: "127.0.0.1:9000", by: "n1"})
	n1.Sysctl("net.ipv4.conf.eth0.route_localnet", "0")
	settings := func() string {
		t.Helper()
		return sh(t, n1, "grep -H . /proc/sys/net/ipv4/conf/*/route_localnet")
	}
	before := settings()
	out := func(when string) {
		t.Helper()
		check(t, row{name: when, from: c, to: "127.0.0.1:9000", want: lab.Timeout}, row{name: when + ", NodePort", from: c, to: "127.0.0.1:30080", want: lab.Timeout})
		if after := settings(); after != before {
			t.Errorf("%s: the settings were\n%s\nand are\n%s", when, before, after)
		}
	}
	a := w.agent(n1)
	check(t, row{from: c, to: "192.0.2.11:30080", by: "b1"})
	out("started")
	w.reloaded(a, "more", "10.96.0.30")
	out("reloaded")
	a.end(syscall.SIGTERM)
	out("stopped")
}

// used lists our tables, sorted, without what the kernel adds by itself.
func used(t *testing.T, h *lab.Host) string {
	t.Helper()
	var lines []string
	for _, family := range []string{"ip", "ip6"} {
		text := sh(t, h, "nft list table "+family+" pointsman")
		for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
			if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "expires") {
				lines = append(lines, family+" "+line)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestC38NodePortAddressesChange: another configuration leaves nothing of the
// former one, and NodePorts are never on loopback (C34).
func TestC38NodePortAddressesChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.nodePorts()
	n1, c := w.Nodes[0], w.Client
	everywhere := []string{"--nodeport-addresses", "0.0.0.0/0,::/0", "--local-cidr", "198.51.100.0/24", "--service-cidr", "10.96.0.0/16,2001:db8:96::/112"}
	one := []string{"--nodeport-addresses", "192.0.2.0/24"}
	none := []string{"--nodeport-addresses", "203.0.113.0/24"}
	fresh := map[string]string{}
	for _, flags := range [][]string{everywhere, one, none} {
		a := w.agent(n1, flags...)
		fresh[flags[1]] = used(t, n1)
		a.end(syscall.SIGTERM)
		sh(t, n1, "pointsman cleanup --state-dir "+a.state)
	}
	for _, flags := range [][]string{everywhere, one, everywhere, none, one} {
		a := w.agent(n1, flags...)
		if got := used(t, n1); got != fresh[flags[1]] {
			t.Errorf("%s: the rules are\n%s\nand of a fresh start\n%s", flags, got, fresh[flags[1]])
		}
		second := row{name: "another address", from: c, to: "10.20.0.1:30080", want: lab.Refused}
		if flags[1] == everywhere[1] {
			second = row{name: "another address", from: c, to: "10.20.0.1:30080", by: "b1"}
		}
		first := row{name: "the first address", from: n1, to: "192.0.2.11:30080", by: "b1"}
		if flags[1] == none[1] {
			first = row{name: "the first address", from: n1, to: "192.0.2.11:30080", want: lab.Refused}
		}
		check(t, first, second,
			row{from: n1, to: "127.0.0.1:30080", want: lab.Refused}, row{from: n1, to: "[::1]:30080", want: lab.Refused},
			row{from: n1, to: "127.0.0.1:30081", want: lab.Refused})
		a.end(syscall.SIGTERM)
	}
}

// TestC20RollingUpdate: the only endpoint of a node terminates, and serves on
// until it's gone; the balancer is told from the first reload on.
func TestC20RollingUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	c := w.Client
	w.route(w.Nodes[0], "192.0.2.200")
	update := func(local ...string) {
		w.write("web.yaml", service("web", `type: LoadBalancer, clusterIP: 10.96.0.20, externalTrafficPolicy: Local, healthCheckNodePort: 30900,
			ports: [{name: http, port: 80, nodePort: 30080}]`, "pointsman/load-balancer-ips: 192.0.2.200"),
			slice("web/v4", http8080, append(local, "10.20.1.21@n2")...))
	}
	told := func(code, local int) {
		t.Helper()
		eventually(t, func() error {
			got, body, err := httpGet(c, "http://192.0.2.11:30900/")
			var b struct{ LocalEndpoints int }
			if err == nil {
				err = json.Unmarshal(body, &b)
			}
			if err == nil && (got != code || b.LocalEndpoints != local) {
				err = fmt.Errorf("%d %s, want %d and %d", got, body, code, local)
			}
			return err
		})
	}
	update("10.20.0.11@n1")
	w.agents()
	vip, nodePort, cluster := "192.0.2.200:80", "192.0.2.11:30080", "10.96.0.20:80"
	told(http.StatusOK, 1)
	check(t, row{from: c, to: cluster, by: "b1 b2"}, row{from: c, to: vip, by: "b1"})

	var streams []*lab.Stream
	for _, to := range []string{vip, nodePort, cluster} {
		streams = append(streams, c.Stream(t.Context(), lab.TCP, addrPort(to), tenPerSecond))
	}
	update("10.20.0.11@n1, conditions: {ready: false, serving: true, terminating: true}")
	told(http.StatusServiceUnavailable, 0)
	await(t, row{from: c, to: cluster, by: "b2"})
	check(t, row{name: "VIP, terminating", from: c, to: vip, by: "b1", seen: "192.0.2.50"},
		row{name: "NodePort, terminating", from: c, to: nodePort, by: "b1", seen: "192.0.2.50"},
		row{name: "ClusterIP, terminating", from: c, to: cluster, by: "b2"})
	told(http.StatusServiceUnavailable, 0)
	for i, s := range streams {
		tally := s.Stop()
		if err := tally.Check(); err != nil || tally.Total == 0 || i < 2 && tally.Counts["b1"] != tally.Total {
			t.Errorf("%v; %d: %s", err, tally.Total, &tally)
		}
	}

	update()
	await(t, row{from: c, to: vip, want: lab.Timeout})
	check(t, row{name: "NodePort, gone", from: c, to: nodePort, want: lab.Timeout}, row{name: "ClusterIP, gone", from: c, to: cluster, by: "b2"},
		row{name: "n2's NodePort", from: c, to: "192.0.2.12:30080", by: "b2"})
	told(http.StatusServiceUnavailable, 0)
}

// TestC25SourceRanges: who may connect, wherever the backend is, and that open
// connections aren't asked again.
func TestC25SourceRanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	w.Nodes[0].Serve(lab.TCP, 8080)
	c := w.Client
	clients := w.clients("192.0.2.60", "2001:db8::60")
	ranges := func(list string) {
		var docs []string
		for _, s := range []struct{ name, vips, v4, v6 string }{
			{"far", "192.0.2.200,2001:db8::200", "10.20.1.21@n2", "2001:db8:20:1::21@n2"},
			{"own", "192.0.2.201,2001:db8::201", "192.0.2.11@n1", "2001:db8::11@n1"},
		} {
			docs = append(docs, service(s.name, dual+"type: LoadBalancer, "+http80+", loadBalancerSourceRanges: ["+list+"]",
				`pointsman/load-balancer-ips: "`+s.vips+`"`), slice(s.name+"/v4", http8080, s.v4), slice(s.name+"/v6", http8080, s.v6))
		}
		w.write("web.yaml", docs...)
	}
	vips := map[string]string{"192.0.2.200": "b2", "2001:db8::200": "b2", "192.0.2.201": "n1", "2001:db8::201": "n1"}
	const others = "198.51.100.0/24, 2001:db8:100::/64"
	ranges(others + ", 192.0.2.50/32, '2001:db8::50/128'")
	for vip := range vips {
		w.route(w.Nodes[0], vip)
	}
	a := w.agent(w.Nodes[0])
	open := map[string]*lab.Conn{}
	for vip, backend := range vips {
		check(t, row{name: "allowed, " + vip, from: c, to: lab80(vip), by: backend})
		if t.Failed() {
			t.FailNow()
		}
		open[vip] = must[*lab.Conn](t)(c.Dial(t.Context(), lab.TCP, addrPort(lab80(vip)), 0))
		t.Cleanup(func() { open[vip].Close() })
		stranger := clients[strings.Index(vip, ":")&1^1]
		if got, err := stranger.ask(lab80(vip), silence); lab.OutcomeOf(err) != lab.Timeout {
			t.Errorf("%s to %s: %q %v, want a timeout", stranger, vip, got, err)
		}
	}
	asked := func(when string) {
		t.Helper()
		for vip, backend := range vips {
			if got := open[vip].Ask(when, deadline); got.Backend != backend {
				t.Fatalf("%s: the open connection to %s: %s", when, vip, got)
			}
		}
	}
	asked("allowed")
	ranges(others)
	for vip := range vips {
		await(t, row{from: c, to: lab80(vip), want: lab.Timeout})
	}
	asked("no longer allowed")
	a.restart(syscall.SIGTERM)
	for vip := range vips {
		check(t, row{name: "restarted, " + vip, from: c, to: lab80(vip), want: lab.Timeout})
	}
	asked("restarted")
	ranges(others + ", 192.0.2.0/24, '2001:db8::/64'")
	for vip, backend := range vips {
		await(t, row{from: c, to: lab80(vip), by: backend})
	}
	for _, stranger := range clients {
		for vip, backend := range vips {
			if stranger.addr.Is4() != addrPort(lab80(vip)).Addr().Is4() {
				continue
			}
			if got, err := stranger.ask(lab80(vip), lab.Patience); got != backend {
				t.Errorf("%s to %s: %q %v, want %s", stranger, vip, got, err, backend)
			}
		}
	}
	asked("allowed again")
}

// TestC29OwnAccess: whether a node may use a VIP that is bound on it, with any
// source that it can have, depends on whether its own address may.
func TestC29OwnAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	n1, n2 := w.Nodes[0], w.Nodes[1]
	n1.IP("addr add 198.18.0.10/32 dev lo", "addr add 2001:db8:18::10/128 dev lo nodad preferred_lft 0")
	n2.Route("198.18.0.10/32", n1.Addr4())
	n2.Route("2001:db8:18::10/128", n1.Addr6())
	ranges := func(list string) {
		w.write("web.yaml", service("web", dual+"type: LoadBalancer, "+http80+", loadBalancerSourceRanges: ["+list+"]",
			`pointsman/load-balancer-ips: "198.18.0.10,2001:db8:18::10"`),
			slice("web/v4", http8080, "10.20.1.21"), slice("web/v6", http8080, "2001:db8:20:1::21"))
	}
	vips := []string{lab80("198.18.0.10"), lab80("2001:db8:18::10")}
	forced := map[string][]string{vips[0]: {"198.18.0.10", "192.0.2.11"}, vips[1]: {"2001:db8:18::10", "2001:db8::11"}}
	ranges("192.0.2.0/24, '2001:db8::/64'")
	w.agents()
	for _, to := range vips {
		check(t, row{name: "allowed, " + to, from: n1, to: to, by: "b2"}, row{name: "allowed, not bound, " + to, from: n2, to: to, by: "b2"})
		for _, source := range forced[to] {
			if got, err := (client{n1, addrPort(lab80(source)).Addr()}).ask(to, lab.Patience); got != "b2" {
				t.Errorf("allowed: n1 as %s to %s: %q %v", source, to, got, err)
			}
		}
	}
	ranges("203.0.113.0/24, '2001:db8:113::/48'")
	for _, to := range vips {
		await(t, row{from: n1, to: to, want: lab.Timeout})
		await(t, row{from: n2, to: to, want: lab.Timeout})
		for _, source := range forced[to] {
			if got, err := (client{n1, addrPort(lab80(source)).Addr()}).ask(to, silence); lab.OutcomeOf(err) != lab.Timeout {
				t.Errorf("not allowed: n1 as %s to %s: %q %v", source, to, got, err)
			}
		}
	}
}

// TestC07Invalid: the agent has no rule about what conntrack calls invalid, and
// no setting of the host changes; doctor says which mode it's in.
func TestC07Invalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.nodePorts()
	n1 := w.Nodes[0]
	for _, mode := range []struct{ liberal, says string }{{"0", "nf_conntrack_tcp_be_liberal = 0"}, {"1", "liberal"}} {
		n1.Sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", mode.liberal)
		before := snapshot(t, n1)
		a := w.agent(n1)
		w.reloaded(a, "more"+mode.liberal, "10.96.0.3"+mode.liberal)
		if text := rules(t, n1); strings.Contains(text, "invalid") || !strings.Contains(text, "dnat") {
			t.Errorf("a rule about what is invalid:\n%s", text)
		}
		findings, _ := w.seeDoctor(n1)
		requireFinding(t, findings, "conntrack-window", "note", mode.says)
		a.end(syscall.SIGTERM)
		sh(t, n1, "pointsman cleanup --state-dir "+a.state)
		if after := snapshot(t, n1); after != before {
			b, a := strings.Split(before, "\n"), strings.Split(after, "\n")
			t.Errorf("changed: %q", slices.Concat(without(b, a), without(a, b)))
		}
	}
}
