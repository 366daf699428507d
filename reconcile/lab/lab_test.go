package lab

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const patience = 30 * time.Second

func TestEveryoneReachesEveryone(t *testing.T) {
	l := New(t).L1()
	hosts := append([]*Host{l.Client, l.Router}, append(l.Nodes, l.Backends...)...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, from := range hosts {
		for _, to := range hosts {
			for _, addr := range []netip.Addr{to.Addr4(), to.Addr6()} {
				if err := from.Ping(ctx, addr); err != nil {
					t.Errorf("%s to %s (%s): %v", from, to, addr, err)
				}
			}
		}
	}
}

func TestAddressesOfL1(t *testing.T) {
	l := New(t).L1()
	for host, want := range map[*Host]string{
		l.Client:      "c 192.0.2.50 2001:db8::50",
		l.Router:      "r 192.0.2.1 2001:db8::1",
		l.Nodes[0]:    "n1 192.0.2.11 2001:db8::11",
		l.Nodes[2]:    "n3 192.0.2.13 2001:db8::13",
		l.Backends[0]: "b1 10.20.0.11 2001:db8:20::11",
		l.Backends[2]: "b3 10.20.0.13 2001:db8:20::13",
		l.Backends[3]: "b4 10.20.1.21 2001:db8:20:1::21",
		l.Backends[4]: "b5 10.20.2.31 2001:db8:20:2::31",
	} {
		if got := strings.Join([]string{host.Name, host.Addr4().String(), host.Addr6().String()}, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestBackendTellsItsNameAndTheClientsAddress(t *testing.T) {
	l := New(t).L1(1)
	b := l.Backends[0]
	for _, proto := range []string{TCP, UDP, SCTP} {
		server := b.Serve(proto, 80)
		for _, addrs := range [][2]netip.Addr{{l.Client.Addr4(), b.Addr4()}, {l.Client.Addr6(), b.Addr6()}} {
			got := l.Client.Connect(t.Context(), proto, netip.AddrPortFrom(addrs[1], 80), patience)
			if got.Outcome != OK || got.Backend != "b1" || got.Source.Addr() != addrs[0] || got.Payload != "hello" {
				t.Errorf("%s %s: %s", proto, addrs[1], got)
			}
		}
		if server.Received() != 2 {
			t.Errorf("%s: %d requests received, want 2", proto, server.Received())
		}
	}
}

func TestOutcomesOfFailures(t *testing.T) {
	l := New(t).L1(1)
	b, n := l.Backends[0], l.Nodes[0]
	n.Sysctl("net.ipv4.icmp_ratelimit", "0")
	n.Sysctl("net.ipv6.icmp.ratelimit", "0")
	b.Serve(UDP, 82).Mute(true)
	rules := `table inet lab {
		chain forward {
			type filter hook forward priority 0
			th dport 81 drop
			meta l4proto { udp, sctp } th dport 83 reject with icmpx port-unreachable
			tcp dport 83 reject with tcp reset
			th dport 84 reject with icmpx host-unreachable
		}
	}`
	if out, err := n.Run(t.Context(), "nft", rules); err != nil {
		t.Fatal(out, err)
	}
	for _, want := range []struct {
		proto   string
		port    uint16
		timeout time.Duration
		outcome Outcome
	}{
		{TCP, 80, patience, Refused}, // nobody listens
		{UDP, 80, patience, Refused},
		{TCP, 81, 150 * time.Millisecond, Timeout},
		{UDP, 81, 150 * time.Millisecond, Timeout},
		{SCTP, 81, 150 * time.Millisecond, Timeout},
		{UDP, 82, 150 * time.Millisecond, Timeout},
		{TCP, 83, patience, Refused},
		{UDP, 83, patience, Refused},
		{SCTP, 83, patience, Refused},
		{TCP, 84, patience, Unreachable},
	} {
		for _, addr := range []netip.Addr{b.Addr4(), b.Addr6()} {
			got := l.Client.Connect(t.Context(), want.proto, netip.AddrPortFrom(addr, want.port), want.timeout)
			if got.Outcome != want.outcome {
				t.Errorf("%s %s port %d: %s, want %s", want.proto, addr, want.port, got, want.outcome)
			}
		}
	}
}

// TestNAT has the kernel translate each protocol, with its checksums.
func TestNAT(t *testing.T) {
	l := New(t).L1(1)
	n, b := l.Nodes[0], l.Backends[0]
	rules := `table inet lab {
		chain pre {
			type nat hook prerouting priority -100
			ip daddr 10.96.0.10 meta l4proto { tcp, udp, sctp } dnat ip to 10.20.0.11:8080
			ip6 daddr 2001:db8:96::10 meta l4proto { tcp, udp, sctp } dnat ip6 to [2001:db8:20::11]:8080
		}
		chain post {
			type nat hook postrouting priority 100
			ct status dnat masquerade
		}
	}`
	if out, err := n.Run(t.Context(), "nft", rules); err != nil {
		t.Fatal(out, err)
	}
	for _, proto := range []string{TCP, UDP, SCTP} {
		b.Serve(proto, 8080)
		for vip, seen := range map[string]string{"10.96.0.10": "10.20.0.1", "2001:db8:96::10": "2001:db8:20::1"} {
			c, err := l.Client.Dial(t.Context(), proto, netip.AddrPortFrom(netip.MustParseAddr(vip), 80), 40000)
			if err != nil {
				t.Errorf("%s %s: %v", proto, vip, err)
				continue
			}
			for _, request := range []string{"one", "two"} {
				got := c.Ask(request, patience)
				if got.Outcome != OK || got.Source.Addr() != netip.MustParseAddr(seen) {
					t.Errorf("%s %s: %s", proto, vip, got)
				}
			}
			c.Close()
		}
	}
}

func TestLargeDatagramsCross(t *testing.T) {
	l := New(t).L1(1)
	l.Backends[0].Serve(UDP, 80)
	for _, addr := range []netip.Addr{l.Backends[0].Addr4(), l.Backends[0].Addr6()} {
		c, err := l.Client.Dial(t.Context(), UDP, netip.AddrPortFrom(addr, 80), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Ask(strings.Repeat("x", 4000), patience); got.Outcome != OK {
			t.Errorf("%s: %s", addr, got)
		}
		c.Close()
	}
}

func TestStreamTellsWhatBecameOfItsConnections(t *testing.T) {
	l := New(t).L1(1)
	b := l.Backends[0].Serve(TCP, 80)
	s := l.Client.Stream(t.Context(), TCP, netip.AddrPortFrom(l.Backends[0].Addr4(), 80), time.Millisecond)
	if err := s.Wait(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	if now := s.Now(); now.Check() != nil || now.Counts["b1"] != now.Total || s.Last("b1").IsZero() {
		t.Errorf("while b1 serves: %v, %v", now, now.Check())
	}
	b.Close()
	if err := s.Wait(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	end := s.Stop()
	// One that was waiting to be accepted when b1 closed is reset.
	if err := end.Check(); err == nil || end.Failed[len(end.Failed)-1].Outcome != Refused || end.Total < 40 {
		t.Errorf("after b1 has closed: %v, %v", end, err)
	}
}

func TestDoIsInsideAndComesBack(t *testing.T) {
	l := New(t)
	h := l.Host("h")
	interfaces := func() string {
		all, err := net.Interfaces()
		if err != nil {
			t.Fatal(err)
		}
		return all[len(all)-1].Name
	}
	h.IP("link add bridge-of-h type bridge")
	before := interfaces()
	err := h.Do(func() error {
		if got := interfaces(); got != "bridge-of-h" {
			t.Errorf("inside: %s", got)
		}
		return nil
	})
	if err != nil || interfaces() != before {
		t.Errorf("outside: %s, want %s (%v)", interfaces(), before, err)
	}
}

func TestSysctlIsTheHostsOwn(t *testing.T) {
	h := New(t).Host("h")
	h.Sysctl("net.ipv4.ip_forward", "1")
	out, err := h.Run(t.Context(), "cat", "/proc/sys/net/ipv4/ip_forward")
	if err != nil || out != "1\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestProcess(t *testing.T) {
	h := New(t).Host("h")
	polite, err := h.Start("sh", "-c", `trap 'echo bye; exit 3' TERM; echo hello; while :; do read x; done`)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return polite.Output() == "hello\n" })
	if err := polite.Stop(); err == nil || !strings.HasSuffix(polite.Output(), "bye\n") {
		t.Errorf("stopped: %v, printed %q", err, polite.Output())
	}
	deaf, err := h.Start("sh", "-c", `trap '' TERM; echo hello; while :; do read x; done`)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return deaf.Output() == "hello\n" })
	deaf.Kill()
	if deaf.Wait() == nil {
		t.Error("a killed process ended well")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	x := l.L1(1)
	x.Backends[0].Serve(TCP, 80)
	p, err := x.Client.Start("sleep", "1000")
	if err != nil || l.Err() != nil {
		t.Fatal(err, l.Err())
	}
	if len(ofPrefix(t, l.prefix)) == 0 {
		t.Error("no namespaces to remove")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := ofPrefix(t, l.prefix); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	<-p.Done()
	if err := l.Close(); err != nil {
		t.Error("a second time:", err)
	}
}

// TestLeftoversOfTheDead makes a namespace in the name of a process that ends
// then: as long as it lives, other tests' labs leave the namespace alone.
func TestLeftoversOfTheDead(t *testing.T) {
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	dead := &Lab{prefix: ours + strconv.Itoa(other.Process.Pid) + "-1-"}
	dead.Host("c").ns.Close()
	_ = other.Process.Kill()
	_ = other.Wait() // it was killed
	if dead.err != nil {
		t.Fatal(dead.err)
	}
	New(t)
	if got := ofPrefix(t, dead.prefix); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestErrorsOutsideTestsAreKept(t *testing.T) {
	l, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Host("h").IP("link set nosuch up")
	if l.Err() == nil || !strings.Contains(l.Err().Error(), "nosuch") {
		t.Errorf("got %v", l.Err())
	}
}

func ofPrefix(t *testing.T, prefix string) []string {
	t.Helper()
	entries, err := os.ReadDir(namespaces)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
}
