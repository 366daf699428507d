package gossip

import (
	"maps"
	"time"

	"pointsman/gossip/probe"
	"pointsman/state"
)

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
	return len(j.view.Members)
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
