package gossip

import (
	"slices"
	"time"

	"pointsman/state"
)

// silenceGrace is how long it takes until the silence of a new observer counts.
// A record lists what isn't up, so one that doesn't list a Check calls it up, if
// only its observer knows that it's asked. It may see another fleet for some
// seconds after a member came or went, which hosts don't notice all at once.
const silenceGrace = 15 * time.Second

// Folder folds the observers' records into Judgements. It remembers what it was
// told and what it judged, and looks again only at what may have changed since.
// All hosts that are told the same come to the same verdicts. It isn't safe for
// concurrent use, and starts no timer: Next says when to call Fold.
type Folder struct {
	self       string
	generation uint64
	restored   map[state.CheckKey]*state.Judgement
	checks     map[state.CheckKey]*folded
	voters     map[string]*voter
	dirty      map[state.CheckKey]bool
	pending    map[state.CheckKey]*state.Judgement // changes to be given by Fold
	due        dueQueue
	votes      []state.Vote // space for one Check's
}

// folded is a Check as it was folded last.
type folded struct {
	observers []string
	judgement *state.Judgement

	// silent has a bit for each observer whose silence doesn't count yet, until
	// then, or until it once listed the Check.
	silent uint8
	until  time.Time

	due time.Time // when it's to be folded again; zero: when something changes
}

// voter is an observer, in the eyes of the Folder.
type voter struct {
	record *Record
	keys   []state.CheckKey // what it's asked about

	// What its last complete record was made against. After a change of its
	// manifests it's silent about new Checks until all of its word is here.
	settled     bool
	incarnation uint32
	generation  uint64
}

// agrees reports whether a voter's silence means Up, the manifests' Checks being
// those of a generation.
func (v *voter) agrees(generation uint64) bool {
	return v.record != nil && v.record.Generation == generation &&
		v.settled && v.incarnation == v.record.Incarnation && v.generation == generation
}

// NewFolder makes a Folder for this host, whose own record is always taken at
// its word. The restored verdicts (DecodeVerdicts) hold until votes decide.
func NewFolder(self string, restored map[state.CheckKey]*state.Judgement) *Folder {
	return &Folder{
		self: self, restored: restored,
		checks: map[state.CheckKey]*folded{}, voters: map[string]*voter{}, dirty: map[state.CheckKey]bool{},
		pending: map[state.CheckKey]*state.Judgement{},
	}
}

// Assign says who observes what from now on, and of what generation the
// manifests' Checks are. The verdict on a Check holds while its observers change;
// it's gone with the Check.
func (f *Folder) Assign(a Assignment, generation uint64, now time.Time) {
	for k, c := range f.checks {
		if _, asked := a[k]; !asked {
			delete(f.checks, k)
			if c.judgement != nil {
				f.pending[k] = nil
			}
		}
	}
	for _, v := range f.voters {
		v.keys = v.keys[:0]
	}
	for k, d := range a {
		f.ask(k, d, now)
		for _, name := range d.Observers {
			v := f.voter(name)
			v.keys = append(v.keys, k)
		}
	}
	for name := range f.voters {
		f.release(name)
	}
	if f.generation != generation {
		f.touchAll()
	}
	for k := range f.restored {
		if f.checks[k] == nil {
			f.pending[k] = nil
		}
	}
	f.generation, f.restored = generation, nil
}

// ask takes a Check's Duty over. The silence of observers counts at once about a
// Check that is new, since they can't know its generation without it. That's not
// so when the Folder is new as well: then the fleet may be only half known.
func (f *Folder) ask(k state.CheckKey, d Duty, now time.Time) {
	c, silent := f.checks[k], uint8(0)
	wary := f.generation == 0 || c != nil || d.Urgent
	switch {
	case c == nil:
		c = &folded{judgement: f.restored[k]}
		f.checks[k] = c
		if c.judgement != nil {
			f.pending[k] = c.judgement
		}
	case slices.Equal(c.observers, d.Observers):
		return
	}
	for i, name := range d.Observers {
		at := slices.Index(c.observers, name)
		switch {
		case at >= 0:
			silent |= c.silent >> at & 1 << i
		case wary && name != f.self:
			silent |= 1 << i
			c.until = now.Add(silenceGrace)
		}
	}
	c.observers, c.silent = d.Observers, silent
	f.dirty[k] = true
}

// Hear takes an observer's latest record; nil where it has none, or has no vote
// for the time being, as one that is cut off.
func (f *Folder) Hear(observer string, r *Record) {
	v := f.voter(observer)
	if v.record == r {
		f.release(observer)
		return
	}
	agreed := v.agrees(f.generation)
	keys, all := relisted(r, v.record)
	v.record = r
	switch {
	case r == nil:
		v.settled = false
	case r.Complete:
		v.settled, v.incarnation, v.generation = true, r.Incarnation, r.Generation
	}
	if all || agreed != v.agrees(f.generation) {
		keys = v.keys
	}
	for _, k := range keys {
		f.dirty[k] = true
	}
	f.release(observer)
}

// relisted gives the keys that two records list differently, and all=true where
// others may differ too. It's Record.Changed but for what agrees tells better:
// news often make a record incomplete for a moment, which would have all that
// its observer is asked about judged again, twice for each flip.
func relisted(is, was *Record) (keys []state.CheckKey, all bool) {
	if is == nil || was == nil || !is.buckets.complete() || !was.buckets.complete() {
		return nil, true
	}
	a, b := *is, *was
	a.Complete, b.Complete, b.Generation = true, true, a.Generation
	return a.Changed(&b)
}

func (f *Folder) voter(name string) *voter {
	v := f.voters[name]
	if v == nil {
		v = &voter{}
		f.voters[name] = v
	}
	return v
}

// release forgets a voter that says nothing and isn't asked.
func (f *Folder) release(name string) {
	if v := f.voters[name]; v.record == nil && len(v.keys) == 0 {
		delete(f.voters, name)
	}
}

func (f *Folder) touchAll() {
	for k := range f.checks {
		f.dirty[k] = true
	}
}

// Fold gives the Judgements that have changed since the last call, nil for those
// that are gone: what Verdicts.With takes. Time must not go backwards.
func (f *Folder) Fold(now time.Time) map[state.CheckKey]*state.Judgement {
	changes := f.pending
	f.pending = map[state.CheckKey]*state.Judgement{}
	for d, ok := f.due.pop(now); ok; d, ok = f.due.pop(now) {
		f.dirty[d.key] = true
	}
	for k := range f.dirty {
		c := f.checks[k]
		if c != nil && f.fold(k, c, now) {
			changes[k] = c.judgement
		}
	}
	f.dirty = map[state.CheckKey]bool{}
	return changes
}

// Next says when Fold has something to do though nothing new was heard; false
// if never.
func (f *Folder) Next() (time.Time, bool) { return f.due.next() }

// fold judges a Check again, and reports whether the outcome is another.
func (f *Folder) fold(k state.CheckKey, c *folded, now time.Time) bool {
	if !now.Before(c.until) {
		c.silent = 0
	}
	f.votes = f.votes[:0]
	for i := range c.observers {
		f.votes = append(f.votes, f.vote(k, c, i, now))
	}
	j := judge(c.judgement, f.votes, now)
	f.schedule(k, c, j)
	if sameJudgement(c.judgement, j) {
		return false
	}
	if j != nil {
		j.Votes = slices.Clone(f.votes)
	}
	c.judgement = j
	return true
}

// vote gives the word of a Check's i-th observer: Unknown where it has no fresh
// one.
func (f *Folder) vote(k state.CheckKey, c *folded, i int, now time.Time) state.Vote {
	vote := state.Vote{Observer: c.observers[i], Since: now}
	if v := f.voters[vote.Observer]; v.record != nil {
		said, speaks := v.record.Says(k)
		switch {
		case !speaks:
		case said.Verdict != state.Up:
			vote.Verdict, vote.Failure = said.Verdict, said.Failure
			c.silent &^= 1 << i // it knows that it's asked
		case c.silent>>i&1 == 0 && v.agrees(f.generation):
			vote.Verdict = state.Up
		}
	}
	if c.judgement == nil {
		return vote
	}
	for _, former := range c.judgement.Votes {
		if former.Observer == vote.Observer && former.Verdict == vote.Verdict {
			vote.Since = former.Since
		}
	}
	return vote
}

// schedule notes when a Check is to be folded again by itself.
func (f *Folder) schedule(k state.CheckKey, c *folded, j *state.Judgement) {
	var at time.Time
	if c.silent != 0 {
		at = c.until
	}
	if j != nil && j.Held && (at.IsZero() || j.Until.Before(at)) {
		at = j.Until
	}
	if !at.Equal(c.due) && !at.IsZero() {
		f.due.push(due{at, k})
	}
	c.due = at
}
