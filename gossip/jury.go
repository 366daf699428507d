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
// nil if this host isn't asked any more.
func (j *jury) found(r probe.Result, now time.Time) *state.Check {
	c := j.own[r.Key]
	if c != nil {
		j.damper.Observe(Entry{r.Key, r.Verdict, r.Failure}, now)
	}
	return c
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

// secede begins or ends the isolation of this host. One that is cut off judges
// by itself alone, from what the fleet last thought on.
func (j *jury) secede() {
	j.why = j.isolation()
	isolated := j.why != ""
	if isolated == (j.lone != nil) {
		return
	}
	j.lone = nil
	if isolated {
		restored := maps.Collect(j.circle.verdicts.All())
		j.lone = &circle{NewFolder(j.self, restored), j.circle.verdicts}
	}
	j.anew, j.resay = true, true
}

// isolation tells why this host is cut off, "" if it isn't.
func (j *jury) isolation() string {
	switch {
	case j.alone:
		return ""
	case Isolated(j.known(), max(1, j.view.Alive())):
		return "it sees fewer than half of the members"
	case Blind(j.sightings()):
		return "its probes fail where those of others don't"
	}
	return ""
}

// known counts the members that there should be, this host too.
func (j *jury) known() int {
	if n := len(j.intent.Peers); n > 0 {
		return n
	}
	n := 0
	for _, m := range j.view.Members {
		if m.State != Left {
			n++
		}
	}
	return n
}

// sightings are what this host and others say about the targets elsewhere that
// the fleet asks it about. There are none while few of them fail.
func (j *jury) sightings() []Sighting {
	if j.downs <= blindTargets/2 {
		return nil
	}
	var all []Sighting
	for _, c := range j.intent.Checks {
		judgement := j.circle.verdicts.Get(c.Key)
		if c.Home == j.self || judgement == nil || !j.duties.Of(j.self, c.Key) {
			continue
		}
		all = append(all, Sighting{c.Target.Addr(), j.said[c.Key].Verdict, Elsewhere(j.self, judgement.Votes)})
	}
	return all
}

// assign shares the Checks out anew.
func (j *jury) assign(now time.Time) {
	j.anew = false
	j.fleet = j.fleetNow()
	checks := j.intent.Checks
	j.duties = Assign(checks, j.fleet)
	j.load = j.duties.load()
	j.circle.folder.Assign(j.duties, j.generation, now)
	mine := j.duties
	if j.lone != nil {
		mine = Assign(checks, Fleet{Live: []string{j.self}})
		j.lone.folder.Assign(mine, j.generation, now)
	}
	j.take(checks, mine)
}

// take makes the Checks that this host is asked about its own.
func (j *jury) take(checks []*state.Check, duties Assignment) {
	own, said := map[state.CheckKey]*state.Check{}, map[state.CheckKey]Entry{}
	j.downs = 0
	for _, c := range checks {
		if !duties.Of(j.self, c.Key) {
			continue
		}
		own[c.Key] = c
		if e, ok := j.said[c.Key]; ok {
			said[c.Key] = e
			j.downs += downCount(e)
		}
	}
	for k := range j.own {
		if own[k] == nil {
			j.damper.Forget(k)
		}
	}
	j.own, j.said, j.resay = own, said, true
}

func downCount(e Entry) int {
	if e.Verdict == state.Down {
		return 1
	}
	return 0
}

// fleetNow is who is there. Peers that this host never saw may have no agent:
// their death is taken as no news about what can't be asked.
func (j *jury) fleetNow() Fleet {
	f := Fleet{Live: []string{j.self}}
	seen, died := map[string]bool{j.self: true}, map[string]time.Time{}
	for _, m := range j.view.Members {
		switch {
		case m.Name == j.self:
			continue
		case m.State.up():
			f.Live = append(f.Live, m.Name)
		default:
			f.Dead = append(f.Dead, m.Name)
			died[m.Name] = m.Since
		}
		seen[m.Name] = true
	}
	f.Spared = MassDeath(j.known(), died)
	for _, name := range j.view.Absent {
		if !seen[name] {
			f.Dead, f.Spared = append(f.Dead, name), append(f.Spared, name)
		}
	}
	return f
}

// probes are what this host is to probe.
func (j *jury) probes() []probe.Assignment {
	all := make([]probe.Assignment, 0, len(j.own))
	for _, c := range j.own {
		all = append(all, probe.Assignment{Check: c, Urgent: c.Probe == nil})
	}
	return all
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

// load counts the Checks that each member is asked about.
func (a Assignment) load() map[string]int {
	n := map[string]int{}
	for _, d := range a {
		for _, name := range d.Observers {
			n[name]++
		}
	}
	return n
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
