package reconcile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// tracking is a Conntracker that runs on flows of a test's.
type tracking struct {
	*Conntracker
	t         *testing.T
	flows     []string // "destination backend"
	passes    int
	forgotten []string
	fail      error         // of a pass, after the first flow
	took      time.Duration // by a pass
	during    func()        // a pass
	log       bytes.Buffer
	registry  *prometheus.Registry
	held      map[string]*nft.Group // by the kernel
	fence     atomic.Int64          // orders a test's writes before a pass that a timer begins
}

const (
	dnsA, dnsB   = "10.20.0.11:53", "10.20.0.12:53"
	dnsVIP       = "10.96.0.10:53 "
	flowA, flowB = dnsVIP + dnsA, dnsVIP + dnsB
)

// track starts one in a bubble.
func track(t *testing.T, flows ...string) *tracking {
	x := &tracking{t: t, flows: flows, registry: prometheus.NewRegistry()}
	x.Conntracker = NewConntracker(30*time.Second, slog.New(slog.NewTextHandler(&x.log, nil)), &Health{}, x.registry)
	x.forget = x.pretend
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return x
}

// pretend stands for host.ForgetFlows.
func (x *tracking) pretend(_ context.Context, f host.Family, stale func(host.Flow) bool) (int, error) {
	if f != host.IPv4 {
		x.t.Errorf("a pass over %v, which nothing was synced of", f)
	}
	x.fence.Add(1)
	x.passes++
	if x.during != nil {
		x.during()
	}
	time.Sleep(x.took) // a bubble's
	x.fence.Add(1)
	forgotten := len(x.forgotten)
	for i, text := range slices.Clone(x.flows) {
		if stale(flowOf(text)) {
			x.forgotten = append(x.forgotten, text)
			x.flows = slices.DeleteFunc(x.flows, func(s string) bool { return s == text })
		}
		if x.fail != nil && i == 0 {
			break
		}
	}
	return len(x.forgotten) - forgotten, x.fail
}

// sync tells of a sync to Services.
func (x *tracking) sync(err error, services ...*state.Service) {
	in := udpInput(services...)
	want := NewPlanner(nft.IPv4).Plan(in, nil)
	x.Syncing(in, want.Family, going(x.held, want.Groups))(err)
	if err == nil {
		x.held = want.Groups
	}
	synctest.Wait()
}

// expect checks what was done since the last time.
func (x *tracking) expect(what string, passes int, forgotten ...string) {
	x.t.Helper()
	if x.passes != passes || !slices.Equal(x.forgotten, forgotten) {
		x.t.Errorf("%s: %d passes, forgotten %q; want %d, %q", what, x.passes, x.forgotten, passes, forgotten)
	}
	x.passes, x.forgotten = 0, nil
}

// after lets time go by.
func (x *tracking) after(d time.Duration) {
	x.fence.Add(1)
	time.Sleep(d)
	synctest.Wait()
}

func dns(endpoints ...string) *state.Service {
	for i := range endpoints {
		if !strings.Contains(endpoints[i], " ") {
			endpoints[i] += " rs"
		}
	}
	return udpService("10.96.0.10", endpoints...)
}

// TestConntrackerWhen: after every change that matters to UDP, and once in a
// period.
func TestConntrackerWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.after(time.Hour)
		x.expect("nothing was synced", 0)
		x.sync(nil, dns(dnsA, dnsB), simple(1, 2))
		x.expect("start", 1)
		x.sync(nil, dns(dnsA, dnsB), simple(1, 1))
		x.expect("a change of TCP", 0)
		x.sync(nil, dns(dnsA, dnsB+" s"), simple(1, 1))
		x.expect("an endpoint is not ready any more", 0)
		x.sync(nil, dns(dnsA, dnsB+" "), simple(1, 1))
		x.expect("an endpoint does not serve any more", 1, flowB)
		x.flows = append(x.flows, flowB)
		x.after(30 * time.Second)
		x.expect("one more, which came late", 1, flowB)
		x.sync(nil, dns(), simple(1, 1))
		x.expect("the last endpoint leaves", 1, flowA)
		x.after(60 * time.Second)
		x.expect("two periods", 2)
	})
}

// TestConntrackerIdle: without UDP Services the table is not listed.
func TestConntrackerIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA)
		x.sync(nil, simple(1, 1))
		x.after(time.Hour)
		x.expect("TCP alone", 0)
	})
}

// TestConntrackerFormer: frontends that are gone are known from what the
// kernel held, also before this agent.
func TestConntrackerFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, dnsVIP+"10.96.0.10:53", "10.96.0.99:53 10.20.0.99:53")
		x.held = NewPlanner(nft.IPv4).Plan(udpInput(dns(dnsA)), nil).Groups
		x.sync(errors.New("nft is not there"), simple(1, 1))
		x.expect("nothing was programmed", 0)
		x.sync(nil, simple(1, 1))
		x.expect("a Service was deleted while no agent ran", 1, flowA)
		x.flows = append(x.flows, flowB)
		x.after(30 * time.Second)
		x.expect("a packet that waited", 1, flowB)
		x.flows = append(x.flows, flowA)
		x.after(time.Hour)
		x.expect("long after, it's somebody else's", 0)
		x.sync(nil, dns(dnsA))
		x.expect("the Service is back", 1, dnsVIP+"10.96.0.10:53")
	})
}

// TestConntrackerComesAndGoes: a frontend that comes back and leaves again is
// waited for from then on.
func TestConntrackerComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA)
		x.sync(nil, dns(dnsA))
		x.sync(nil, simple(1, 1))
		x.expect("it leaves", 2, flowA)
		x.after(25 * time.Second)
		x.sync(nil, dns(dnsA))
		x.sync(nil, simple(1, 1))
		x.expect("it comes and leaves", 2)
		x.after(10 * time.Second)
		x.flows = append(x.flows, flowA)
		x.after(25 * time.Second)
		x.expect("a packet that waited", 2, flowA)
	})
}

// TestConntrackerFormerOfFailedSync: a sync that fails may have taken a
// frontend away all the same, so that the next one knows nothing of it.
func TestConntrackerFormerOfFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA)
		x.held = NewPlanner(nft.IPv4).Plan(udpInput(dns(dnsA)), nil).Groups
		x.sync(errors.New("the second transaction was refused"))
		x.held = nil
		x.sync(nil, simple(1, 1))
		x.expect("a sync that succeeds", 1, flowA)
	})
}

// TestConntrackerRetry is C08: a pass that fails is made again, and what it
// has seen is dealt with.
func TestConntrackerRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.fail = unix.EINTR
		x.sync(nil, dns())
		x.expect("a dump that is cut short", 1, flowA)
		if s := x.health.Status(time.Now()); !slices.Contains(s.Degraded, "UDP flows (ip): interrupted system call") {
			t.Errorf("health: %q", s.Degraded)
		}
		x.flows = []string{"192.0.2.1:1 192.0.2.1:1", flowB}
		x.after(249 * time.Millisecond)
		x.expect("not at once", 0)
		x.after(time.Millisecond)
		x.expect("again", 1)
		x.after(10 * time.Minute)
		if x.passes < 600/30 {
			t.Errorf("%d passes in ten minutes", x.passes)
		}
		x.fail, x.passes = nil, 0
		x.after(30 * time.Second)
		x.expect("a whole dump, and the period's", 2, flowB)
		if s := x.health.Status(time.Now()); slices.ContainsFunc(s.Degraded, func(s string) bool { return strings.HasPrefix(s, "UDP") }) {
			t.Errorf("health: %q", s.Degraded)
		}
		for _, text := range []string{"not all UDP flows could be looked at", "retry=250ms", "after all", "flows=1", "endpoint that is gone", "reason=UDPFlowsUnchecked", "reason=UDPFlowsForgotten"} {
			if !strings.Contains(x.log.String(), text) {
				t.Errorf("the log lacks %q:\n%s", text, x.log.String())
			}
		}
		if n := sumOf(t, x.registry, "pointsman_conntrack_reconciler_failures_total"); n < 600/30 {
			t.Errorf("%v failures are counted", n)
		}
		if n := sumOf(t, x.registry, "pointsman_conntrack_reconciler_deleted_entries_total"); n != 2 {
			t.Errorf("%v flows are counted", n)
		}
	})
}

// TestConntrackerDuringSync: an endpoint that is programmed while a pass goes
// on keeps the flows that it gets meanwhile.
func TestConntrackerDuringSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.sync(nil, dns(dnsA, dnsB))
		x.expect("start", 1)
		more, held := dns(dnsB, "10.20.0.13:53"), x.held
		x.during = func() {
			in := udpInput(more)
			x.Syncing(in, nft.IPv4, going(held, NewPlanner(nft.IPv4).Plan(in, nil).Groups))
			x.flows = append(x.flows, dnsVIP+"10.20.0.13:53")
		}
		x.sync(nil, dns(dnsB))
		x.expect("an endpoint leaves, another comes", 1, flowA)
		x.during = nil
		x.sync(nil, dns(dnsB))
		x.sync(nil, more)
		x.expect("it is there", 1)
	})
}

// TestConntrackerDrain: flows to a drained endpoint go at the moment when its
// grace is over, also after a restart, and a drain that ends before takes none.
func TestConntrackerDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.sync(nil, dns(dnsA, dnsB))
		x.expect("start", 1)
		x.sync(nil, drained(dns(dnsA, dnsB), time.Now(), 75*time.Second, dnsB))
		x.expect("drained", 0)
		x.after(75*time.Second - 1)
		x.expect("two periods", 2)
		x.after(1)
		x.expect("the grace is over", 1, flowB)
		x.flows = append(x.flows, flowB)
		x.after(15 * time.Second)
		x.expect("one more, which came late", 1, flowB)
	})
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.sync(nil, drained(dns(dnsA, dnsB), time.Now().Add(-time.Minute), 59*time.Second, dnsB))
		x.expect("it was over before the start", 1, flowB)
		x.sync(nil, drained(dns(dnsA, dnsB), time.Now(), time.Second, dnsA, dnsB))
		x.flows = append(x.flows, flowB)
		x.after(10 * time.Second)
		x.expect("there's no other choice", 1)
		x.sync(nil, drained(dns(dnsA, dnsB), time.Now(), time.Second, dnsB))
		x.sync(nil, dns(dnsA, dnsB))
		x.after(10 * time.Second)
		x.expect("undrained in time", 0)
	})
}

// TestConntrackerDrainDuringPass: a grace that is over while a pass goes on, or
// a sync, is not forgotten.
func TestConntrackerDrainDuringPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.took = 2 * time.Second
		x.sync(nil, drained(dns(dnsA, dnsB), time.Now(), time.Second, dnsB))
		in := udpInput(drained(dns(dnsA, dnsB), time.Now(), time.Second, dnsB), simple(1, 1))
		ended := x.Syncing(in, nft.IPv4, nil)
		x.after(20 * time.Second)
		ended(nil)
		synctest.Wait()
		x.expect("a pass at the start, and one at the end", 2, flowB)
	})
}

// TestConntrackerBounded: with a table that takes long, changes in a row don't
// take all of a CPU, and none is missed.
func TestConntrackerBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t, flowA, flowB)
		x.took = time.Second
		began := time.Now()
		for range 40 {
			x.sync(nil, dns(dnsA))
			x.after(100 * time.Millisecond)
			x.sync(nil, dns(dnsA, dnsB))
			x.after(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("the loop was held up: %v", took)
		}
		x.after(5 * time.Second)
		if x.passes > 4 {
			t.Errorf("%d passes of a second in 13 s", x.passes)
		}
		x.passes, x.forgotten, x.flows = 0, nil, []string{flowA, flowB}
		x.sync(nil, dns(dnsA))
		x.after(5 * time.Second)
		if !slices.Equal(x.forgotten, []string{flowB}) {
			t.Errorf("forgotten: %q", x.forgotten)
		}
	})
}

// TestConntrackerStops: what the end of the agent interrupts is no failure.
func TestConntrackerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := track(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		x.fail = context.Canceled
		x.tables[0].rules.update(udpFrontends{netip.MustParseAddrPort("10.96.0.10:53"): {}}, nil, time.Now())
		x.pass(ctx, x.tables[0])
		if x.passes != 1 || x.log.Len() > 0 {
			t.Errorf("%d passes; %s", x.passes, x.log.String())
		}
	})
}

// TestConntrackerNone: a loop without a Conntracker.
func TestConntrackerNone(t *testing.T) {
	var c *Conntracker
	c.Syncing(nil, nft.IPv4, nil)(nil)
}
