package gossip

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"pointsman/state"
)

// observersPerCheck is how many are asked about a Check: the fewest with which
// one that is wrong is outvoted.
const observersPerCheck = 3

// Fleet is who is there, in the eyes of this host. A host alone, or one that is
// cut off, has only itself in Live and nobody in the rest.
type Fleet struct {
	Live []string // this host too
	Dead []string // expected, and not there

	// Spared are those of Dead that died with so many others that it says
	// nothing about their backends (MassDeath).
	Spared []string
}

// Duty is who is to find out about a Check.
type Duty struct {
	Observers []string // by name; none where nobody may, or nobody needs to
	Urgent    bool     // its home died: to be tried at once, whatever the period
}

// Assignment holds the Duty of each Check that has a Judgement, or may have one.
type Assignment map[state.CheckKey]Duty

// Of reports whether a host is to find out about a Check.
func (a Assignment) Of(host string, k state.CheckKey) bool {
	return slices.Contains(a[k].Observers, host)
}

// Assign says who observes which Check, the same on every host that sees the
// same fleet:
//
//   - A probed one: its home, if that lives, and others by rendezvous hashing,
//     three in all; so a host that joins or leaves moves no more than its own
//     share. Check.From narrows the choice, of the home too and on a host alone
//     too: its word would be worth nothing.
//   - One without a probe: nobody while its home lives; then it isn't in the
//     Assignment. Three peers once its home is dead. Where the home isn't known
//     it has a Duty without observers, so that what was known of it holds.
//   - Without a probe, and not to be asked (UDP, SCTP), of a home that is
//     spared: as if the home lived.
func Assign(checks []*state.Check, f Fleet) Assignment {
	m := newElectorate(f)
	out := make(Assignment, len(checks))
	chosen := make([]string, 0, len(checks)*observersPerCheck) // grows at most once
	for _, c := range checks {
		if c.Probe == nil && m.restful(c) {
			continue
		}
		d := Duty{}
		if _, dead := m.fate[c.Home]; c.Probe != nil || dead {
			at := len(chosen)
			chosen = m.choose(chosen, c)
			d = Duty{Observers: chosen[at:len(chosen):len(chosen)], Urgent: c.Probe == nil}
		}
		out[c.Key] = d
	}
	return out
}

// Generation is a hash of what all Checks together are, whatever their order.
// Two observers of one generation mean the same by being silent.
func Generation(checks []*state.Check) uint64 {
	var sum uint64
	for _, c := range checks {
		sum += mix(uint64(c.Key))
	}
	return sum
}

// candidate is a live host with what its scores are made of.
type candidate struct {
	name string
	seed uint64
}

// electorate is a Fleet, made ready for choosing.
type electorate struct {
	live   []candidate // by name
	byName map[string]int
	fate   map[string]bool // of the dead: whether spared

	// narrowed holds what a Check.From leaves of live, by the slice itself:
	// all Checks of a Service share one.
	narrowed map[fromKey][]candidate
}

type fromKey struct {
	first *string
	n     int
}

func newElectorate(f Fleet) *electorate {
	m := &electorate{byName: map[string]int{}, fate: map[string]bool{}, narrowed: map[fromKey][]candidate{}}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(f.Live))) {
		m.byName[name] = len(m.live)
		m.live = append(m.live, candidate{name, nameSeed(name)})
	}
	for _, name := range f.Dead {
		if _, lives := m.byName[name]; !lives && name != "" {
			m.fate[name] = false
		}
	}
	for _, name := range f.Spared {
		if _, dead := m.fate[name]; dead {
			m.fate[name] = true
		}
	}
	return m
}

// restful reports whether nothing is to be found out about a Check without a
// probe.
func (m *electorate) restful(c *state.Check) bool {
	if _, lives := m.byName[c.Home]; lives {
		return true
	}
	return m.fate[c.Home] && c.Protocol != state.TCP
}

// choose appends the observers of a Check, by name.
func (m *electorate) choose(to []string, c *state.Check) []string {
	candidates, at := m.candidates(c.From), len(to)
	var best top
	if _, lives := m.byName[c.Home]; lives && (c.From == nil || slices.Contains(c.From, c.Home)) {
		best.home = c.Home
	}
	for i := range candidates {
		score := mix(candidates[i].seed ^ uint64(c.Key))
		if score > best.floor {
			best.offer(&candidates[i], score)
		}
	}
	to = best.appendNames(to)
	slices.Sort(to[at:])
	return to
}

// candidates gives the live members that may probe.
func (m *electorate) candidates(from []string) []candidate {
	if from == nil {
		return m.live
	}
	if len(from) == 0 {
		return nil
	}
	key := fromKey{&from[0], len(from)}
	if known, ok := m.narrowed[key]; ok {
		return known
	}
	var left []candidate
	for _, name := range from {
		if i, lives := m.byName[name]; lives {
			left = append(left, m.live[i])
		}
	}
	m.narrowed[key] = left
	return left
}

// top keeps the home and the members with the highest scores.
type top struct {
	home   string                        // empty where it isn't asked
	best   [observersPerCheck]*candidate // highest first
	scores [observersPerCheck]uint64
	floor  uint64 // a score must be higher to be of interest
}

// offer takes a member in by its score, which is above the floor. Of equal
// scores, which only members of equal seeds have, the one offered first wins:
// the first by name.
func (t *top) offer(m *candidate, score uint64) {
	if m.name == t.home {
		return
	}
	i := len(t.best) - 1
	for i > 0 && score > t.scores[i-1] {
		t.best[i], t.scores[i] = t.best[i-1], t.scores[i-1]
		i--
	}
	t.best[i], t.scores[i] = m, score
	t.floor = t.scores[len(t.scores)-1]
}

func (t *top) appendNames(to []string) []string {
	room := observersPerCheck
	if t.home != "" {
		to = append(to, t.home)
		room--
	}
	for _, m := range t.best[:room] {
		if m != nil {
			to = append(to, m.name)
		}
	}
	return to
}

// nameSeed is what a name is worth in scores. It's the same in every release, or
// hosts of two releases would disagree about who is asked.
func nameSeed(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// mix is the finalizer of SplitMix64: each bit of the result depends on each bit
// of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
