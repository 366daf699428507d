package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/reconcile"
	"pointsman/reconcile/lab"
	"pointsman/state"
)

// counting makes connections, each of a port of its own, so that none is taken
// for another one's packet, and keeps the books.
type counting struct {
	*world
	made map[string]int // by what metrics call it
	port uint16
}

// backends are those of the Services of TestConnectionMetrics by name, and by
// family.
var backends = map[string][2]string{"b1": {"10.20.0.11", "2001:db8:20::11"}, "b2": {"10.20.0.12", "2001:db8:20::12"},
	"b3": {"10.20.1.21", "2001:db8:20:1::21"}, "n1": {"10.20.0.1", "2001:db8:20::1"}}

func (c *counting) connect(n int, from *lab.Host, proto, service, to string) {
	c.t.Helper()
	for range n {
		c.port++
		conn := must[*lab.Conn](c.t)(from.Dial(c.t.Context(), proto, addrPort(to), c.port))
		got := conn.Ask("hello", lab.Patience)
		conn.Close()
		if got.Outcome != lab.OK {
			c.t.Fatalf("%s by %s: %s", to, proto, got)
		}
		port := fmt.Sprintf("service %s/%s", service, strings.ToUpper(proto))
		address := netip.MustParseAddr(backends[got.Backend][0])
		if addrPort(to).Addr().Is6() {
			address = netip.MustParseAddr(backends[got.Backend][1])
		}
		c.made[port]++
		c.made[fmt.Sprintf("endpoint %s/%s %s", service, strings.ToUpper(proto), netip.AddrPortFrom(address, 8080))]++
	}
}

var connectionSeries = regexp.MustCompile(`(?m)^pointsman_(service|endpoint)_connections_total\{(?:endpoint="(.*?)",)?namespace="(.*?)",port="(.*?)",protocol="(.*?)",service="(.*?)"\} (\d+)$`)

// counted gives the metrics of connections, but those that are 0.
func (a *daemon) counted() map[string]int {
	a.t.Helper()
	_, body, err := a.get("http://127.0.0.1:10249/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	all := map[string]int{}
	for _, m := range connectionSeries.FindAllStringSubmatch(string(body), -1) {
		if n := must[int](a.t)(strconv.Atoi(m[7])); n > 0 {
			all[strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s %s", m[1], m[6], m[4], m[5], m[2]))] = n
		}
	}
	return all
}

// check waits until the metrics say what there was: they may be of a moment ago.
func (c *counting) check(a *daemon, when string) {
	c.t.Helper()
	eventually(c.t, func() error {
		if got := a.counted(); !maps.Equal(got, c.made) {
			return fmt.Errorf("%s: counted\n%v, and there were\n%v", when, got, c.made)
		}
		return nil
	})
}

// TestConnectionMetrics: every connection by whatever address is counted once,
// for its Service port and endpoint, and nobody else's. Totals outlive the
// agent, what it doesn't see, and what the kernel forgets meanwhile.
func TestConnectionMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	n1, b1 := w.Nodes[0], w.Backends[0]
	for _, h := range append([]*lab.Host{n1}, w.Backends...) {
		h.Serve(lab.TCP, 8080)
		h.Serve(lab.UDP, 8080)
	}
	const both = "{name: p, port: 8080}, {name: u, port: 8080, protocol: UDP}"
	web := func(v4 ...string) {
		w.write("web.yaml", service("web", dual+`type: LoadBalancer, clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"],
			ports: [{name: p, port: 80, nodePort: 30080}, {name: u, port: 80, nodePort: 30080, protocol: UDP}]`, "pointsman/load-balancer-ips: 192.0.2.200"),
			slice("web/v4", both, v4...), slice("web/v6", both, "2001:db8:20::11", "2001:db8:20::12"))
	}
	web("10.20.0.11@n1", "10.20.0.12@n1", "10.20.1.21@n2")
	w.write("here.yaml", service("here", "type: LoadBalancer, externalTrafficPolicy: Local, clusterIP: 10.96.0.21, ports: [{name: p, port: 80}]",
		"pointsman/load-balancer-ips: 192.0.2.201"), slice("here/1", "{name: p, port: 8080}", "10.20.0.1@n1"))
	w.route(n1, "192.0.2.200", "192.0.2.201")
	sh(t, n1, `nft 'table ip docker { chain c { type nat hook prerouting priority -100; }; }
		add rule ip docker c ip daddr 192.0.2.11 tcp dport 9999 dnat to 10.20.0.11:8080
		add rule ip docker c ip daddr 10.96.0.20 tcp dport 9999 dnat to 10.20.0.11:8080'`)
	a := w.agent(n1)
	c := &counting{world: w, made: map[string]int{}, port: 10000}

	c.connect(100, w.Client, lab.TCP, "web/p", "10.96.0.20:80")
	c.connect(100, w.Client, lab.TCP, "web/p", "192.0.2.11:30080")
	c.connect(100, w.Client, lab.TCP, "web/p", "192.0.2.200:80")
	for _, to := range []string{"10.96.0.20:80", "192.0.2.200:80", "[2001:db8:96::20]:80"} {
		c.connect(10, n1, lab.TCP, "web/p", to)
		c.connect(10, w.Client, lab.UDP, "web/u", to)
		c.connect(10, b1, lab.UDP, "web/u", to) // some are its own server's
		c.connect(10, b1, lab.TCP, "web/p", to)
	}
	for _, to := range []string{"10.96.0.21:80", "192.0.2.201:80"} {
		c.connect(10, w.Client, lab.TCP, "here/p", to)
		c.connect(10, n1, lab.TCP, "here/p", to)
	}
	for _, to := range []string{"192.0.2.11:9999", "10.96.0.20:9999"} { // Docker's, as it were
		check(t, row{from: w.Client, to: to, by: "b1"})
	}
	c.check(a, "at first")

	a.end(syscall.SIGKILL)
	c.connect(10, w.Client, lab.TCP, "web/p", "10.96.0.20:80")
	a.start()
	a.healthy()
	c.check(a, "after a crash")
	a.end(syscall.SIGTERM)
	sh(t, n1, "nft flush set ip pointsman connections")
	a.start()
	a.healthy()
	c.check(a, "after the kernel forgot")
	c.connect(10, w.Client, lab.TCP, "web/p", "10.96.0.20:80")
	c.check(a, "and again")

	web("10.20.0.11@n1", "10.20.1.21@n2")
	delete(c.made, "endpoint web/p/TCP 10.20.0.12:8080")
	delete(c.made, "endpoint web/u/UDP 10.20.0.12:8080")
	eventually(t, func() error {
		if n := a.metric("pointsman_endpoints"); n != 9 {
			return fmt.Errorf("%v endpoints", n)
		}
		return nil
	})
	c.check(a, "an endpoint has left")

	a.args = append(a.args, "--connection-metrics=false")
	a.restart(syscall.SIGTERM)
	a.said("rewritten=true")
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b3"})
	if got := a.counted(); len(got) > 0 {
		t.Errorf("switched off, it counts %v", got)
	}
	if text := sh(t, n1, "nft list table ip pointsman"); strings.Contains(text, "set connections") {
		t.Errorf("switched off, there is\n%s", text)
	}
}

// TestConnectionsAreReadInMeasure: a reading that takes long isn't made for each
// scrape, and one that fails leaves what was read before.
func TestConnectionsAreReadInMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings, fails := 0, error(nil)
		n := &connections{
			latest: func() *reconcile.Input { return &reconcile.Input{} },
			read: func() ([]reconcile.PairCount, error) {
				readings++
				time.Sleep(time.Second)
				return make([]reconcile.PairCount, readings), fails
			},
			log: slog.New(slog.DiscardHandler), totals: reconcile.NewTotals(),
		}
		look := func(want, pairs int) {
			t.Helper()
			if got := n.look(time.Now()); readings != want || got.v4 != pairs {
				t.Errorf("%d readings, %d pairs; want %d, %d", readings, got.v4, want, pairs)
			}
		}
		look(1, 1)
		look(1, 1)
		time.Sleep(share * time.Second)
		look(2, 2)
		fails = errors.New("no buffer space available")
		time.Sleep(share * time.Second)
		look(3, 2)
	})
}

// TestDamagedTotals: a file that can't be read is no reason not to count.
func TestDamagedTotals(t *testing.T) {
	path := filepath.Join(t.TempDir(), connectionsFile)
	if _, err := readTotals(path); err != nil {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"pairs": [{"count": -1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if totals, err := readTotals(path); totals == nil || err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v, %v", totals, err)
	}
}

// TestBoundedConnections: whole Service ports find room, or don't, by name.
func TestBoundedConnections(t *testing.T) {
	port := func(name string, endpoints int) reconcile.PortConnections {
		return reconcile.PortConnections{PortName: reconcile.PortName{ObjectName: state.ObjectName{Name: name}},
			Endpoints: make([]reconcile.EndpointConnections, endpoints)}
	}
	all := []reconcile.PortConnections{port("a", 2), port("b", 5), port("c", 1), port("d", 0)}
	for limit, want := range map[int]string{
		0:   "[] left out 4 8",
		3:   "[a-0 b-0 c-0] left out 1 8",
		4:   "[a-0 b-0 c-0 d-0] left out 0 8",
		6:   "[a-2 b-0 c-0 d-0] left out 0 6",
		7:   "[a-2 b-0 c-1 d-0] left out 0 5",
		12:  "[a-2 b-5 c-1 d-0] left out 0 0",
		100: "[a-2 b-5 c-1 d-0] left out 0 0",
	} {
		ports, services, endpoints := bounded(all, limit)
		texts := []string{}
		for _, p := range ports {
			texts = append(texts, fmt.Sprintf("%s-%d", p.Name, len(p.Endpoints)))
		}
		if got := fmt.Sprintf("%v left out %d %d", texts, services, endpoints); got != want {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
	}
}
