package gossip

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"pointsman/gossip/probe"
	"pointsman/state"
)

// Config says how this host looks after the health of backends.
type Config struct {
	ClusterConfig        // without Bind, the host works alone
	Release       string // of pointsman, shown to the others
	AllowExec     bool   // run the commands of exec probes
}

// Agent finds out, with the fleet or alone, which backends work. It publishes
// state.Health; Run does the work.
type Agent struct {
	cfg     Config
	cluster *Cluster
	prober  *probe.Prober
	disk    disk
	jury    *jury
	found   chan probe.Result
	shown   Meta
	lines   tokens // of the log, about drains

	changed chan struct{}
	news    chan struct{}
	wake    chan struct{}
	ended   chan struct{} // nobody takes what is found any more
	told    atomic.Pointer[manifests]
	health  atomic.Pointer[state.Health]
	status  atomic.Pointer[Status]
}

// Status is what there is to be shown of the fleet.
type Status struct {
	Alone    bool
	Isolated string // why this host judges alone; empty if it doesn't
	Known    int    // members that there should be
	View     *View
	Spared   []string       // members whose death isn't taken as that of their backends
	Load     map[string]int // how many Checks each member is asked about
	Probes   probe.Stats
}

// Absent gives the hosts that should be members and aren't alive. A host alone
// misses nobody.
func (s *Status) Absent() []string {
	if s.Alone {
		return nil
	}
	return s.View.Absent
}

// NewAgent makes an Agent. It fails only for what is wrong with the
// configuration.
func NewAgent(cfg Config) (*Agent, error) {
	cluster, err := NewCluster(cfg.ClusterConfig)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, cluster: cluster, disk: disk{cfg.StateDir}, found: make(chan probe.Result, 1024),
		changed: make(chan struct{}, 1), news: make(chan struct{}, 1), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	a.prober = probe.New(probe.Config{AllowExec: cfg.AllowExec, Report: a.report, Seed: nameSeed(cfg.NodeName), Version: cfg.Release, Log: cfg.Log})
	now := time.Now()
	restored, err := a.restore(now)
	cluster.trouble(BadVerdicts, err)
	a.jury = newJury(cfg.NodeName, cfg.alone(), restored, now)
	a.publish()
	return a, nil
}

// BadVerdicts is the trouble of verdicts that can't be saved, or weren't read.
const BadVerdicts TroubleKind = "file of verdicts"

// The file of verdicts in the state dir.
const (
	verdictsFile = "verdicts"
	saveEvery    = 5 * time.Second
)

// StateFiles names the files that this package writes to the state dir.
func StateFiles() []string {
	var all []string
	for _, name := range []string{incarnationFile, drainsFile, verdictsFile} {
		all = append(all, name, name+unfinished)
	}
	return all
}

// restore reads the verdicts of the process before.
func (a *Agent) restore(now time.Time) (map[state.CheckKey]*state.Judgement, error) {
	data, err := a.disk.read(verdictsFile, MaxVerdictFile)
	if data == nil {
		return nil, err
	}
	restored, err := DecodeVerdicts(data, now)
	if err != nil {
		return nil, a.disk.named(verdictsFile, err)
	}
	return restored, nil
}

// manifests is what they say, as far as it matters for health.
type manifests struct {
	services []*state.Service
	peers    []Peer
	serves   string
}

// Set takes what the manifests say, and returns at once. Services are all of the
// fleet's, not those of this host alone, so that all hosts agree who probes
// what; serves names what is served.
func (a *Agent) Set(services []*state.Service, peers []Peer, serves string) {
	a.told.Store(&manifests{services, peers, serves})
	poke(a.wake)
}

// Changed gives a signal after each change of Health.
func (a *Agent) Changed() <-chan struct{} { return a.changed }

// News gives a signal when Status may have changed.
func (a *Agent) News() <-chan struct{} { return a.news }

// Health is what is known now; it's never nil.
func (a *Agent) Health() *state.Health { return a.health.Load() }

// Status is what there is to be shown now.
func (a *Agent) Status() *Status {
	s := *a.status.Load()
	s.View, s.Probes = a.cluster.View(), a.prober.Load()
	return &s
}

// Drain makes a target get no new connections, on all hosts.
func (a *Agent) Drain(d state.Drain) error { return a.cluster.Drain(d) }

// Undrain ends a drain, whoever set it.
func (a *Agent) Undrain(t state.DrainTarget) error { return a.cluster.Undrain(t) }

// DrainSelf drains this host until it has booted again.
func (a *Agent) DrainSelf(d state.Drain) error { return a.cluster.DrainSelf(d) }

// UndrainSelf ends a drain of DrainSelf's.
func (a *Agent) UndrainSelf() error { return a.cluster.UndrainSelf() }

// Ask puts a question to the other members, see Cluster.Ask.
func (a *Agent) Ask(ctx context.Context, question []byte) (answers map[string][]byte, silent []string) {
	return a.cluster.Ask(ctx, question)
}

// Run probes, gossips and judges until ctx is done; it then returns nil.
func (a *Agent) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.cluster.Run(ctx) })
	group.Go(func() error { return a.prober.Run(ctx) })
	group.Go(func() error { a.judge(ctx); return nil })
	return group.Wait()
}

// judge tells the jury what happens, and does what it decides.
func (a *Agent) judge(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	var saved state.Verdicts
	for {
		select {
		case <-ctx.Done():
			close(a.ended)
			a.save(&saved)
			return
		case r := <-a.found:
			a.take(r)
		case <-a.wake:
			a.intend()
		case <-a.cluster.Changed():
		case <-save.C:
			a.save(&saved)
			continue
		case <-again.C:
		}
		a.jury.see(a.cluster.View())
		a.act(a.jury.decide(time.Now()))
		if at, ok := a.jury.next(time.Now()); ok {
			again.Reset(max(time.Until(at), minAgain))
		}
	}
}

// minAgain is the shortest time until the jury meets again by itself.
const minAgain = 10 * time.Millisecond

// take takes what the prober found, all that waits.
func (a *Agent) take(r probe.Result) {
	for now := time.Now(); ; r = <-a.found {
		c, flaps := a.jury.found(r, now)
		if c != nil {
			a.cfg.Log.Info("probe", "target", c.Target, "verdict", r.Verdict, "saw", r.Failure, "detail", r.Detail)
		}
		if flaps > 0 && a.lines.take(now, lineRate, lineBurst) {
			a.tellFlaps(c.Target, flaps)
		}
		if len(a.found) == 0 {
			return
		}
	}
}

func (a *Agent) intend() {
	m := a.told.Load()
	a.cluster.SetPeers(m.peers)
	a.jury.intend(&Intent{Checks: checksOf(m.services, a.jury.alone), Peers: m.peers, Serves: m.serves})
}

// report takes what the prober found to the jury.
func (a *Agent) report(r probe.Result) {
	select {
	case a.found <- r:
	case <-a.ended:
	}
}

// act does what was decided.
func (a *Agent) act(d decision) {
	if d.reprobe {
		a.prober.Set(d.probes)
	}
	if d.publish {
		a.cluster.Publish(d.entries, a.jury.generation)
	}
	if m := a.meta(); m != a.shown {
		a.shown = m
		a.cluster.SetMeta(m)
	}
	a.publish()
}

func (a *Agent) meta() Meta {
	_, drained := a.jury.view.Drains[state.DrainTarget{Node: a.cfg.NodeName}]
	return Meta{Release: a.cfg.Release, Commit: a.jury.intent.Serves, BootID: a.cfg.BootID, Drained: drained, Isolated: a.jury.why != ""}
}

// publish makes Health and Status new, if they are.
func (a *Agent) publish() {
	j := a.jury
	a.tellIsolated(j.why)
	a.status.Store(&Status{Alone: j.alone, Isolated: j.why, Known: j.known(), Spared: j.fleet.Spared, Load: j.load})
	poke(a.news)
	next := &state.Health{Verdicts: *j.verdicts(), Drains: j.view.Drains}
	if last := a.health.Load(); last != nil && sameHealth(last, next) {
		return
	}
	a.tellDrains(next.Drains)
	a.health.Store(next)
	poke(a.changed)
}

func sameHealth(a, b *state.Health) bool {
	return a.Verdicts == b.Verdicts && maps.EqualFunc(a.Drains, b.Drains, func(x, y *state.Drain) bool { return *x == *y })
}

// save writes the verdicts to the state dir, if they changed.
func (a *Agent) save(saved *state.Verdicts) {
	now := *a.jury.verdicts()
	if now == *saved {
		return
	}
	err := a.disk.write(verdictsFile, EncodeVerdicts(&now))
	a.cluster.trouble(BadVerdicts, err)
	if err == nil {
		*saved = now
	}
}
