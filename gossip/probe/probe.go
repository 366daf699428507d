// Package probe finds out which backends work: it makes this node's share of
// the probes that the manifests ask for, counts what comes of them, and reports
// when a verdict changes. Who makes which probe, and what a verdict is worth,
// is for others to say (package gossip).
//
// One goroutine holds the schedule (schedule.go); the probes themselves run in
// others, which are started when one is due and are never more than
// Config.Workers (tcp.go, http.go, grpc.go, exec.go).
package probe

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"pointsman/state"
)

// Result is a change of what this node thinks of a Check.
type Result struct {
	Key     state.CheckKey
	Verdict state.Verdict // Up or Down
	Failure state.Failure // of Down: what the last probe saw
	Detail  string        // for people: at most 200 bytes, printable, may be empty
}

// Assignment is a Check that this node is to make.
type Assignment struct {
	Check *state.Check

	// Urgent has it made at once instead of at some time in its period, and one
	// failure decides: its home host is dead.
	Urgent bool
}

// Config is what a Prober needs to know.
type Config struct {
	// AllowExec has commands run. Without it a probe that is one fails.
	AllowExec bool

	// Workers bounds the probes in flight; 0 is DefaultWorkers.
	Workers int

	// Report is told of each change, by one goroutine, in order for each Check.
	// Nothing is probed until it returns.
	Report func(Result)

	// Seed differs from node to node, so that the nodes that probe one backend
	// don't do so at one moment. The same seed gives the same schedule.
	Seed uint64

	Version string // for the User-Agent of HTTP probes: pointsman/VERSION
	Log     *slog.Logger

	// Dial opens connections; nil is that of a net.Dialer. It must heed its
	// context.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DefaultWorkers lets 2,500 backends that don't answer within a second be
// probed every ten; more of them are probed late.
const DefaultWorkers = 256

// Stats is how busy a Prober is.
type Stats struct {
	Checks    int     // how many there are
	PerSecond float64 // probes a second that they ask for while all is well
	InFlight  int     // probes under way
	Started   uint64  // probes so far
	Late      uint64  // of these, how many began more than a second late
	Void      uint64  // of these, how many said nothing: this host couldn't make them
}

// Prober makes probes. Set and Load may be called by any goroutine, at any
// time; before Run nothing is probed.
type Prober struct {
	Config
	probe func(ctx context.Context, c *state.Check, p *state.Probe) outcome // or a fake
	wake  chan struct{}                                                     // capacity 1, no data: there is a new set

	mu  sync.Mutex
	set []Assignment // the new set, nil where there is none

	checks, inFlight    atomic.Int64
	started, late, void atomic.Uint64
	milliPerSecond      atomic.Int64 // probes in 1,000 seconds
}

// New gives a Prober without Checks.
func New(cfg Config) *Prober {
	if cfg.Workers <= 0 {
		cfg.Workers = DefaultWorkers
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Report == nil {
		cfg.Report = func(Result) {}
	}
	if cfg.Dial == nil {
		// Keep-alives are for connections that outlive a probe.
		cfg.Dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	x := &executor{allowExec: cfg.AllowExec, dial: cfg.Dial, userAgent: "pointsman/" + cfg.Version}
	return &Prober{Config: cfg, probe: x.probe, wake: make(chan struct{}, 1)}
}

// Set replaces the Checks. Those that stay, by their keys, keep their counts
// and their place in the schedule. The slice must not be changed afterwards.
func (p *Prober) Set(checks []Assignment) {
	if checks == nil {
		checks = []Assignment{}
	}
	p.mu.Lock()
	p.set = checks
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// takeSet gives the new set, nil where there is none.
func (p *Prober) takeSet() []Assignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := p.set
	p.set = nil
	return set
}

// Load tells how busy the Prober is.
func (p *Prober) Load() Stats {
	return Stats{
		Checks:    int(p.checks.Load()),
		PerSecond: float64(p.milliPerSecond.Load()) / 1000,
		InFlight:  int(p.inFlight.Load()),
		Started:   p.started.Load(),
		Late:      p.late.Load(),
		Void:      p.void.Load(),
	}
}

// Run makes the probes until ctx ends, and then waits for those in flight,
// which end with it. It may be called once.
func (p *Prober) Run(ctx context.Context) error {
	s := newSchedule(p.Config)
	done := make(chan ended, p.Workers) // no worker ever waits to be heard
	var workers sync.WaitGroup
	defer workers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		for t := s.next(now); t != nil; t = s.next(now) {
			p.started.Add(1)
			if now.Sub(t.due) > time.Second {
				p.late.Add(1)
			}
			check := t.check // a worker looks at nothing else: the rest is the schedule's
			workers.Go(func() { done <- ended{t, now, p.work(ctx, check)} })
		}
		p.inFlight.Store(int64(s.inFlight))
		timer.Reset(s.wait(now))
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
			p.replace(s)
		case e := <-done:
			if ctx.Err() != nil {
				return nil // which may be all that the probe failed for
			}
			p.settle(s, e)
		case <-timer.C:
		}
	}
}

func (p *Prober) work(ctx context.Context, c *state.Check) outcome {
	probe := effective(c)
	ctx, cancel := context.WithTimeout(ctx, probe.Timeout)
	defer cancel()
	return p.probe(ctx, c, probe)
}

func (p *Prober) replace(s *schedule) {
	set := p.takeSet()
	if set == nil {
		return
	}
	s.replace(set, time.Now())
	p.checks.Store(int64(s.assigned))
	p.milliPerSecond.Store(int64(1000 * s.perSecond))
}

func (p *Prober) settle(s *schedule, e ended) {
	if e.void {
		if p.void.Add(1)%1000 == 1 { // there will be many
			p.Log.Error("this host can't make probes", "error", e.detail)
		}
	}
	s.settle(e, time.Now())
}
