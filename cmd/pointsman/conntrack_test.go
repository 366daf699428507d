package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// udpClient is a client that keeps one socket, and so one source port.
type udpClient struct {
	*lab.Conn
	name string
	port uint16
}

func (w *world) udpClient(from *lab.Host, to string, port uint16) *udpClient {
	w.t.Helper()
	conn := must[*lab.Conn](w.t)(from.Dial(w.t.Context(), lab.UDP, netip.MustParseAddrPort(to), port))
	w.t.Cleanup(func() { conn.Close() })
	return &udpClient{Conn: conn, name: fmt.Sprintf("%s to %s from port %d", from, to, port), port: port}
}

// until asks until the outcome is as it should be, and gives the time it took.
func (c *udpClient) until(t *testing.T, want lab.Outcome, backend string) time.Duration {
	t.Helper()
	return eventually(t, func() error {
		got := c.Ask("hello", 200*time.Millisecond)
		if got.Outcome != want || want == lab.OK && got.Backend != backend {
			return fmt.Errorf("%s: %s; want %s %s", c.name, got, want, backend)
		}
		return nil
	})
}

const (
	udp53 = "{name: dns, port: 53, protocol: UDP}"
	dual  = "ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, "
)

// dnsWays are Services of two nodes: masqueraded flows through n1, and flows
// that keep their clients' addresses through n2.
func (w *world) dnsWays() (agents []*daemon) {
	w.write("dns.yaml", service("dns", dual+`type: NodePort, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, "2001:db8:96::10"],
		externalIPs: [192.0.2.210], ports: [{name: dns, port: 53, protocol: UDP, nodePort: 30053}]`),
		service("kept", dual+`clusterIP: 10.96.0.11, clusterIPs: [10.96.0.11, "2001:db8:96::11"], ports: [`+udp53+"]"))
	w.route(w.Nodes[0], "192.0.2.210")
	w.route(w.Nodes[1], "10.96.0.11", "2001:db8:96::11")
	for _, b := range w.Backends {
		b.Serve(lab.UDP, 53)
	}
	return []*daemon{w.begin(w.Nodes[0]), w.begin(w.Nodes[1], "--local-cidr", "192.0.2.0/24,2001:db8::/64")}
}

// endpoints writes which backends (of two) those Services have.
func (w *world) endpoints(dns, kept bool) {
	v4, v6 := map[bool][]string{true: {"10.20.0.11"}}, map[bool][]string{true: {"2001:db8:20::11"}}
	kept4, kept6 := map[bool][]string{true: {"10.20.1.21"}}, map[bool][]string{true: {"2001:db8:20:1::21"}}
	six := func(s string) string { return strings.Replace(s, "addressType: IPv4", "addressType: IPv6", 1) }
	w.write("slices.yaml", slice("dns/v4", udp53, v4[dns]...), six(slice("dns/v6", udp53, v6[dns]...)),
		slice("kept/v4", udp53, kept4[kept]...), six(slice("kept/v6", udp53, kept6[kept]...)))
}

// dnsClients has a flow by every way to those Services, by the backend that
// should answer.
func (w *world) dnsClients() map[*udpClient]string {
	clients := map[*udpClient]string{}
	port := uint16(40000)
	for _, to := range []string{"10.96.0.10:53", "[2001:db8:96::10]:53", "192.0.2.11:30053", "[2001:db8::11]:30053", "192.0.2.210:53"} {
		for _, from := range []*lab.Host{w.Client, w.Nodes[0]} {
			clients[w.udpClient(from, to, port)] = "b1"
			port++
		}
	}
	for _, to := range []string{"10.96.0.11:53", "[2001:db8:96::11]:53"} {
		for _, from := range []*lab.Host{w.Client, w.Nodes[1]} {
			clients[w.udpClient(from, to, port)] = "b2"
			port++
		}
	}
	return clients
}

// tracked gives the UDP entries of a node that are answered from somewhere.
func tracked(t *testing.T, node *lab.Host, backend string) []string {
	t.Helper()
	var found []string
	for _, family := range []string{"ipv4", "ipv6"} {
		for line := range strings.Lines(sh(t, node, "conntrack -L -p udp -f "+family+" 2>/dev/null")) {
			if _, reply, ok := cutLast(line, "src="); ok && strings.HasPrefix(reply, backend+" ") {
				found = append(found, line)
			}
		}
	}
	return found
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// TestC01C02Conntrack: clients whose flows outlive all endpoints learn at once
// that there is none (C01), and reach the first that comes (C02), from the
// same socket: routed or a node's own, by every frontend, masqueraded or not.
func TestC01C02Conntrack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.endpoints(true, true)
	for _, a := range w.dnsWays() {
		a.healthy()
	}
	clients := w.dnsClients()
	for c, backend := range clients {
		c.until(t, lab.OK, backend)
	}
	for c, backend := range clients {
		own := netip.MustParseAddrPort(c.LocalAddr().String())
		if got := c.Ask("whom do you see", deadline); backend == "b2" && got.Source != own {
			t.Errorf("%s is masqueraded: %s", c.name, got)
		} else if from := strings.HasPrefix(c.name, "c "); backend == "b1" && from && got.Source.Addr() == own.Addr() {
			t.Errorf("%s is not masqueraded: %s", c.name, got)
		}
	}
	if got := tracked(t, w.Nodes[0], "10.20.0.11"); len(got) < 6 {
		t.Errorf("the flows are not tracked: %q", got)
	}
	w.endpoints(false, false)
	for c := range clients {
		t.Logf("C01 %s: refused after %v", c.name, c.until(t, lab.Refused, ""))
	}
	for i, backend := range []string{"10.20.0.11", "10.20.1.21", "2001:db8:20::11", "2001:db8:20:1::21"} {
		if got := tracked(t, w.Nodes[i%2], backend); len(got) > 0 {
			t.Errorf("flows to %s, which is gone: %q", backend, got)
		}
	}
	w.endpoints(true, true)
	for c, backend := range clients {
		t.Logf("C02 %s: answered after %v", c.name, c.until(t, lab.OK, backend))
	}
}

// TestC01Silent: the sender never gets an answer, and the datagrams stop to
// arrive at what is no backend any more, also when the Service was deleted
// while no agent ran.
func TestC01Silent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	var silent []*lab.Backend
	for _, b := range w.Backends {
		s := b.Serve(lab.UDP, 8125)
		s.Mute(true)
		silent = append(silent, s)
	}
	const port = "{name: metrics, port: 8125, protocol: UDP}"
	spec := func(n string) string {
		return dual + "clusterIP: 10.96.0." + n + ", clusterIPs: [10.96.0." + n + `, "2001:db8:96::` + n + `"], ports: [` + port + "]"
	}
	w.write("a.yaml", service("a", spec("10")), slice("a/v4", port, "10.20.0.11"), slice("a/v6", port, "2001:db8:20::11"))
	w.write("b.yaml", service("b", spec("20")), slice("b/v4", port, "10.20.0.12"), slice("b/v6", port, "2001:db8:20::12"))
	w.write("other.yaml", service("other", "clusterIP: 10.96.0.30, "+http80))
	a := w.agent(w.Nodes[0])
	senders := map[string]*udpClient{}
	for i, to := range []string{"10.96.0.10:8125", "[2001:db8:96::10]:8125", "10.96.0.20:8125", "[2001:db8:96::20]:8125"} {
		senders[to] = w.udpClient(w.Client, to, uint16(40000+i))
		before := silent[i/2].Received()
		eventually(t, func() error {
			senders[to].Ask("n", 20*time.Millisecond)
			if silent[i/2].Received() == before {
				return fmt.Errorf("nothing comes by %s", to)
			}
			return nil
		})
	}
	w.remove("a.yaml")
	w.quiet(senders, "10.96.0.10:8125", silent[0])
	w.quiet(senders, "[2001:db8:96::10]:8125", silent[0])
	a.end(syscall.SIGKILL)
	w.remove("b.yaml")
	a.start()
	w.quiet(senders, "10.96.0.20:8125", silent[1])
	w.quiet(senders, "[2001:db8:96::20]:8125", silent[1])
	a.said("UDP flows forgotten")
	if n := a.metric("pointsman_conntrack_reconciler_deleted_entries_total"); n != 2 {
		t.Errorf("%v entries deleted since the restart", n)
	}
}

// quiet waits until what a sender sends doesn't arrive any more.
func (w *world) quiet(senders map[string]*udpClient, to string, at *lab.Backend) {
	w.t.Helper()
	eventually(w.t, func() error {
		before := at.Received()
		for range 3 {
			senders[to].Ask("n", 20*time.Millisecond)
		}
		if n := at.Received() - before; n > 0 {
			return fmt.Errorf("%d datagrams to %s still arrive", n, to)
		}
		return nil
	})
}

// TestC02BeforeTheAgent: flows that began before there was an agent, on a host
// whose firewall tracks them.
func TestC02BeforeTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.endpoints(true, true)
	for _, n := range w.Nodes {
		sh(t, n, "nft 'table inet firewall { chain c { type filter hook forward priority 0; ct state invalid counter; }; }'")
	}
	clients := w.dnsClients()
	for c := range clients {
		c.Ask("is anybody there", 10*time.Millisecond)
	}
	var untranslated []string
	for _, to := range []string{"10.96.0.10", "2001:db8:96::10", "192.0.2.11"} {
		untranslated = append(untranslated, tracked(t, w.Nodes[0], to)...)
	}
	if len(untranslated) < 5 {
		t.Errorf("the flows are not tracked: %q", untranslated)
	}
	agents := w.dnsWays()
	for c, backend := range clients {
		c.until(t, lab.OK, backend)
	}
	for _, a := range agents {
		a.said("untranslated, though there are endpoints")
	}
}

// TestC04Restart: a restart touches no flow to an endpoint that serves.
func TestC04Restart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	for _, b := range w.Backends {
		b.Serve(lab.UDP, 53)
	}
	w.write("dns.yaml", service("dns", dual+`clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, "2001:db8:96::10"], ports: [`+udp53+"]"),
		slice("dns/v4", udp53, "10.20.0.11", "10.20.0.12"), slice("dns/v6", udp53, "2001:db8:20::11", "2001:db8:20::12"))
	a := w.agent(w.Nodes[0])
	backends := map[*udpClient]string{}
	for i := range 20 {
		to := []string{"10.96.0.10:53", "[2001:db8:96::10]:53"}[i%2]
		c := w.udpClient(w.Client, to, uint16(41000+i))
		got := c.Ask("who are you", deadline)
		if got.Outcome != lab.OK {
			t.Fatal(c.name, got)
		}
		backends[c] = got.Backend
	}
	events := must[*lab.Process](t)(w.Nodes[0].Start("conntrack", "-E", "-e", "NEW,DESTROY", "-p", "udp", "-o", "id"))
	w.seen(events)
	for range 2 {
		a.restart(syscall.SIGKILL)
		eventually(t, func() error {
			if n := a.metric("pointsman_conntrack_reconciler_sync_duration_seconds_count"); n < 2 {
				return fmt.Errorf("%v passes over two families", n)
			}
			return nil
		})
	}
	for c, backend := range backends {
		if got := c.Ask("and now", deadline); got.Backend != backend {
			t.Errorf("%s: %s, was %s", c.name, got, backend)
		}
	}
	for line := range strings.Lines(events.Output()) {
		if strings.Contains(line, "dport=53 ") {
			t.Errorf("a flow was touched: %s", line)
		}
	}
}

// seen waits until conntrack -E tells of a flow that is made for it.
func (w *world) seen(events *lab.Process) {
	w.t.Helper()
	eventually(w.t, func() error {
		w.Nodes[0].Connect(w.t.Context(), lab.UDP, netip.MustParseAddrPort("10.20.0.11:9"), 20*time.Millisecond)
		if !strings.Contains(events.Output(), "dport=9 ") {
			return fmt.Errorf("no events")
		}
		return nil
	})
}

// TestC05TCPDrains: an endpoint leaves: UDP flows move, TCP connections go on.
func TestC05TCPDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	for _, b := range w.Backends {
		b.Serve(lab.UDP, 80)
		b.Serve(lab.TCP, 80)
	}
	const both = "{name: u, port: 80, protocol: UDP}, {name: t, port: 80, protocol: TCP}"
	w.write("web.yaml", service("web", dual+`clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"], ports: [`+both+"]"))
	w.write("slice.yaml", slice("web/v4", both, "10.20.0.11"), slice("web/v6", both, "2001:db8:20::11"))
	w.agent(w.Nodes[0])
	var downloads []*lab.Conn
	var datagrams []*udpClient
	for i, to := range []string{"10.96.0.20:80", "[2001:db8:96::20]:80"} {
		c := must[*lab.Conn](t)(w.Client.Dial(t.Context(), lab.TCP, netip.MustParseAddrPort(to), 0))
		t.Cleanup(func() { c.Close() })
		downloads, datagrams = append(downloads, c), append(datagrams, w.udpClient(w.Client, to, uint16(42000+i)))
	}
	page := strings.Repeat("x", 30_000)
	for i, c := range downloads {
		datagrams[i].until(t, lab.OK, "b1")
		if got := c.Ask(page+"first", deadline); got.Backend != "b1" {
			t.Fatal(got)
		}
	}
	w.write("slice.yaml", slice("web/v4", both, "10.20.0.12"), slice("web/v6", both, "2001:db8:20::12"))
	for i, c := range downloads {
		datagrams[i].until(t, lab.OK, "b2")
		if got := c.Ask(page+"last", deadline); got.Outcome != lab.OK || got.Backend != "b1" || got.Payload != page+"last" {
			t.Errorf("a connection to the endpoint that drains: %v from %s", got.Outcome, got.Backend)
		}
		to := netip.MustParseAddrPort([]string{"10.96.0.20:80", "[2001:db8:96::20]:80"}[i])
		if got := w.Client.Connect(t.Context(), lab.TCP, to, deadline); got.Backend != "b2" {
			t.Errorf("a new connection: %s", got)
		}
	}
}

// TestC08StoppedAgent: the agent doesn't run when the last endpoint leaves.
func TestC08StoppedAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.endpoints(true, true)
	agents := w.dnsWays()
	for _, a := range agents {
		a.healthy()
	}
	clients := w.dnsClients()
	for c, backend := range clients {
		c.until(t, lab.OK, backend)
	}
	for _, a := range agents {
		if err := a.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	w.endpoints(false, false)
	for c, backend := range clients {
		if got := c.Ask("still there", deadline); got.Backend != backend {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	for _, a := range slices.Backward(agents) {
		if err := a.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	for c := range clients {
		c.until(t, lab.Refused, "")
	}
}
