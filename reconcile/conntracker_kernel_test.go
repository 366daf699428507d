package reconcile

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
)

// TestKernelConntracker is C08 with flows that the kernel translates: the
// listing after the change is interrupted, and made again.
func TestKernelConntracker(t *testing.T) {
	t.Run("ip", func(t *testing.T) { testConntracker(t, nft.IPv4, "10.96.0.10/32", "10.20.0.11/32") })
	t.Run("ip6", func(t *testing.T) { testConntracker(t, nft.IPv6, "2001:db8:96::10/128", "2001:db8:20::11/128") })
}

func testConntracker(t *testing.T, f nft.Family, vip, backend string) {
	run(t, "ip addr add "+backend+" dev lo && ip route add "+vip+" dev lo")
	t.Cleanup(func() { run(t, "ip route del "+vip+" dev lo; ip addr del "+backend+" dev lo; conntrack -F") })
	v, b := netip.MustParsePrefix(vip).Addr(), netip.MustParsePrefix(backend).Addr()
	k, c := openKernel(t, f), interruptedConntracker(t)
	program(t, k, c, udpInput(udpService(v.String(), netip.AddrPortFrom(b, 5353).String()+" rs")))
	conn, err := net.Dial("udp", netip.AddrPortFrom(v, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if n := tracked(t, f, b); n != 1 {
		t.Fatalf("%d flows", n)
	}
	program(t, k, c, udpInput(udpService(v.String())))
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for tracked(t, f, b) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the flow is still there")
		}
	}
}

// program does what the loop does.
func program(t *testing.T, k *nft.Kernel, c *Conntracker, in *Input) {
	t.Helper()
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := NewPlanner(k.Family()).Plan(in, k.Group)
	ended := c.Syncing(in, want.Family, k.Going(want))
	_, err := k.Sync(t.Context(), want)
	ended(err)
	if err != nil {
		t.Fatal(err)
	}
}

// tracked counts the flows to a backend.
func tracked(t *testing.T, f nft.Family, backend netip.Addr) (n int) {
	t.Helper()
	_, err := host.ForgetFlows(t.Context(), hostFamily(f), func(f host.Flow) bool {
		if f.ReplySource.Addr() == backend {
			n++
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// interruptedConntracker runs one whose every second listing is interrupted:
// the first sync's is not, the second's is.
func interruptedConntracker(t *testing.T) *Conntracker {
	t.Helper()
	c := NewConntracker(time.Minute, slog.New(slog.DiscardHandler), &Health{}, prometheus.NewRegistry())
	var calls atomic.Int64
	c.forget = func(ctx context.Context, f host.Family, stale func(host.Flow) bool) (int, error) {
		if calls.Add(1)%2 == 0 {
			return 0, unix.EINTR
		}
		return host.ForgetFlows(ctx, f, stale)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := calls.Load(); n < 3 {
			t.Errorf("%d listings", n)
		}
	})
	return c
}
