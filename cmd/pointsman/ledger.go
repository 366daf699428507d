package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pointsman/state/change"
	"pointsman/state/manifest"
)

// ledger decides which states of the manifests are served. It knows files and
// clocks only by what it's told, so what it says of a series of states is a
// function of that series and of the past it began with.
type ledger struct {
	node   string
	limits change.Limits
	past   past

	served *manifest.Result // nil before there is anything
	state  pastState        // of served; before that of what was served last
	held   *heldChange      // nil while nothing is held
}

func newLedger(node string, limits change.Limits, p past) *ledger {
	l := &ledger{node: node, limits: limits, past: p}
	if len(p.States) > 0 {
		l.state = p.States[0]
	}
	return l
}

// heldChange is a change that isn't served for what it would take away.
type heldChange struct {
	from, to pastState
	verdict  change.Verdict
	since    time.Time
	result   *manifest.Result

	unapproved string // why the approve.yaml that is there doesn't let it through
}

// follows reports whether it takes no look at what was served before a restart
// to let a state through: it's that state, or one of those before.
func (l *ledger) follows(hash string) bool {
	_, lately := l.past.find(hash)
	return l.served != nil || lately
}

// offer takes the state that the manifests mean now, and reports whether it's
// to be served; else it's held.
func (l *ledger) offer(r *manifest.Result, commit string, now time.Time) bool {
	to := pastState{manifest.HashText(r.Hash()), commit}
	v, through := l.judge(r, to)
	if through {
		l.take(r, to)
		return true
	}
	if l.held != nil && l.held.to.Hash == to.Hash && l.held.from.Hash == l.state.Hash {
		now = l.held.since
	}
	l.held = &heldChange{from: l.state, to: to, verdict: v, since: now, result: r}
	_, l.held.unapproved = l.approved(r.Approval, to)
	return false
}

// judge decides about the change to a state. Returns to what was served lately
// pass, for rolling back must never wait for anybody.
func (l *ledger) judge(r *manifest.Result, to pastState) (v change.Verdict, through bool) {
	if l.served == nil || l.state.Hash == to.Hash {
		return v, true
	}
	if _, lately := l.past.find(to.Hash); lately {
		return v, true
	}
	v = change.Judge(l.served.Services, r.Services, l.node, l.limits)
	approved, _ := l.approved(r.Approval, to)
	return v, !v.Held() || approved
}

// approved reports whether approve.yaml lets the change to a state through, and
// why not where there is one.
func (l *ledger) approved(a *manifest.Approval, to pastState) (ok bool, why string) {
	switch {
	case a == nil:
	case slices.Contains(l.past.Spent, a.ID):
		why = "it was there when the state changed before, so it's spent: with another reason it's another one"
	case a.From != "" && !manifest.Names(a.From, l.state.Hash, l.state.Commit):
		why = fmt.Sprintf("it's from %s, and this host serves %s", a.From, l.state)
	case a.To != "" && a.To != to.Hash:
		why = fmt.Sprintf("it's to %s, and this change is to %s", a.To, to)
	default:
		ok = true
	}
	return ok, why
}

// take puts a state in force. An approval that is there while the state changes
// is spent, whether it was needed or not: a forgotten file is none. And a return
// to no Service at all is never one that passes for being a return.
func (l *ledger) take(r *manifest.Result, to pastState) {
	if l.state.Hash != to.Hash && r.Approval != nil {
		l.past = l.past.without(r.Approval.ID)
	}
	if len(r.Services) > 0 {
		l.past = l.past.with(to)
	}
	l.served, l.state, l.held = r, to, nil
}

// restore puts in force what was last good before a restart.
func (l *ledger) restore(r *manifest.Result) {
	l.state, _ = l.past.find(manifest.HashText(r.Hash()))
	l.served = r
}

// approve lets what is held through if it's what is named: by its hash or its
// commit.
func (l *ledger) approve(name string) (*manifest.Result, error) {
	h := l.held
	switch {
	case h == nil:
		return nil, errors.New("no change is held on this host")
	case !manifest.Names(name, h.to.Hash, h.to.Commit):
		return nil, fmt.Errorf("%.80q is not what is held, which is %s: give its whole hash, or the first digits of its commit, 7 at least", name, h.to)
	}
	l.take(h.result, h.to)
	return h.result, nil
}

// String gives the hash, and the commit if it's known.
func (s pastState) String() string {
	if s.Commit == "" {
		return s.Hash
	}
	return s.Hash + " (commit " + s.Commit + ")"
}

// String sums up what is held and why.
func (h *heldChange) String() string {
	return fmt.Sprintf("the change to %s is held: %s", h.to, strings.Join(h.verdict.Reasons, "; "))
}

// release says how to let it through, and why the approve.yaml that is there
// doesn't.
func (h *heldChange) release() string {
	how := fmt.Sprintf("on this host: pointsman approve %s; on all hosts: %s in the manifests directory with \"from: %s\"",
		h.to.Hash, manifest.ApprovalFile, h.from.Hash)
	if h.unapproved != "" {
		how += " (the one that is there doesn't: " + h.unapproved + ")"
	}
	return how
}
