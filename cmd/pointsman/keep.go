package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"pointsman/state/event"
	"pointsman/state/manifest"
)

// nothing tells why a result without any Service isn't even judged. That they
// are all bad is not what --allow-empty is for, nor is a host without a past to
// take away what somebody else left in its kernel.
func (s *source) nothing(r *manifest.Result) string {
	switch {
	case len(r.Services) > 0:
		return ""
	case manifest.HasErrors(r.Problems):
		return fmt.Sprintf("no Service of %s can be served, for the errors of the manifests", s.dir)
	case s.ledger.served == nil && !s.ledger.limits.AllowEmpty:
		return fmt.Sprintf("there is no Service in %s yet (--allow-empty takes that for what is meant)", s.dir)
	}
	return ""
}

// keep keeps the last state in force: that of this process, else the one that
// the last process left. If there is neither, the kernel keeps what it holds.
func (s *source) keep(why string) {
	s.ledger.held = nil
	if s.ledger.served == nil {
		s.recall(nil)
	}
	s.stay(why)
}

// recall finds out what the last process left. It isn't in force yet. Where there
// are manifests that can be read, stale is what they have errors in: the rest of
// a former state is that of a change that is held.
func (s *source) recall(read *manifest.Result) {
	restored := *s.loader.Restore()
	if read != nil {
		restored.Stale = read.Stale
	}
	if s.judged.Load() == nil { // else there are manifests that were read
		s.report(&restored)
	}
	if len(restored.Services) > 0 {
		s.ledger.restore(&restored)
	}
}

// hold keeps what is in force, and tells what is held.
func (s *source) hold() {
	h := s.ledger.held
	if shown := s.inForce.Load(); shown == nil || shown.held == nil || shown.held.to != h.to {
		s.log.Error("a change is held", "reason", event.ChangeHeld, "object", manifestsObject(h.to), "concerns", concernsOf(s.difference(s.ledger.served, h.result)),
			"to", h.to.Hash, "commit", h.to.Commit, "why", strings.Join(h.verdict.Reasons, "; "),
			"services", h.verdict.Services.Gone, "endpoints", h.verdict.Endpoints.Gone, "release", h.release())
	}
	s.stay(h.String())
}

// stay leaves in force what isn't what the directory means.
func (s *source) stay(why string) {
	s.health.Degraded("manifests", why+"; "+s.fallback())
	if r := s.ledger.served; s.latest.Load() == nil && r != nil {
		s.log.Warn("serving what was last good before the restart", "reason", event.LastStateKept, "services", len(r.Services))
		s.publish(r, time.Time{})
	}
	s.show(why)
}

// fallback says what there is instead of what the directory means.
func (s *source) fallback() string {
	if s.ledger.served == nil {
		return "nothing was served before, so the kernel stays as it is"
	}
	return "the last state stays in force"
}

// approve lets the held change through that is named so.
func (s *source) approve(name string) error {
	before := s.ledger.served
	r, err := s.ledger.approve(name)
	if err != nil {
		return err
	}
	d, to := s.difference(before, r), s.ledger.state
	s.log.Info("the held change was approved on this host: "+changeText(d), "reason", event.ChangeApproved, "object", manifestsObject(to), "concerns", concernsOf(d),
		"to", to.Hash, "commit", to.Commit)
	s.accept(r, time.Now())
	return nil
}

// staleManifests is the name under which /healthz tells of them.
const staleManifests = "stale manifests"

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

// save writes the last good objects to the state directory. They are for a
// restart with a broken or missing directory; that they can't be written
// doesn't keep this process from serving.
func (s *source) save() {
	if !s.unsaved {
		return
	}
	path := filepath.Join(s.stateDir, lastGoodFile)
	err := errors.Join(s.loader.LastGood().WriteFile(path), s.ledger.past.write(s.stateDir))
	if err != nil {
		text := strings.ReplaceAll(err.Error(), "\n", "; ") // it may be two
		s.health.Degraded("state directory", text)
		if !s.saveFailed { // the error names another temporary file each time
			s.log.Error("the last good manifests could not be saved, will try again", "reason", event.StateNotSaved, "error", text, "retry", saveAgain)
		}
		s.saveFailed = true
		return
	}
	s.health.Degraded("state directory", "")
	s.unsaved, s.saveFailed = false, false
}
