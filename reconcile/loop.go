// Package reconcile makes the kernel equal to what the Services mean on this
// host. The ruleset is planned anew from everything that is known whenever
// anything changes (Planner.Plan, pure); what the kernel holds already is not
// sent again (package nft); and only Loop writes.
package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
	"pointsman/state/event"
)

// Desired is what the manifests and the fleet say should be served.
type Desired struct {
	Services []*state.Service

	// InternalIPs and Zone are what the manifests say of this node itself.
	InternalIPs []netip.Addr
	Zone        string

	// FleetIPs are the addresses of all nodes, which no service range may hold.
	FleetIPs []netip.Addr
}

// Config is what an operator says about this host.
type Config struct {
	NodeName      string
	ServiceCIDRs  []netip.Prefix
	LocalCIDRs    []netip.Prefix
	NodePortCIDRs []netip.Prefix // --nodeport-addresses
	Uncounted     bool           // --connection-metrics=false

	// Resync is the period in which the kernel's ruleset generation is
	// compared with what is known of it, FullResync that in which everything
	// is read back.
	Resync, FullResync time.Duration

	Log     *slog.Logger
	Metrics *Metrics
	Health  *Health

	// Triggers say since when what is desired waits; nil measures nothing of it.
	Triggers *Triggers

	// Progress is told how many elements of a change to a family's table were
	// sent, of how many; at the end all were. Nil tells nobody.
	Progress func(f nft.Family, done, total int)

	// HealthChecks answer on healthCheckNodePorts; nil answers nowhere.
	HealthChecks *HealthServers

	// Conntrack is told of every sync; nil leaves UDP flows as they are.
	Conntrack *Conntracker

	// Rules are what the chains of each family had when an agent on this host wrote
	// them last. RulesWritten is told of what they have since; it must not wait.
	Rules        Rules
	RulesWritten func(Rules)

	// NodePortsMoved is called when NodePorts answer on other addresses than what
	// Loop.Latest had; it must not wait. Nil tells nobody.
	NodePortsMoved func()
}

// Rules tell the rules of each family's table from others.
type Rules map[nft.Family]nft.Prints

// Desires is where Desired comes from. Changed carries no data; Latest is nil
// as long as nothing is known, and then the kernel is left as it is.
type Desires interface {
	Changed() <-chan struct{}
	Latest() *Desired
}

// Loop is the only writer of our tables.
type Loop struct {
	Config
	desires Desires
	addrs   *host.Watcher
	journal *host.Journal
	tables  []*table
	ledger  host.Ledger

	pending   bool      // the kernel may not be as it should
	notBefore time.Time // no sync begins before, unless what is desired changes
	failures  int       // syncs in a row
	drifted   bool      // somebody else changed our tables, and that isn't repaired yet
	seen      uint32    // the generation up to which the journal is complete
	resynced  uint32    // the generation at the last resync
	refused   string    // the ranges that are not in force, and why
	nodePorts string    // where NodePorts answer, and why there

	waiting waiting // for the next sync that succeeds
	sent    bool    // something, in the syncs since the last that succeeded

	// latest is what the last sync began with, for those who explain it.
	latest atomic.Pointer[Input]

	// timeout bounds a family's sync: nft must not be able to wedge the loop.
	// Loading 250,000 endpoints takes 5 s.
	timeout time.Duration

	alive pulse
}

// table is one family's part.
type table struct {
	kernel  *nft.Kernel
	planner *Planner
	in      host.Table
}

// NewLoop opens the tables of the families that the kernel has, and
// subscribes to what happens to them. It changes nothing.
func NewLoop(cfg Config, desires Desires, addrs *host.Watcher) (*Loop, error) {
	l := &Loop{Config: cfg, desires: desires, addrs: addrs, pending: true, timeout: 2 * time.Minute, waiting: waiting{}}
	l.Health.watch(&l.alive)
	var names []host.Table
	for _, f := range families() {
		k, err := nft.Open(f, schema, host.Generation)
		if err != nil {
			return nil, err
		}
		if p := cfg.Rules[f]; p != nil {
			k.Expect(p)
		}
		k.Watch(func(done, total int) {
			l.Health.Waits(Nftables, time.Now())
			if cfg.Progress != nil {
				cfg.Progress(f, done, total)
			}
		})
		t := &table{kernel: k, planner: NewPlanner(f), in: host.Table{Family: hostFamily(f), Name: nft.TableName}}
		l.tables = append(l.tables, t)
		names = append(names, t.in)
	}
	generation, err := host.Generation()
	if err != nil {
		return nil, fmt.Errorf("generation id: %w", err)
	}
	l.ledger.Known(generation)
	l.seen, l.resynced = generation, generation
	l.journal, err = host.NewJournal(names...)
	return l, err
}

// families are the families that the kernel has.
func families() []nft.Family {
	v4, v6 := host.Families()
	var out []nft.Family
	if v4 {
		out = append(out, nft.IPv4)
	}
	if v6 {
		out = append(out, nft.IPv6)
	}
	return out
}

// Journal must be run beside the loop.
func (l *Loop) Journal() *host.Journal { return l.journal }

// Latest is what the last sync, successful or not, was to make the kernel equal
// to; nil before the first. It must not be changed.
func (l *Loop) Latest() *Input { return l.latest.Load() }

// Addresses are this host's, as the next sync will have them.
func (l *Loop) Addresses() host.Addrs { return l.addrs.Latest() }

// Run reconciles until ctx ends. It leaves the rules in place.
func (l *Loop) Run(ctx context.Context) error {
	resync := time.NewTicker(l.Resync)
	defer resync.Stop()
	full := time.NewTicker(l.FullResync)
	defer full.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	beat := time.NewTicker(beatPeriod)
	defer beat.Stop()
	for {
		l.alive.expect(3 * beatPeriod)
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			continue
		case <-l.desires.Changed():
			l.ask()
			l.notBefore = time.Time{}
		case <-l.addrs.C():
			l.ask()
			l.waiting.note(HostAddresses, time.Now())
		case <-l.journal.C(): // other tables' transactions, too: see step
		case <-again.C:
		case <-resync.C:
			l.compareGeneration()
		case <-full.C:
			l.forget(false)
		}
		again.Reset(l.step(ctx))
	}
}

// ask has the next step sync.
func (l *Loop) ask() {
	l.pending = true
	l.Metrics.queued.SetToCurrentTime()
}

// never is a timer's setting that is never reached.
const never = 1 << 62

// step does what there is to do, and says when to come again if nothing
// happens before.
func (l *Loop) step(ctx context.Context) time.Duration {
	l.detectDrift()
	l.waiting.join(l.Triggers.take()) // before Latest: see Note
	desired := l.desires.Latest()
	if !l.pending || desired == nil {
		return never
	}
	if wait := time.Until(l.notBefore); wait > 0 {
		return wait
	}
	began := time.Now()
	if err := l.sync(ctx, desired); err != nil {
		if ctx.Err() != nil {
			return never // the agent ends, which is no failure
		}
		return l.failed(err)
	}
	l.succeeded(time.Since(began))
	return never
}

func (l *Loop) succeeded(took time.Duration) {
	l.pending, l.notBefore = false, time.Time{}
	if l.drifted {
		l.drifted = false
		l.notBefore = time.Now().Add(max(repairGap, took)) // a fight must not take all of the CPU
	}
	if l.failures > 0 {
		l.Log.Info("the kernel has been programmed after all", "reason", event.ProgrammingRecovered, "failures", l.failures)
		l.failures = 0
	}
	l.Health.Programmed(time.Now())
	if l.sent { // else there was nothing to program
		l.Metrics.programmed(time.Now(), l.waiting)
	}
	l.waiting, l.sent = waiting{}, false
}

// repairGap is the shortest time between two repairs.
const repairGap = 250 * time.Millisecond

// failed counts and logs a failed sync, and gives the time to the next try.
func (l *Loop) failed(err error) time.Duration {
	l.failures++
	wait := backoff(l.failures)
	l.notBefore = time.Now().Add(wait)
	l.Log.Error("the kernel could not be programmed", "reason", event.ProgrammingFailed, "error", oneLine(err), "failures", l.failures, "retry", wait)
	l.Health.Failed(fmt.Sprintf("nftables: %s (failures in a row: %d)", oneLine(err), l.failures))
	return wait
}

// backoff gives the time after n failures in a row: 250 ms doubling to 30 s.
func backoff(n int) time.Duration {
	return min(250*time.Millisecond<<min(n-1, 10), 30*time.Second)
}

// oneLine joins nft's messages, which span lines.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
