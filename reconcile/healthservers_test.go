package reconcile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// ownAddress gives this test's host an address for as long as the test takes.
func ownAddress(t *testing.T, addrs ...string) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		nodad := ""
		if a.Is6() {
			nodad = "nodad"
		}
		run(t, fmt.Sprintf("ip addr add %s/%d dev lo %s", a, a.BitLen(), nodad))
		t.Cleanup(func() { run(t, fmt.Sprintf("ip addr del %s/%d dev lo 2>/dev/null || true", a, a.BitLen())) })
		// The kernel receives for an IPv6 address a moment after it was added:
		// until then there's its prefix's route, which leads nowhere.
		eventually(t, "packets to "+text, func() bool {
			_, err := net.Dial("tcp", netip.AddrPortFrom(a, 9).String())
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		out = append(out, a)
	}
	return out
}

// servers are health servers that run, and retry quickly.
func servers(t *testing.T) (s *HealthServers, health *Health, log *bytes.Buffer) {
	t.Helper()
	log, health = &bytes.Buffer{}, &Health{}
	health.Programmed(time.Now())
	s = NewHealthServers(slog.New(slog.NewTextHandler(log, nil)), health)
	s.retry = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(s.running) != 0 {
			t.Errorf("still listening: %v", s.running)
		}
	})
	return s, health, log
}

// ask makes one request on a connection of its own.
func ask(at string) (code int, weight string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + at + "/any/path")
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-Load-Balancing-Endpoint-Weight"), nil
}

func requireAnswer(t *testing.T, at string, code int, weight string) {
	t.Helper()
	gotCode, gotWeight, err := ask(at)
	if err != nil || gotCode != code || gotWeight != weight {
		t.Errorf("%s: got %d with weight %q (%v), want %d with %q", at, gotCode, gotWeight, err, code, weight)
	}
}

// recovered waits until nothing is degraded: a port answers a moment before that
// is known.
func recovered(t *testing.T, health *Health) {
	t.Helper()
	eventually(t, "health", func() bool { return health.Status(time.Now()).Degraded == nil })
}

func requireRefused(t *testing.T, at string) {
	t.Helper()
	if code, _, err := ask(at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s: got %d (%v), want a refusal", at, code, err)
	}
}

func local(name string, port uint16, addresses ...string) *state.Service {
	var eps []state.Endpoint
	for _, a := range addresses {
		eps = append(eps, ready(a, "n1"))
	}
	return checked(name, port, eps)
}

func (s *HealthServers) setTo(addrs []netip.Addr, services ...*state.Service) {
	s.Set(healthChecks(services, "n1"), addrs)
}

// TestHealthServersFamilies: C22 and C23. Each family is answered by itself,
// on NodePort addresses only, and nothing is bound twice.
func TestHealthServersFamilies(t *testing.T) {
	all := ownAddress(t, "192.0.2.11", "203.0.113.11", "2001:db8::11")
	s, health, log := servers(t)
	s.setTo([]netip.Addr{all[0], all[2]}, local("web", 30901, "10.0.0.1:80"))
	requireAnswer(t, "192.0.2.11:30901", 200, "1")
	requireAnswer(t, "[2001:db8::11]:30901", 503, "0")
	for _, at := range []string{"203.0.113.11:30901", "127.0.0.1:30901", "[::1]:30901"} {
		requireRefused(t, at)
	}
	s.setTo([]netip.Addr{all[0], all[2]}, local("web", 30901, "[fd00::1]:80", "[fd00::2]:80"))
	requireAnswer(t, "192.0.2.11:30901", 503, "0")
	requireAnswer(t, "[2001:db8::11]:30901", 200, "2")
	s.setTo(all[:1], local("web", 30901, "10.0.0.1:80"))
	requireAnswer(t, "192.0.2.11:30901", 200, "1")
	requireRefused(t, "[2001:db8::11]:30901")
	health.Failed("nft is gone")
	requireAnswer(t, "192.0.2.11:30901", 503, "1")
	if strings.Contains(log.String(), "level=ERROR") {
		t.Error(log)
	}
}

// TestHealthServersPortMoves: a port goes back and forth between two Services
// while a client polls. It's never refused, and a connection that is kept open
// is answered all along.
func TestHealthServersPortMoves(t *testing.T) {
	addrs := ownAddress(t, "192.0.2.11")
	s, _, _ := servers(t)
	s.setTo(addrs, local("a", 30900, "10.0.0.1:80"), local("b", 30901))
	kept, err := net.Dial("tcp", "192.0.2.11:30900")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	polled := poll(t, "192.0.2.11:30900")
	for i := range 20 {
		port := [2]uint16{30900, 30901}
		s.setTo(addrs, local("a", port[i%2], "10.0.0.1:80"), local("b", port[1-i%2]))
		seen := polled.Load()
		eventually(t, "five more polls", func() bool { return polled.Load() >= seen+5 })
		if _, err := fmt.Fprint(kept, "GET / HTTP/1.1\r\nHost: n1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(kept), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := [2]int{200, 503}[i%2]; resp.StatusCode != want {
			t.Errorf("change %d: %s, want %d", i, resp.Status, want)
		}
	}
}

// poll asks without a pause until the test ends; every request is answered.
func poll(t *testing.T, at string) *atomic.Int64 {
	var n atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if code, _, err := ask(at); err != nil || code == 0 {
				t.Errorf("poll: %d %v", code, err)
			}
			n.Add(1)
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return &n
}

// TestHealthServersAddressesComeAndGo follows the NodePort addresses, also
// past an address that the kernel doesn't have yet.
func TestHealthServersAddressesComeAndGo(t *testing.T) {
	addrs := ownAddress(t, "192.0.2.11")
	late := netip.MustParseAddr("192.0.2.12")
	s, health, _ := servers(t)
	web := local("web", 30900, "10.0.0.1:80")
	s.setTo(append(addrs, late), web)
	requireAnswer(t, "192.0.2.11:30900", 200, "1")
	if got := health.Status(time.Now()).Degraded; len(got) != 1 || !strings.Contains(got[0], "192.0.2.12:30900") {
		t.Errorf("degraded: %q", got)
	}
	ownAddress(t, "192.0.2.12")
	eventually(t, "an answer on the new address", func() bool { _, _, err := ask("192.0.2.12:30900"); return err == nil })
	recovered(t, health)
	s.setTo([]netip.Addr{late}, web)
	requireRefused(t, "192.0.2.11:30900")
	requireAnswer(t, "192.0.2.12:30900", 200, "1")
	s.setTo([]netip.Addr{late})
	requireRefused(t, "192.0.2.12:30900")
}

// TestHealthServersPortInUse: somebody else's listener is reported, once, and
// replaced when it goes.
func TestHealthServersPortInUse(t *testing.T) {
	addrs := ownAddress(t, "192.0.2.11")
	other, err := net.Listen("tcp", "0.0.0.0:30900")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s, health, log := servers(t)
	s.setTo(addrs, local("web", 30900, "10.0.0.1:80"), local("api", 30901, "10.0.0.1:80"))
	requireAnswer(t, "192.0.2.11:30901", 200, "1")
	if got := health.Status(time.Now()).Degraded; len(got) != 1 || !strings.Contains(got[0], "address already in use") {
		t.Errorf("degraded: %q", got)
	}
	s.setTo(addrs, local("web", 30900, "10.0.0.1:80"), local("api", 30901, "10.0.0.1:80"))
	other.Close()
	eventually(t, "an answer", func() bool { code, _, _ := ask("192.0.2.11:30900"); return code == 200 })
	recovered(t, health)
	s.mu.Lock() // the log is written under it
	defer s.mu.Unlock()
	if n := strings.Count(log.String(), "can't be had, will try again\" reason=HealthCheckPortFailed"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log)
	}
}

// TestHealthServersBoundRequests: headers without end are cut off.
func TestHealthServersBoundRequests(t *testing.T) {
	addrs := ownAddress(t, "192.0.2.11")
	s, _, _ := servers(t)
	s.setTo(addrs, local("web", 30900, "10.0.0.1:80"))
	conn, err := net.Dial("tcp", "192.0.2.11:30900")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: n1\r\nX: %s\r\n\r\n", strings.Repeat("x", 16<<10))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(resp.Status)
	}
}

// TestHealthServersRepairLoss: a listener that dies is opened again.
func TestHealthServersRepairLoss(t *testing.T) {
	addrs := ownAddress(t, "192.0.2.11")
	s, health, _ := servers(t)
	s.setTo(addrs, local("web", 30900, "10.0.0.1:80"))
	at := netip.MustParseAddrPort("192.0.2.11:30900")
	s.mu.Lock()
	srv := s.running[at]
	s.mu.Unlock()
	s.lost(at, srv, errors.New("gone"))
	eventually(t, "an answer", func() bool { code, _, _ := ask(at.String()); return code == 200 })
	s.lost(at, srv, errors.New("gone")) // old news
	requireAnswer(t, at.String(), 200, "1")
	recovered(t, health)
}

// TestHealthServersHearFirst: a balancer hears of what gets worse before the
// kernel does, and of what gets better after it.
func TestHealthServersHearFirst(t *testing.T) {
	ownAddress(t, "192.0.2.11")
	dir := stubNFT(t)
	b := newLoop(t, func(c *Config) { c.HealthChecks = NewHealthServers(c.Log, c.Health) })
	t.Cleanup(b.loop.HealthChecks.end)
	fail := filepath.Join(dir, "fail")
	input := func(endpoints ...string) *Input {
		in := loopInput(2, 3)
		s := local("web", 30900, endpoints...)
		s.Ports[0].Frontends = nodePorts(30080)
		in.Services = append(in.Services, s)
		in.NodePortAddresses = addrs("192.0.2.11")
		return in
	}
	b.loop.NodePortCIDRs = prefixes("192.0.2.11/32")
	b.desires.set(input("10.0.0.1:80", "10.0.0.2:80"))
	b.start()
	b.programmed(input("10.0.0.1:80", "10.0.0.2:80"))
	eventually(t, "the check", func() bool { _, weight, _ := ask("192.0.2.11:30900"); return weight == "2" })

	write(t, fail, "1000")
	b.desires.set(input("10.0.0.1:80"))
	eventually(t, "the worse answer", func() bool { _, weight, _ := ask("192.0.2.11:30900"); return weight == "1" })
	if got, want := kernelLines(t, nft.IPv4), Canonical(NewPlanner(nft.IPv4).Plan(input("10.0.0.1:80", "10.0.0.2:80"), nil).Groups); !slices.Equal(got, want) {
		t.Error("the kernel heard of it first")
	}
	b.desires.set(input("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"))
	failures := b.counter(failuresCounter)
	eventually(t, "two failures", func() bool { return b.counter(failuresCounter) > failures+1 })
	if _, weight, err := ask("192.0.2.11:30900"); weight != "1" {
		t.Errorf("the weight is %q before the kernel is programmed (%v)", weight, err)
	}
	write(t, fail, "0")
	eventually(t, "the better answer", func() bool { code, weight, _ := ask("192.0.2.11:30900"); return code == 200 && weight == "3" })
	b.programmed(input("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"))
}

// TestHealthServersEnd: Set after the end opens nothing, and no servers at all
// can be set.
func TestHealthServersEnd(t *testing.T) {
	addrs := ownAddress(t, "192.0.2.11")
	s := NewHealthServers(slog.New(slog.DiscardHandler), &Health{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	s.setTo(addrs, local("web", 30900, "10.0.0.1:80"))
	requireRefused(t, "192.0.2.11:30900")
	(*HealthServers)(nil).Set(nil, nil)
	(*HealthServers)(nil).Worsen(nil)
}
