package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/event"
	"pointsman/state/manifest"
)

// source turns what the manifests directory holds into what is desired. It's
// the last place where a bad push can be stopped: from here on everything is
// served.
type source struct {
	watcher  *manifest.Watcher
	loader   *manifest.Loader
	ledger   *ledger
	dir      string
	stateDir string
	nodeName string
	zone     string
	log      *slog.Logger
	health   *reconcile.Health
	metrics  *manifestMetrics
	fleet    *gossip.Agent
	busy     *activity

	approvals  chan approval
	overlay    state.Overlayer
	kept       *keptWatch
	changed    chan struct{}      // capacity 1, no data
	triggers   reconcile.Triggers // since when the loop has something to do
	news       bell               // for those who watch what is shown of all this
	latest     atomic.Pointer[reconcile.Desired]
	judged     atomic.Pointer[manifest.Result] // the last one, whether it's served or not
	inForce    atomic.Pointer[inForce]         // nil before there is anything
	reported   map[complained]*complaint       // what is wrong with the manifests, as it was told
	unsaved    bool                            // the last good objects are not in the state directory yet
	saveFailed bool                            // the last time
	ephemeral  string                          // the ports that were warned of
}

// newSource makes what the command line decides of a source.
func newSource(c *cli.Context, o options, log *slog.Logger) *source {
	before, err := readPast(c.String("state-dir"))
	if err != nil {
		log.Warn("it isn't known what this host served before; a return to that may be held", "error", err)
	}
	return &source{
		loader: manifest.NewLoader(o.judging, lastGoodPath(c)), ledger: newLedger(o.loop.NodeName, o.limits, before),
		dir: c.String("manifests"), stateDir: c.String("state-dir"), nodeName: o.loop.NodeName, zone: c.String("zone"), busy: o.busy,
		log: log, changed: make(chan struct{}, 1), approvals: make(chan approval),
	}
}

// Changed and Latest make it a reconcile.Desires.
func (s *source) Changed() <-chan struct{} { return s.changed }

// Latest is nil until there is something to serve.
func (s *source) Latest() *reconcile.Desired { return s.latest.Load() }

// saveAfter is the time after a change before the last good objects are
// written: a burst of changes is written once.
const saveAfter = time.Second

// saveAgain is the time after which it's tried again: a disk that was full is
// full for a while.
const saveAgain = 10 * time.Second

// run follows the directory until ctx ends.
func (s *source) run(ctx context.Context) error {
	save := time.NewTimer(saveAfter)
	defer save.Stop()
	for {
		select {
		case <-ctx.Done():
			s.save()
			return nil
		case <-s.watcher.Changed():
			s.load(time.Now())
			s.news.ring()
			save.Reset(saveAfter)
		case a := <-s.approvals:
			a.done <- s.approve(a.name)
			s.news.ring()
			save.Reset(saveAfter)
		case <-s.fleet.Changed():
			s.serve(reconcile.FleetHealth, time.Now())
			s.news.ring()
		case <-save.C:
			if s.save(); s.unsaved {
				save.Reset(saveAgain)
			}
		}
	}
}

// load reads what the directory means and publishes it, unless it would take
// too much away.
func (s *source) load(began time.Time) {
	snapshot, err := s.watcher.Latest()
	s.busy.done()
	if err != nil { // which the watcher has logged
		s.keep(err.Error())
		return
	}
	s.busy.say("judging %s files", grouped(len(snapshot.Files)))
	r := s.loader.Load(snapshot)
	s.busy.done()
	if !s.ledger.follows(manifest.HashText(r.Hash())) {
		s.recall(r)
	}
	s.report(r)
	before := s.ledger.served
	if why := s.nothing(r); why != "" {
		s.keep(why)
		s.log.Error(s.fallback(), "reason", event.LastStateKept, "why", why)
		return
	}
	if !s.ledger.offer(r, snapshot.Commit, began) {
		s.hold()
		return
	}
	s.accept(r, snapshot.Noticed)
	s.tellLoaded(before, len(snapshot.Files), time.Since(began))
}

// accept puts in force what the directory means, since a time that isn't known if
// it's zero.
func (s *source) accept(r *manifest.Result, since time.Time) {
	s.health.Degraded("manifests", "")
	s.loader.Accept(r)
	s.unsaved = true
	s.publish(r, since)
	s.show("")
}

// publish puts a result in force.
func (s *source) publish(r *manifest.Result, since time.Time) {
	s.health.Degraded(staleManifests, staleText(r))
	s.metrics.loaded(r)
	s.warnEphemeral(servedBy(r.Services, s.nodeName))
	s.serve(reconcile.Manifests, since)
}

// show makes known what is in force, and why that isn't what the directory
// means, if it isn't.
func (s *source) show(why string) {
	l := s.ledger
	s.metrics.shown(l.state.Commit, why != "", l.held)
	if l.served == nil {
		return
	}
	f := &inForce{result: l.served, state: l.state, past: l.past, kept: why, held: l.held}
	s.inForce.Store(f)
	s.fleet.Set(l.served.Services, peersOf(l.served.Nodes), f.text())
}

// serve publishes what is in force, with what the fleet knows of its endpoints
// folded in. What is new has a cause, which was known at a time.
func (s *source) serve(why reconcile.Cause, since time.Time) {
	health := s.fleet.Health()
	s.health.Drained(health.NodeDrained(s.nodeName))
	r := s.ledger.served
	if r == nil {
		return
	}
	declared := servedBy(r.Services, s.nodeName)
	services := s.overlay.Overlay(declared, health)
	s.tellKept(declared, services)
	if before := s.latest.Load(); before != nil {
		tellFlips(s.log, flips(before.Services, services), &health.Verdicts)
	}
	d := &reconcile.Desired{Services: services, Zone: s.zone}
	for _, n := range r.Nodes {
		d.FleetIPs = append(d.FleetIPs, n.Addresses...)
		if n.Name != s.nodeName {
			continue
		}
		d.InternalIPs = n.Addresses
		if n.Zone != "" {
			d.Zone = n.Zone
		}
	}
	s.latest.Store(d)
	s.triggers.Note(why, since)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// endpoints counts the endpoints of all ports.
func endpoints(services []*state.Service) int {
	n := 0
	for _, s := range services {
		for i := range s.Ports {
			n += len(s.Ports[i].Endpoints)
		}
	}
	return n
}
