package reconcile

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// loopInput has NodePorts nowhere: this host has no address.
func loopInput(services, endpoints int) *Input { return simpleInput(services, endpoints) }

func TestLoop(t *testing.T) {
	in := loopInput(20, 3)
	b := startLoop(t, in)
	b.desires.set(without(in, 3, 1))
	b.programmed(without(in, 3, 1))
	b.desires.set(loopInput(2, 3))
	b.programmed(loopInput(2, 3))
	eventually(t, "healthy", func() bool { return b.loop.Health.Status(time.Now()).Healthy })
	if n := b.counter(driftCounter); n != 0 {
		t.Errorf("drift: %v", n)
	}
	// The kernel has a change before the log does.
	eventually(t, "the change in the log", func() bool {
		return strings.Contains(b.log.String(), "msg=programmed family=ip elements=100 transactions=1 rewritten=false repair=false")
	})
	b.counted()
}

// counted checks the metrics of a loop that has programmed three inputs, the first
// of which took reading back.
func (b *loopBench) counted() {
	b.t.Helper()
	if full, want := b.counter("pointsman_sync_full_proxy_rules_duration_seconds"), float64(len(families())); full != want {
		b.t.Errorf("%v full syncs, not %v", full, want)
	}
	for name, least := range map[string]float64{
		"pointsman_sync_partial_proxy_rules_duration_seconds":      2,
		"pointsman_nftables_transactions_total":                    3,
		"pointsman_nftables_elements_written_total":                100,
		"pointsman_sync_proxy_rules_last_timestamp_seconds":        1e9,
		"pointsman_sync_proxy_rules_last_queued_timestamp_seconds": 1e9,
	} {
		if n := b.counter(name); n < least {
			b.t.Errorf("%s is %v", name, n)
		}
	}
}

// TestLoopKnowsNothing: as long as nothing is known of what is desired, the
// kernel is left as it is.
func TestLoopKnowsNothing(t *testing.T) {
	b := newLoop(t, nil)
	run(t, "nft add table ip pointsman; nft add chain ip pointsman left")
	for range 3 {
		if wait := b.loop.step(context.Background()); wait != never {
			t.Errorf("comes again in %v", wait)
		}
	}
	if out := run(t, "nft list table ip pointsman"); !strings.Contains(out, "chain left") || strings.Contains(out, "dispatch") {
		t.Errorf("changed: %s", out)
	}
	if s := b.loop.Health.Status(time.Now()); s.Healthy {
		t.Errorf("health: %+v", s)
	}
}

// TestLoopEndsInASync: that the agent ends in the middle of a sync is no failure.
func TestLoopEndsInASync(t *testing.T) {
	b := newLoop(t, nil)
	b.desires.set(loopInput(2, 3))
	ctx, end := context.WithCancel(t.Context())
	end()
	wait := b.loop.step(ctx)
	if log := b.log.String(); wait != never || b.loop.failures > 0 || !b.loop.pending || strings.Contains(log, "could not be programmed") {
		t.Errorf("again in %v after %d failures, pending %v:\n%s", wait, b.loop.failures, b.loop.pending, log)
	}
}

// TestLoopRepairs: whatever somebody does to our tables, an event tells, and
// it's repaired, counted and logged (C49).
func TestLoopRepairs(t *testing.T) {
	in := loopInput(20, 3)
	b := startLoop(t, in)
	fresh := objects(t, nft.IPv4)
	for _, commands := range []string{
		"flush ruleset",
		"flush chain ip pointsman dispatch",
		"delete element ip pointsman services { 10.96.0.3 . tcp . 80 }",
		"add chain ip pointsman evil { type filter hook input priority 0; policy drop; }",
		"add table ip pointsman { flags dormant; }",
		"delete table ip pointsman", "delete table ip pointsman", "delete table ip pointsman",
		"delete table ip pointsman", "delete table ip pointsman",
	} {
		before := b.counter(driftCounter)
		damage(t, commands)
		took := eventually(t, "repair of "+commands, func() bool {
			return exec.Command("nft", "list", "table", "ip", "pointsman").Run() == nil && slices.Equal(objects(t, nft.IPv4), fresh)
		})
		t.Logf("%s: repaired after %v", commands, took.Round(time.Millisecond))
		if n := b.counter(driftCounter); n <= before {
			t.Errorf("%s: drift is %v, was %v", commands, n, before)
		}
	}
	if log := b.log.String(); strings.Count(log, "somebody else changed our rules") < 10 || !strings.Contains(log, "repair=true") {
		t.Error("not all repairs are logged")
	}
	if log := b.log.String(); !strings.Contains(log, "reason=DriftRepaired process=nft ") {
		t.Errorf("nobody is named:\n%s", log)
	}
}

// TestLoopKnowsItsOwn: own transactions never pass for somebody else's, not
// even beside a writer that never rests.
func TestLoopKnowsItsOwn(t *testing.T) {
	in := loopInput(20, 10)
	b := startLoop(t, in)
	stop := filepath.Join(t.TempDir(), "stop")
	busy := exec.Command("sh", "-c", `until [ -e "$0" ]; do nft 'add table ip other { chain c { counter; }; }'; nft delete table ip other; done`, stop)
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		write(t, stop, "")
		if err := busy.Wait(); err != nil {
			t.Error(err)
		}
	}()
	generation, _ := host.Generation()
	for i := range 200 {
		before := b.counter(syncsCounter)
		b.desires.set(without(in, i%20, i%10))
		eventually(t, "a change", func() bool { return b.counter(syncsCounter) > before })
	}
	after, _ := host.Generation()
	t.Logf("%d transactions in all", after-generation)
	b.programmed(without(in, 199%20, 199%10))
	if n := b.counter(driftCounter); n != 0 {
		t.Errorf("drift: %v", n)
	}
	if n := b.counter(failuresCounter); n != 0 {
		t.Errorf("failures: %v", n)
	}
}

// TestLoopRetries: a change whose transaction fails isn't lost, and needs no
// further event (C44). The whole runs with an nft that crashes on every list.
func TestLoopRetries(t *testing.T) {
	dir := stubNFT(t)
	in := loopInput(20, 3)
	b := startLoop(t, in)
	write(t, filepath.Join(dir, "fail"), "3")
	b.desires.set(without(in, 3, 1))
	eventually(t, "degraded", func() bool {
		return strings.HasPrefix(b.degraded(), "nftables: table ip") && strings.Contains(b.degraded(), "the stub says no") && strings.Contains(b.degraded(), "failures in a row")
	})
	t.Log(b.degraded())
	t.Logf("right after %v", b.programmed(without(in, 3, 1)))
	eventually(t, "healthy", func() bool { return b.loop.Health.Status(time.Now()).Healthy && b.degraded() == "" })
	if n := b.counter(failuresCounter); n != 3 {
		t.Errorf("failures: %v", n)
	}
	if log := b.log.String(); strings.Count(log, "reason=ProgrammingFailed") != 3 || strings.Count(log, "reason=ProgrammingRecovered") != 1 {
		t.Errorf("the events:\n%s", log)
	}
	if n := b.counter(driftCounter); n != 0 {
		t.Errorf("drift: %v", n)
	}
}

// TestLoopHangingNFT: an nft that hangs is ended, and that is a failure like
// another.
func TestLoopHangingNFT(t *testing.T) {
	dir := stubNFT(t)
	b := newLoop(t, nil)
	b.loop.timeout = 500 * time.Millisecond
	in := loopInput(2, 3)
	write(t, filepath.Join(dir, "hang"), "")
	b.desires.set(in)
	b.start()
	eventually(t, "degraded", func() bool {
		return strings.HasPrefix(b.degraded(), "nftables: table ip") && strings.Contains(b.degraded(), "it hadn't ended after 500ms")
	})
	t.Log(b.degraded())
	if err := os.Remove(filepath.Join(dir, "hang")); err != nil {
		t.Fatal(err)
	}
	b.programmed(in)
	eventually(t, "healthy", func() bool { return b.degraded() == "" })
}

// TestLoopBackoff: a failing loop isn't driven by others' transactions.
func TestLoopBackoff(t *testing.T) {
	dir := stubNFT(t)
	b := newLoop(t, nil)
	write(t, filepath.Join(dir, "fail"), "1000")
	t.Cleanup(func() { write(t, filepath.Join(dir, "fail"), "0") })
	b.desires.set(loopInput(2, 3))
	for want := 250 * time.Millisecond; want < time.Second; want *= 2 {
		b.loop.notBefore = time.Time{}
		if wait := b.loop.step(context.Background()); wait != want {
			t.Errorf("waits %v, want %v", wait, want)
		}
	}
	if wait := b.loop.step(context.Background()); wait <= 0 || wait > 500*time.Millisecond || b.loop.failures != 2 {
		t.Errorf("tried again too early: waits %v after %d failures", wait, b.loop.failures)
	}
	for n, want := range map[int]time.Duration{1: 250 * time.Millisecond, 2: 500 * time.Millisecond, 7: 16 * time.Second, 8: 30 * time.Second, 1000: 30 * time.Second} {
		if got := backoff(n); got != want {
			t.Errorf("backoff after %d: %v", n, got)
		}
	}
}

// TestLoopFollowsAddresses: NodePorts move with the host's addresses, and a
// service range that would lock somebody out is not in force.
func TestLoopFollowsAddresses(t *testing.T) {
	run(t, "ip link add d0 type veth peer name d1 && ip link set d0 up && ip addr add 192.0.2.11/24 dev d0")
	t.Cleanup(func() { run(t, "ip link del d0 2>/dev/null || :") })
	var moved atomic.Int32
	b := newLoop(t, func(c *Config) {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("192.0.0.0/8")}
		c.NodePortsMoved = func() { moved.Add(1) }
	})
	s := simple(1, 2)
	s.Ports[0].Frontends = append(s.Ports[0].Frontends, state.Frontend{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30080})
	in := &Input{Node: Node{Name: "n1"}, Services: []*state.Service{s}, NodePortAddresses: addrs("192.0.2.11"),
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	b.desires.set(in)
	b.start()
	b.programmed(in)
	if why := b.degraded(); !strings.Contains(why, "--service-cidr 192.0.0.0/8 holds") || !strings.Contains(why, "192.0.2.11") {
		t.Errorf("degraded: %s", why)
	}
	run(t, "ip addr add 198.51.100.7/24 dev d0 && ip addr del 192.0.2.11/24 dev d0")
	in.NodePortAddresses = addrs("198.51.100.7")
	in.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("192.0.0.0/8")}
	b.programmed(in)
	eventually(t, "no longer degraded", func() bool { return b.degraded() == "" })
	run(t, "ip link del d0")
	in.NodePortAddresses = nil
	b.programmed(in)
	before := moved.Load()
	if before < 3 { // the two changes of addresses above may be seen one by one
		t.Errorf("it's told of %d moves", before)
	}
	in.Services = append(slices.Clone(in.Services), simple(2, 2))
	b.desires.set(in)
	b.programmed(in)
	if n := moved.Load() - before; n > 0 {
		t.Errorf("it's told of %d moves more, where only a Service came", n)
	}
}

// TestLoopMissedNotifications: when the journal is a whole period behind the
// kernel, everything is read back.
func TestLoopMissedNotifications(t *testing.T) {
	b := newLoop(t, nil) // and nobody runs the journal
	b.desires.set(loopInput(2, 3))
	b.loop.step(context.Background())
	b.loop.compareGeneration()
	if b.loop.pending {
		t.Error("pending after one period")
	}
	run(t, "nft flush ruleset")
	b.loop.compareGeneration()
	if !b.loop.pending {
		t.Fatal("nothing is pending")
	}
	b.loop.step(context.Background())
	if got, want := kernelLines(t, nft.IPv4), Canonical(NewPlanner(nft.IPv4).Plan(loopInput(2, 3), nil).Groups); !slices.Equal(got, want) {
		t.Errorf("not repaired: %q", got)
	}
}
