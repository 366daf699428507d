package gossip

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"pointsman/gossip/probe"
	"pointsman/state"
)

// settleFor is how long a host that starts waits for the first of the others.
// Until then it neither probes nor judges, or it would take on everybody's
// probes for a second. Restored verdicts hold meanwhile.
const settleFor = 10 * time.Second

// Intent is what the manifests say that matters for health. It's immutable.
type Intent struct {
	Checks []*state.Check // each key once
	Peers  []Peer         // of the Node manifests; none: whoever holds the key
	Serves string         // names what is served
}

// jury is all of an Agent's judging, without goroutines, clocks and I/O: it's
// told what the manifests, the fleet and this host's probes say, and decide says
// what follows.
type jury struct {
	self    string
	alone   bool // there's no gossip
	started time.Time

	intent     *Intent
	briefed    bool // intent is that of manifests
	generation uint64
	view       *View
	anew       bool // intent or membership changed since the last decision

	fleet  Fleet
	duties Assignment                      // by the fleet, as this host sees it
	load   map[string]int                  // of duties
	own    map[state.CheckKey]*state.Check // those that this host probes
	circle circle                          // who judges in the fleet
	lone   *circle
	why    string // this host is isolated; empty if it isn't

	damper Damper
	said   map[state.CheckKey]Entry // what this host says of the Checks it's asked about, Up too
	downs  int                      // how many of said are Down
	voice  *store                   // holds its own record, whether it's published or not
	resay  bool                     // that is to be made anew
}

// circle is a Folder with what it came to so far.
type circle struct {
	folder   *Folder
	verdicts state.Verdicts
}

func (c *circle) fold(now time.Time) {
	if changes := c.folder.Fold(now); len(changes) > 0 {
		c.verdicts = c.verdicts.With(changes)
	}
}

// decision is what a jury wants done.
type decision struct {
	probes  []probe.Assignment // for the prober, if reprobe
	reprobe bool
	entries []Entry // for the Cluster, if publish
	publish bool
}

func newJury(self string, alone bool, restored map[state.CheckKey]*state.Judgement, now time.Time) *jury {
	j := &jury{self: self, alone: alone, started: now, said: map[state.CheckKey]Entry{}, view: &View{}, intent: &Intent{},
		voice: newStore(self, 1)}
	j.circle.folder = NewFolder(self, restored)
	j.circle.verdicts = j.circle.verdicts.With(restored)
	return j
}

// intend takes what the manifests say.
func (j *jury) intend(in *Intent) {
	j.intent, j.generation = in, Generation(in.Checks)
	j.briefed, j.anew = true, true
}

// see takes what is known of the fleet.
func (j *jury) see(v *View) {
	j.anew = j.anew || !sameMembers(j.view, v)
	j.view = v
}

// sameMembers reports whether two views have the same hosts in the same states,
// as far as that decides who observes what.
func sameMembers(a, b *View) bool {
	same := func(x, y Member) bool {
		return x.Name == y.Name && x.State.up() == y.State.up() && x.Meta.Isolated == y.Meta.Isolated
	}
	return slices.EqualFunc(a.Members, b.Members, same) && slices.Equal(a.Absent, b.Absent)
}

// up reports whether a member counts as there.
func (s MemberState) up() bool { return s == Alive || s == Suspect }

// found takes a transition that this host's probes saw, and gives its Check:
// nil if this host isn't asked any more. As for flaps, see Damper.Observe.
func (j *jury) found(r probe.Result, now time.Time) (c *state.Check, flaps time.Duration) {
	if c = j.own[r.Key]; c != nil {
		flaps = j.damper.Observe(Entry{r.Key, r.Verdict, r.Failure}, now)
	}
	return c, flaps
}

// verdicts are those that count on this host.
func (j *jury) verdicts() *state.Verdicts {
	if j.lone != nil {
		return &j.lone.verdicts
	}
	return &j.circle.verdicts
}

// settled reports whether this host knows enough to begin: what there is to
// probe, or the verdicts restored would be gone as those of nothing; and of the
// fleet, where a fleet of one by its manifests has nobody to wait for.
func (j *jury) settled(now time.Time) bool {
	complete := len(j.intent.Peers) > 0 && len(j.view.Absent) == 0
	return j.briefed && (j.alone || complete || j.view.Alive() > 1 || !now.Before(j.started.Add(settleFor)))
}

// decide works out what follows from all that is known.
func (j *jury) decide(now time.Time) decision {
	var d decision
	if !j.settled(now) {
		return d
	}
	j.secede()
	if j.anew || j.duties == nil {
		j.assign(now)
		d.probes, d.reprobe = j.probes(), true
	}
	j.hear()
	j.speak(now, &d)
	j.circle.fold(now)
	if j.lone != nil {
		j.lone.fold(now)
	}
	return d
}

// next says when to decide again though nothing was heard; false if never.
func (j *jury) next(now time.Time) (time.Time, bool) {
	if !j.settled(now) {
		return j.started.Add(settleFor), j.briefed
	}
	var first time.Time
	for _, next := range []func() (time.Time, bool){j.damper.Next, j.circle.folder.Next, j.loneNext} {
		if at, ok := next(); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

func (j *jury) loneNext() (time.Time, bool) {
	if j.lone == nil {
		return time.Time{}, false
	}
	return j.lone.folder.Next()
}

// hear has the fleet's Folder hear the others' records. One that is cut off has
// no vote until it's back.
func (j *jury) hear() {
	isolated := map[string]bool{}
	for _, m := range j.view.Members {
		isolated[m.Name] = m.Meta.Isolated
	}
	for name, r := range j.view.Records {
		if name == j.self {
			continue
		}
		if isolated[name] {
			r = nil
		}
		j.circle.folder.Hear(name, r)
	}
	for name := range j.circle.folder.voters {
		if name != j.self && j.view.Records[name] == nil {
			j.circle.folder.Hear(name, nil)
		}
	}
}

// speak makes this host's record of what its probes found, and publishes it
// unless it's cut off.
func (j *jury) speak(now time.Time, d *decision) {
	for _, e := range j.damper.Due(now) {
		j.downs += downCount(e) - downCount(j.said[e.Key])
		j.said[e.Key] = e
		j.resay = true
	}
	if !j.resay {
		return
	}
	j.resay = false
	var entries []Entry
	for k := range j.own {
		if e := j.said[k]; e.Verdict != state.Up {
			entries = append(entries, Entry{k, e.Verdict, e.Failure})
		}
	}
	j.voice.say(statement{entries: entries, generation: j.generation})
	record := j.voice.observers[j.self].view()
	j.circle.folder.Hear(j.self, record)
	if j.lone != nil {
		j.lone.folder.Hear(j.self, record)
		return
	}
	d.entries, d.publish = entries, true
}

// checksOf gives the Checks of Services, each once, by key. A host alone has only
// those with a probe: nobody else is there to ask, or to be dead.
func checksOf(services []*state.Service, alone bool) []*state.Check {
	known := map[state.CheckKey]*state.Check{}
	for _, s := range services {
		for i := range s.Ports {
			for k := range s.Ports[i].Endpoints {
				if c := s.Ports[i].Endpoints[k].Check; c != nil && !(alone && c.Probe == nil) {
					known[c.Key] = c
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(known), func(a, b *state.Check) int { return cmp.Compare(a.Key, b.Key) })
}
