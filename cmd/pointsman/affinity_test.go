package main

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// client is one of the addresses of the client host.
type client struct {
	host *lab.Host
	addr netip.Addr
}

func (c client) String() string { return c.addr.String() }

// clients gives the client host more addresses.
func (w *world) clients(addrs ...string) []client {
	w.t.Helper()
	var all []client
	var lines []string
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		length := 24
		if a.Is6() {
			length = 64
		}
		line := fmt.Sprintf("addr add %s/%d dev eth0", text, length)
		if a.Is6() {
			line += " nodad preferred_lft 0" // nobody's source by itself
		}
		lines = append(lines, line)
		all = append(all, client{w.Client, a})
	}
	w.Client.IP(lines...)
	return all
}

// crowd gives n clients of each family.
func (w *world) crowd(n int) []client {
	w.t.Helper()
	var addrs []string
	for i := range n {
		addrs = append(addrs, fmt.Sprintf("192.0.2.%d", 100+i), fmt.Sprintf("2001:db8::1:%x", 1+i))
	}
	return w.clients(addrs...)
}

// ask makes one connection from the client's address and gives the backend
// that answered.
func (c client) ask(to string, timeout time.Duration) (backend string, err error) {
	var conn net.Conn
	if err := c.host.Do(func() (err error) {
		conn, err = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: c.addr.AsSlice()}, Timeout: timeout}).Dial(lab.TCP, to)
		return err
	}); err != nil {
		return "", err
	}
	open := lab.Conn{Conn: conn}
	defer open.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	backend, _, _ = strings.Cut(line, " ")
	return backend, err
}

// lab80 gives port 80 of an address.
func lab80(addr string) string { return netip.AddrPortFrom(netip.MustParseAddr(addr), 80).String() }

// frontend is a Service's address in each family.
type frontend struct{ v4, v6 string }

func (f frontend) of(c client) string {
	if c.addr.Is4() {
		return f.v4
	}
	return f.v6
}

// homes tells which backend each client gets.
func homes(t *testing.T, clients []client, f frontend) map[client]string {
	t.Helper()
	got := map[client]string{}
	for _, c := range clients {
		backend, err := c.ask(f.of(c), lab.Patience)
		if err != nil {
			t.Fatalf("%s to %s: %v", c, f.of(c), err)
		}
		got[c] = backend
	}
	return got
}

// stay requires that each client gets the backend that it had.
func stay(t *testing.T, when string, had map[client]string, f frontend) {
	t.Helper()
	for c, backend := range had {
		if got, err := c.ask(f.of(c), lab.Patience); got != backend {
			t.Errorf("%s: %s at %s has come from %s to %s (%v)", when, c, f.of(c), backend, got, err)
		}
	}
}

// among counts the clients of each backend.
func among(homes map[client]string) map[string]int {
	n := map[string]int{}
	for _, backend := range homes {
		n[backend]++
	}
	return n
}

const sticky = "sessionAffinity: ClientIP, "

func timeout(seconds int) string {
	return fmt.Sprintf("%ssessionAffinityConfig: {clientIP: {timeoutSeconds: %d}}, ", sticky, seconds)
}

// addresses gives a Service's addresses in both families.
func addresses(n int) (spec string, f frontend) {
	v4, v6 := fmt.Sprintf("10.96.0.%d", n), fmt.Sprintf("2001:db8:96::%d", n)
	return fmt.Sprintf("%sclusterIP: %s, clusterIPs: [%s, %q], ", dual, v4, v4, v6), frontend{lab80(v4), lab80(v6)}
}

// remembered lists the clients that a node remembers, of all slots.
func remembered(t *testing.T, h *lab.Host) string {
	t.Helper()
	return sh(t, h, `for f in ip ip6; do nft list sets $f | awk -v f=$f '/^table/ { ours = $3 == "pointsman" } ours && /set affinity-/ { print f, $2 }' |
		while read f s; do nft list set $f pointsman $s; done; done | tr , '\n' | grep expires || true`)
}

// forgotten waits until a node remembers no client of an address.
func forgotten(t *testing.T, h *lab.Host, addr string) {
	t.Helper()
	eventually(t, func() error {
		if list := remembered(t, h); strings.Contains(list, " "+addr+" . tcp") {
			return fmt.Errorf("still remembered: %s", list)
		}
		return nil
	})
}

// TestC88AffinityTimeout: a client stays as long as it comes back in time, and
// is free after that; also where the backend is a process of the host itself.
func TestC88AffinityTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	n1 := w.Nodes[0]
	n1.Serve(lab.TCP, 8080)
	const seconds = 2
	write := func(name string, n int, affinity string, v4, v6 []string) frontend {
		spec, f := addresses(n)
		w.write(name+".yaml", service(name, spec+affinity+http80), slice(name+"/v4", http8080, v4...), slice(name+"/v6", http8080, v6...))
		return f
	}
	far4, far6 := []string{"10.20.0.11", "10.20.0.12"}, []string{"2001:db8:20::11", "2001:db8:20::12"}
	far := write("far", 20, timeout(seconds), far4, far6)
	own := write("own", 21, timeout(seconds), []string{"10.20.0.11", "192.0.2.11@n1"}, []string{"2001:db8:20::11", "2001:db8::11@n1"})
	limits := map[string]frontend{"1d": write("longest", 22, timeout(86400), far4, far6), "3h": write("default", 23, sticky, far4, far6)}
	shortest := write("shortest", 24, timeout(1), far4, far6)
	w.agent(n1)
	crowd := w.crowd(20)

	for text, f := range limits {
		had := homes(t, crowd[:2], f)
		for c := range had {
			want := c.addr.String() + " . " + addrPort(f.of(c)).Addr().String() + " . tcp . 80 timeout " + text + " "
			if list := remembered(t, n1); !strings.Contains(list, want) {
				t.Errorf("no %q in\n%s", want, list)
			}
		}
	}
	homes(t, crowd[:2], shortest)
	forgotten(t, n1, "10.96.0.24")
	forgotten(t, n1, "2001:db8:96::24")

	for name, f := range map[string]frontend{"far": far, "own": own} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comeBack(t, crowd[:4], f, seconds*time.Second)
			first := homes(t, crowd, f)
			forgotten(t, n1, addrPort(f.v4).Addr().String())
			forgotten(t, n1, addrPort(f.v6).Addr().String())
			second := homes(t, crowd, f)
			if maps.Equal(first, second) {
				t.Errorf("after the time is over, all of %d clients are where they were", len(crowd))
			}
			if n := among(second); len(n) != 2 {
				t.Errorf("%v", n)
			}
		})
	}
}

// comeBack has clients come back for twice as long as they are remembered, and
// requires that they stay, but for a client that was kept away for so long.
func comeBack(t *testing.T, clients []client, f frontend, remembered time.Duration) {
	t.Helper()
	had, last := homes(t, clients, f), map[client]time.Time{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	compared := 0
	for began := time.Now(); time.Since(began) < 2*remembered; <-tick.C {
		for _, c := range clients {
			asked := time.Now()
			got, err := c.ask(f.of(c), lab.Patience)
			inTime := time.Since(last[c]) < remembered
			if err != nil || inTime && got != had[c] {
				t.Fatalf("%s has come from %s to %s (%v)", c, had[c], got, err)
			}
			if inTime {
				compared++
			}
			had[c], last[c] = got, asked
		}
	}
	if compared == 0 {
		t.Error("nobody has come back in time")
	}
}

// TestC89AffinityOfEachFrontend: each port of a ClusterIP, and each NodePort,
// remembers clients by itself.
func TestC89AffinityOfEachFrontend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1)
	w.serve(8080)
	spec, http := addresses(20)
	const ports = "{name: http, port: 8080}, {name: https, port: 8080}"
	w.write("web.yaml", service("web", spec+sticky+`type: NodePort, ports: [{name: http, port: 80, nodePort: 30080}, {name: https, port: 443, nodePort: 30443}]`),
		slice("web/v4", ports, "10.20.0.11", "10.20.0.12", "10.20.0.13", "10.20.1.21"),
		slice("web/v6", ports, "2001:db8:20::11", "2001:db8:20::12", "2001:db8:20::13", "2001:db8:20:1::21"))
	w.agent(w.Nodes[0])
	crowd := w.crowd(20)
	frontends := []frontend{http, {"10.96.0.20:443", "[2001:db8:96::20]:443"}, {"192.0.2.11:30080", "[2001:db8::11]:30080"}, {"192.0.2.11:30443", "[2001:db8::11]:30443"}}
	var had []map[client]string
	for _, f := range frontends {
		had = append(had, homes(t, crowd, f))
	}
	for i, f := range frontends {
		for range 3 {
			stay(t, "again", had[i], f)
		}
		if n := among(had[i]); len(n) != 4 {
			t.Errorf("%s: %v", f.v4, n)
		}
		for j := range i {
			if maps.Equal(had[i], had[j]) {
				t.Errorf("%s and %s share their clients", f.v4, frontends[j].v4)
			}
		}
	}
}

// TestAffinityThroughChanges: clients stay through endpoints that come and go,
// restarts and kills; those of an endpoint that leaves get another at once, and
// nobody inherits them.
func TestAffinityThroughChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1)
	w.serve(8080)
	n1 := w.Nodes[0]
	v4 := map[string]string{"b1": "10.20.0.11", "b2": "10.20.0.12", "b3": "10.20.0.13", "b4": "10.20.1.21"}
	v6 := map[string]string{"b1": "2001:db8:20::11", "b2": "2001:db8:20::12", "b3": "2001:db8:20::13", "b4": "2001:db8:20:1::21"}
	sum := func(backends ...string) (a, b []string) {
		for _, name := range backends {
			a, b = append(a, v4[name]), append(b, v6[name])
		}
		return a, b
	}
	web, f := addresses(20)
	round := 100
	var a *daemon
	// change is over when the Service that comes with it is served.
	change := func(backends ...string) {
		t.Helper()
		spec, marker := addresses(round)
		round++
		e4, e6 := sum(backends...)
		w.write("web.yaml", service("web", web+sticky+http80), slice("web/v4", http8080, e4...), slice("web/v6", http8080, e6...),
			service("marker", spec+http80), slice("marker/v4", http8080, v4["b1"]), slice("marker/v6", http8080, v6["b1"]))
		if a == nil {
			a = w.agent(n1)
		}
		await(t, row{from: n1, to: marker.v4, by: "b1"})
		await(t, row{from: n1, to: marker.v6, by: "b1"})
	}
	change("b1", "b2", "b3")
	had := homes(t, w.crowd(60), f)
	stay(t, "at rest", had, f)
	change("b1", "b2", "b3", "b4")
	stay(t, "another endpoint has come", had, f)
	change("b1", "b2", "b3")
	stay(t, "and gone", had, f)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		a.end(s)
		stay(t, "down by "+s.String(), had, f)
		a.start()
		a.healthy()
		stay(t, "restarted after "+s.String(), had, f)
	}

	change("b1", "b3")
	var leave, silent []client // every second one comes back only after b4
	for c, backend := range had {
		if backend == "b2" {
			leave = append(leave, c)
		}
	}
	for i, c := range leave {
		if i%2 == 0 {
			delete(had, c)
			silent = append(silent, c)
			continue
		}
		got, err := c.ask(f.of(c), lab.Patience)
		if got != "b1" && got != "b3" {
			t.Errorf("%s of b2, which is gone, gets %q (%v)", c, got, err)
		}
		had[c] = got
	}
	stay(t, "b2 has gone", had, f)
	a.restart(syscall.SIGKILL)
	change("b1", "b3", "b4")
	stay(t, "b4 has come in its place", had, f)
	if n := among(homes(t, silent, f)); n["b2"] > 0 || n["b4"] == len(silent) {
		t.Errorf("where b2's clients are now: %v", n)
	}
}
