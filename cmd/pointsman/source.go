package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/manifest"
)

// source turns what the manifests directory holds into what is desired. It's
// the last place where a bad push can be stopped: from here on everything is
// served.
type source struct {
	watcher    *manifest.Watcher
	loader     *manifest.Loader
	dir        string
	stateDir   string
	nodeName   string
	zone       string
	allowEmpty bool
	log        *slog.Logger
	health     *reconcile.Health
	metrics    *manifestMetrics
	fleet      *gossip.Agent

	served    *manifest.Result // what is in force; nil before there is anything
	overlay   state.Overlayer
	changed   chan struct{} // capacity 1, no data
	latest    atomic.Pointer[reconcile.Desired]
	judged    atomic.Pointer[manifest.Result] // the last one, whether it's served or not
	reported  map[string]bool                 // problems of the last result
	unsaved   bool                            // the last good objects are not in the state directory yet
	ephemeral string                          // the ports that were warned of
}

// Changed and Latest make it a reconcile.Desires.
func (s *source) Changed() <-chan struct{} { return s.changed }

// Latest is nil until there is something to serve.
func (s *source) Latest() *reconcile.Desired { return s.latest.Load() }

// saveAfter is the time after a change before the last good objects are
// written: a burst of changes is written once.
const saveAfter = time.Second

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
			s.load()
			save.Reset(saveAfter)
		case <-s.fleet.Changed():
			s.serve()
		case <-save.C:
			s.save()
		}
	}
}

// load reads what the directory means and publishes it, unless it would take
// everything away.
func (s *source) load() {
	began := time.Now()
	snapshot, err := s.watcher.Latest()
	if err != nil { // which the watcher has logged
		s.keep(err.Error())
		return
	}
	r := s.loader.Load(snapshot)
	s.report(r)
	if why := s.nothing(r); why != "" {
		s.log.Error("the last state stays in force", "why", why)
		s.keep(why)
		return
	}
	s.health.Degraded("manifests", "")
	s.loader.Accept(r)
	s.unsaved = true
	s.publish(r)
	s.log.Info("manifests loaded", "files", len(snapshot.Files), "services", len(r.Services),
		"stale", len(r.Stale), "took", time.Since(began).Round(100*time.Microsecond))
}

// nothing tells why a result without any Service isn't served. That they are
// all bad is not what --allow-empty is for.
func (s *source) nothing(r *manifest.Result) string {
	switch {
	case len(r.Services) > 0:
		return ""
	case manifest.HasErrors(r.Problems):
		return fmt.Sprintf("no Service of %s can be served, for the errors of the manifests", s.dir)
	case s.allowEmpty:
		return ""
	}
	return fmt.Sprintf("no Service is left in %s (--allow-empty lets that through)", s.dir)
}

// keep keeps the last state in force: that of this process, else the one that
// the last process left. If there is neither, the kernel keeps what it holds.
func (s *source) keep(why string) {
	s.health.Degraded("manifests", why+"; the last state stays in force")
	if s.latest.Load() != nil {
		return
	}
	r := s.loader.Restore()
	s.report(r)
	if len(r.Services) == 0 {
		return
	}
	s.log.Warn("serving what was last good before the restart", "services", len(r.Services))
	s.publish(r)
}

// publish puts a result in force.
func (s *source) publish(r *manifest.Result) {
	s.served = r
	s.health.Degraded("stale manifests", staleText(r))
	s.metrics.loaded(r)
	s.warnEphemeral(servedBy(r.Services, s.nodeName))
	s.serve()
	s.fleet.Set(r.Services, peersOf(r.Nodes), servedText(r))
}

// serve publishes what is in force, with what the fleet knows of its endpoints
// folded in.
func (s *source) serve() {
	health := s.fleet.Health()
	s.health.Drained(health.NodeDrained(s.nodeName))
	r := s.served
	if r == nil {
		return
	}
	services := s.overlay.Overlay(servedBy(r.Services, s.nodeName), health)
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
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func staleText(r *manifest.Result) string {
	switch n := len(r.Stale); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("the last good version of %s is served", r.Stale[0])
	default:
		return fmt.Sprintf("the last good versions of %s and %d more are served", r.Stale[0], n-1)
	}
}

// maxLogged bounds the problems that one load logs; validate shows them all.
const maxLogged = 20

// report logs the problems that weren't there before.
func (s *source) report(r *manifest.Result) {
	s.judged.Store(r)
	now := make(map[string]bool, len(r.Problems))
	logged := 0
	for _, p := range r.Problems {
		text := p.String()
		now[text] = true
		if s.reported[text] {
			continue
		}
		if logged++; logged > maxLogged {
			continue
		}
		level := slog.LevelWarn
		if p.Severity == manifest.Error {
			level = slog.LevelError
		}
		s.log.Log(context.Background(), level, "manifest", "problem", text)
	}
	if logged > maxLogged {
		s.log.Warn("more problems were found", "count", logged-maxLogged, "see", "pointsman validate "+s.dir)
	}
	s.reported = now
}

// save writes the last good objects to the state directory. They are for a
// restart with a broken or missing directory; that they can't be written
// doesn't keep this process from serving.
func (s *source) save() {
	if !s.unsaved {
		return
	}
	path := filepath.Join(s.stateDir, lastGoodFile)
	if err := s.loader.LastGood().WriteFile(path); err != nil {
		s.health.Degraded("state directory", err.Error())
		s.log.Error("the last good manifests could not be saved", "error", err)
		return
	}
	s.health.Degraded("state directory", "")
	s.unsaved = false
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
