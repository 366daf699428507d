package reconcile

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// countedVIPs are an address that this host has, and one of each kind.
type countedVIPs struct{ own, cluster, vip, local, foreign, backend string }

var countedBy = map[nft.Family]countedVIPs{
	nft.IPv4: {"192.0.2.11", "10.96.0.1", "192.0.2.200", "192.0.2.201", "198.51.100.1", "127.0.0.1"},
	nft.IPv6: {"2001:db8::11", "fd00::1", "2001:db8::200", "2001:db8::201", "2001:db8:1::1", "::1"},
}

// countedInput serves two Services, one of policy Local, by an endpoint on this
// very host.
func countedInput(f nft.Family) *Input {
	v := countedBy[f]
	unspecified := netip.IPv4Unspecified()
	if f == nft.IPv6 {
		unspecified = netip.IPv6Unspecified()
	}
	in := &Input{Node: Node{Name: "n1"}, NodePortAddresses: addrs(v.own), Addresses: addrs(v.own, v.backend)}
	for i, policy := range []state.TrafficPolicy{state.Cluster, state.Local} {
		s := &state.Service{ObjectName: state.ObjectName{Namespace: "default", Name: string(policy)},
			ExternalTrafficPolicy: policy, InternalTrafficPolicy: policy}
		if policy == state.Cluster {
			s.ClusterIPs = addrs(v.cluster)
		}
		for _, proto := range []state.Protocol{state.TCP, state.UDP} {
			p := state.Port{Name: "p", Protocol: proto, Frontends: []state.Frontend{
				{Kind: state.ExternalIP, Address: addrs(v.vip, v.local)[i], Port: 80},
				{Kind: state.NodePort, Address: unspecified, Port: uint16(30080 + i)},
			}}
			for _, a := range s.ClusterIPs {
				p.Frontends = append(p.Frontends, state.Frontend{Kind: state.ClusterIP, Address: a, Port: 80})
			}
			p.Endpoints = []state.Endpoint{{Address: netip.AddrPortFrom(netip.MustParseAddr(v.backend), 8080), NodeName: "n1", Ready: true, Serving: true}}
			s.Ports = append(s.Ports, p)
		}
		in.Services = append(in.Services, s)
	}
	return in
}

// reachable gives this namespace a way to the addresses, and a backend.
func reachable(t testing.TB, f nft.Family) {
	t.Helper()
	v := countedBy[f]
	flag := map[nft.Family]string{nft.IPv4: "-4", nft.IPv6: "-6"}[f]
	own := fmt.Sprintf("%s/%d", v.own, netip.MustParseAddr(v.own).BitLen())
	run(t, fmt.Sprintf("ip %s addr add %s dev lo && ip %s route add default dev lo", flag, own, flag))
	t.Cleanup(func() {
		run(t, fmt.Sprintf("ip %s route del default dev lo; ip %s addr del %s dev lo", flag, flag, own))
	})
	l, err := net.Listen("tcp", net.JoinHostPort(v.backend, "8080"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
}

// flowPort is where the last UDP flow came from. Ports that the kernel draws may be
// drawn again, and a flow that goes on is not counted again.
var flowPort atomic.Int32

// connect makes connections: TCP ones succeed, UDP ones are a datagram.
func connect(t testing.TB, n int, proto, addr, port string) {
	t.Helper()
	for range n {
		d := net.Dialer{Timeout: 10 * time.Second}
		if proto == "udp" {
			d.LocalAddr = &net.UDPAddr{Port: 20_000 + int(flowPort.Add(1))} // of no range that the kernel draws from
		}
		c, err := d.Dial(proto, net.JoinHostPort(addr, port))
		if err == nil && proto == "udp" {
			_, err = c.Write([]byte("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// counts gives what the kernel counted as lines.
func counts(t testing.TB) (lines []string) {
	t.Helper()
	read, err := ReadPairCounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range read {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", c.Protocol, c.Frontend, c.Endpoint, c.Count))
	}
	slices.Sort(lines)
	return lines
}

// requireCounts waits for what the kernel counts: a packet may be on its way
// through loopback when its sender has gone on.
func requireCounts(t *testing.T, want []string) {
	t.Helper()
	got := []string{"not read"}
	for began := time.Now(); !slices.Equal(got, want) && time.Since(began) < patience; got = counts(t) {
	}
	requireSame(t, got, want)
}

// TestKernelConnections: each connection is counted once, for its frontend and
// endpoint, and nobody else's; counts outlive syncs and the agent, but not the
// flag.
func TestKernelConnections(t *testing.T) {
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		t.Run(string(f), func(t *testing.T) {
			v, in := countedBy[f], countedInput(f)
			reachable(t, f)
			run(t, fmt.Sprintf(`nft 'table %[1]s docker { chain c { type nat hook output priority -100; }; }
				add rule %[1]s docker c %[1]s daddr %[2]s meta l4proto { tcp, udp } dnat to %[4]s
				add rule %[1]s docker c %[1]s daddr %[3]s udp dport 9999 dnat to %[4]s'`,
				f, v.foreign, v.own, net.JoinHostPort(v.backend, "8080")))
			t.Cleanup(func() { run(t, "nft delete table "+string(f)+" docker") })
			k, p := openKernel(t, f), NewPlanner(f)
			syncTo(t, k, p, in)
			var want []string
			for n, to := range [][2]string{{v.cluster, "80"}, {v.vip, "80"}, {v.local, "80"}, {v.own, "30080"}, {v.own, "30081"}} {
				for _, proto := range []string{"tcp", "udp"} {
					connect(t, n+2, proto, to[0], to[1])
					connect(t, 1, proto, v.foreign, "80")
					want = append(want, fmt.Sprintf("%s %s %s %d", strings.ToUpper(proto), net.JoinHostPort(to[0], to[1]), net.JoinHostPort(v.backend, "8080"), n+2))
				}
			}
			connect(t, 3, "udp", v.own, "9999") // somebody's else at our NodePort address
			slices.Sort(want)
			requireCounts(t, want)

			less := *in
			less.Services = in.Services[1:]
			syncTo(t, k, p, &less)
			syncTo(t, k, p, in)
			k.Forget(true)
			syncTo(t, k, NewPlanner(f), in)
			requireSame(t, counts(t), want)
			k.Forget(false)
			if s := syncTo(t, k, NewPlanner(f), in); s != (nft.Stats{}) {
				t.Errorf("a restart sent %+v", s)
			}

			off := *in
			off.Uncounted = true
			if s := syncTo(t, k, p, &off); s.Transactions != 1 || !s.Rewritten || s.Elements != 0 {
				t.Errorf("switched off: %+v", s)
			}
			if text := run(t, "nft list table "+string(f)+" pointsman"); strings.Contains(text, "count") || strings.Contains(text, "@connections") {
				t.Errorf("switched off, there is\n%s", text)
			}
			connect(t, 1, "tcp", v.cluster, "80")
			requireSame(t, counts(t), nil)
			if s := syncTo(t, k, p, in); s.Transactions != 1 || !s.Rewritten || s.Elements != 0 {
				t.Errorf("switched on: %+v", s)
			}
			connect(t, 1, "tcp", v.cluster, "80")
			if got := counts(t); len(got) != 1 {
				t.Errorf("switched on, it counts %q", got)
			}
		})
	}
}

// TestKernelConnectionsFull: a full set costs the count and no connection, and
// pairs that are in it go on counting.
func TestKernelConnectionsFull(t *testing.T) {
	f := nft.IPv4
	v, in := countedBy[f], countedInput(f)
	reachable(t, f)
	k := openKernel(t, f)
	syncTo(t, k, NewPlanner(f), in)
	connect(t, 1, "tcp", v.cluster, "80")
	others := make([]string, connections.Dynamic-1)
	for i := range others {
		others[i] = fmt.Sprintf("203.0.113.1 . tcp . 80 . 10.1.%d.%d . 80 timeout 1d", i/256, i%256)
	}
	file := filepath.Join(t.TempDir(), "others.nft")
	if err := os.WriteFile(file, []byte("add element ip pointsman connections { "+strings.Join(others, ", ")+" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "nft -f "+file)
	connect(t, 2, "tcp", v.vip, "80")
	connect(t, 2, "tcp", v.cluster, "80")
	var got []string
	for _, line := range counts(t) {
		if !strings.HasSuffix(line, " 0") {
			got = append(got, line)
		}
	}
	requireSame(t, got, []string{"TCP 10.96.0.1:80 127.0.0.1:8080 3"})
	k.Forget(false)
	if s := syncTo(t, k, NewPlanner(f), in); s != (nft.Stats{}) {
		t.Errorf("a restart sent %+v", s)
	}
}

// TestKernelConnectionsOfOthers: a set of another definition is replaced, and
// what somebody writes into ours is nobody's drift.
func TestKernelConnectionsOfOthers(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	before := *simpleInput(2, 2)
	before.Uncounted = true
	syncTo(t, k, p, &before)
	run(t, "nft add set ip pointsman connections '{ type inet_service; elements = { 80 }; }'")
	k.Forget(false)
	if s := syncTo(t, k, p, simpleInput(2, 2)); s.Transactions != 1 || s.Elements != 0 || !s.Rewritten {
		t.Errorf("sent %+v", s)
	}
	requireSame(t, counts(t), nil)
	run(t, "nft add element ip pointsman connections '{ 192.0.2.1 . tcp . 80 . 192.0.2.2 . 80 timeout 1h }'")
	k.Forget(false)
	if s := syncTo(t, k, p, simpleInput(2, 2)); s != (nft.Stats{}) {
		t.Errorf("sent %+v", s)
	}
	requireSame(t, counts(t), []string{"TCP 192.0.2.1:80 192.0.2.2:80 0"})
}

// datagrams makes connections of a datagram each, with as little around them as
// can be.
func datagrams(t testing.TB, n int, to netip.AddrPort) {
	t.Helper()
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err == nil {
			err = errors.Join(unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}), unix.Close(fd))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// perRound is less than the ports that there are for datagrams to come from.
const perRound = 20_000

// BenchmarkConnections makes connections of datagrams from this very host by a
// ClusterIP. x-uncounted is their CPU time against that without counting, of
// the worst case too: a NodePort of policy Local takes three lookups.
func BenchmarkConnections(b *testing.B) {
	f := nft.IPv4
	v, in := countedBy[f], countedInput(f)
	off := *in
	off.Uncounted = true
	reachable(b, f)
	k, p := openKernel(b, f), NewPlanner(f)
	for name, to := range map[string][2]string{"ClusterIP": {v.cluster, "80"}, "NodePortLocal": {v.own, "30081"}} {
		b.Run(name, func(b *testing.B) {
			var with, without cost
			measure := func(in *Input, sum *cost) {
				syncTo(b, k, p, in)
				run(b, "conntrack -F 2>/dev/null")
				began := now()
				datagrams(b, perRound, netip.MustParseAddrPort(net.JoinHostPort(to[0], to[1])))
				sum.add(since(began))
			}
			measure(&off, &cost{})
			for b.Loop() {
				measure(in, &with)
				measure(&off, &without)
			}
			b.ReportMetric(float64(with.cpu)/float64(without.cpu), "cpu-x-uncounted")
			b.ReportMetric(float64(with.cpu-without.cpu)/float64(perRound*b.N), "cpu-ns/connection")
			b.ReportMetric(float64(without.cpu)/float64(perRound*b.N), "cpu-ns/uncounted")
		})
	}
}
