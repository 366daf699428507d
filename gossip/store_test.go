package gossip

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

var today = time.Unix(1_800_000_000, 0)

// settle lets two stores exchange what they hold, a begins.
func settle(t rapid.TB, a, b *store) {
	t.Helper()
	to := map[string]*store{a.self: a, b.self: b}
	type sent struct {
		to      *store
		message []byte
	}
	queue := []sent{{b, a.sumsMessage()}}
	for n := 0; len(queue) > 0; n++ {
		if n > 10000 {
			t.Fatal("the exchange doesn't end")
		}
		m := queue[0]
		queue = queue[1:]
		if k, _, _ := open(m.message); k == kindItems {
			m.to.applyItems(m.message, today)
			continue
		}
		r := m.to.answer(m.message)
		for _, message := range r.messages {
			queue = append(queue, sent{to[r.to], message})
		}
	}
}

// fleet is some stores, and what is on its way to them.
type fleet struct {
	stores []*store
	onWay  [][]byte
}

func newFleet(n int) *fleet {
	f := &fleet{}
	for i := range n {
		f.stores = append(f.stores, newStore(fmt.Sprint("n", i), 1))
	}
	return f
}

func (f *fleet) send(messages []queued) {
	for _, m := range messages {
		f.onWay = append(f.onWay, m.message)
	}
}

// step does one thing of those that happen to a fleet.
func (f *fleet) step(t *rapid.T) {
	s := f.stores[rapid.IntRange(0, len(f.stores)-1).Draw(t, "host")]
	switch action := rapid.SampledFrom([]string{"say", "hear", "hear", "hear", "drain", "undrain", "assert", "restart", "lose state"}).Draw(t, "action"); action {
	case "say":
		f.send(s.say(statement{someEntries(t, 200), rapid.Uint64Range(1, 3).Draw(t, "generation"), nil}))
	case "hear":
		if len(f.onWay) > 0 { // any one, and it may come again
			s.apply(f.onWay[rapid.IntRange(0, len(f.onWay)-1).Draw(t, "message")], today)
		}
	case "drain", "undrain":
		target := state.DrainTarget{Node: rapid.SampledFrom([]string{"n0", "n1"}).Draw(t, "target")}
		d := s.drains.write(drain{target: target, drained: true, since: today.Unix(), until: today.Unix() + 3600}, s.self, today)
		if action == "undrain" {
			d = s.drains.undrain(target, s.self, today)
		}
		if d != nil && s.drains.merge(d, today) {
			f.onWay = append(f.onWay, d.message)
		}
	case "assert":
		f.assert(s)
	case "restart", "lose state":
		fresh := newStore(s.self, s.own.incarnation+1)
		if action == "lose state" {
			fresh = newStore(s.self, 1)
		}
		*s = *fresh
	}
}

// assert makes a host be heard again, as tend does.
func (f *fleet) assert(s *store) {
	if s.own.wanted > s.own.incarnation {
		s.own.restart(s.own.wanted)
		if s.own.published {
			f.send(s.say(statement{generation: 9}))
		}
	}
}

// A number that's wanted since another was written is not on disk.
func TestOnlyIncarnationsOnDiskAreTaken(t *testing.T) {
	w := &writer{incarnation: 1, published: true}
	w.heard(versionOf(4, 1), true)
	saved := w.wanted
	w.heard(versionOf(8, 1), true)
	if w.restart(saved); w.incarnation != 5 || w.wanted != 9 || !w.published {
		t.Errorf("%+v", w)
	}
}

// Whatever is lost, doubled or comes late, and whoever restarts or forgets
// everything: once hosts have exchanged what they hold, all hold the same, and
// of each that spoke what it says.
func TestStoresAgreeInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(3)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			f.step(t)
		}
		f.settleAll(t)
		for _, s := range f.stores {
			f.compare(t, s)
		}
	})
}

func (f *fleet) settleAll(t *rapid.T) {
	for range 4 { // an assertion is news again
		for _, a := range f.stores {
			for _, b := range f.stores {
				if a != b {
					settle(t, a, b)
					f.assert(a)
					f.assert(b)
				}
			}
		}
	}
}

func (f *fleet) compare(t *rapid.T, s *store) {
	first := f.stores[0]
	if string(s.payload()) != string(first.payload()) {
		t.Fatalf("%s and %s differ: %v, %v", s.self, first.self, s.describe(), first.describe())
	}
	if !maps.EqualFunc(s.drains, first.drains, func(a, b *drain) bool { return a.sum == b.sum }) {
		t.Fatal("the drains differ")
	}
	if !s.own.published {
		return
	}
	for _, other := range f.stores {
		o := other.observers[s.self]
		if o == nil || o.buckets.sum() != s.own.buckets.sum() || o.header.sum != s.own.header.sum {
			t.Fatalf("%s doesn't hold what %s says: %v", other.self, s.self, other.describe())
		}
		if r := o.view(); !r.Complete || r.Generation != s.own.header.generation {
			t.Fatalf("the record of %s isn't complete at %s", s.self, other.self)
		}
	}
}

func (s *store) describe() []string {
	var all []string
	for name, o := range s.observers {
		line := name + ":"
		if o.header != nil {
			line += fmt.Sprintf(" header %x", uint64(o.header.version))
		}
		for _, b := range o.buckets {
			line += fmt.Sprintf(" %x/%d v%x", b.region.start, b.region.bits, uint64(b.version))
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

// A record says of each key what its observer says, whatever of it changed.
func TestRecordSaysWhatWasSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newStore("a", 1), newStore("b", 1)
		var before *Record
		for range rapid.IntRange(1, 4).Draw(t, "statements") {
			st := statement{someEntries(t, 150), 5, nil}
			for _, m := range a.say(st) {
				b.apply(m.message, today)
			}
			r := b.observers["a"].view()
			if got := slices.Collect(r.Entries()); !slices.Equal(got, st.entries) || !r.Complete {
				t.Fatalf("%d entries, want %d; complete %v", len(got), len(st.entries), r.Complete)
			}
			checkChanged(t, r, before)
			before = r
		}
	})
}

func checkChanged(t *rapid.T, r, before *Record) {
	keys, all := r.Changed(before)
	if before == nil {
		if !all {
			t.Fatal("the first record changes all")
		}
		return
	}
	var want []state.CheckKey
	for _, e := range slices.Concat(slices.Collect(r.Entries()), slices.Collect(before.Entries())) {
		was, _ := before.Says(e.Key)
		if is, _ := r.Says(e.Key); is != was {
			want = append(want, e.Key)
		}
	}
	slices.Sort(want)
	if want = slices.Compact(want); all || !slices.Equal(keys, want) {
		t.Fatalf("changed: %v (all: %v), want %v", keys, all, want)
	}
}

// Only what changed is sent again.
func TestSaySendsWhatChanged(t *testing.T) {
	s := newStore("a", 1)
	var entries []Entry
	for i := range 1000 {
		entries = append(entries, Entry{Key: scattered(i), Verdict: state.Down})
	}
	if n := len(s.say(statement{entries, 1, nil})); n < 9 || n > 33 {
		t.Errorf("1000 entries are %d messages", n)
	}
	entries[500].Verdict = state.Unknown
	if n := len(s.say(statement{entries, 1, nil})); n != 1 {
		t.Errorf("one changed entry is %d messages", n)
	}
	if n := len(s.say(statement{entries, 2, nil})); n != 1 {
		t.Errorf("another generation is %d messages, want the header", n)
	}
	if n := len(s.say(statement{entries, 2, nil})); n != 0 {
		t.Errorf("nothing new is %d messages", n)
	}
	if n := len(s.say(statement{nil, 2, nil})); n != 1 {
		t.Errorf("the empty record is %d messages", n)
	}
}

// Beyond the bound a host says nothing, rather than that all else is up.
func TestRecordBeyondTheBound(t *testing.T) {
	a, b := newStore("a", 1), newStore("b", 1)
	var entries []Entry
	for i := range maxEntries + 1000 {
		entries = append(entries, Entry{Key: scattered(i), Verdict: state.Down})
	}
	for _, m := range a.say(statement{entries, 1, nil}) {
		b.apply(m.message, today)
	}
	r := b.observers["a"].view()
	down, silent := 0, 0
	for _, e := range entries {
		switch got, ok := r.Says(e.Key); {
		case !ok:
			silent++
		case got.Verdict == state.Down:
			down++
		}
	}
	if down+silent != len(entries) || down > maxEntries || silent < 1000 {
		t.Errorf("%d down and %d unsaid, of %d", down, silent, len(entries))
	}
	if b.size > maxRecordSize {
		t.Errorf("the record takes %d bytes", b.size)
	}
}

func TestStoreBounds(t *testing.T) {
	say := func(s *store, name string, v version) bool {
		return s.apply(newBucket(name, v, region{}, nil).message, today).news
	}
	t.Run("a leap of the incarnation is refused", func(t *testing.T) {
		s := newStore("a", 1)
		if !say(s, "b", versionOf(5, 1)) || say(s, "b", versionOf(6+maxLeap, 1)) || !say(s, "b", versionOf(5+maxLeap, 1)) {
			t.Error("not as it should be")
		}
	})
	t.Run("so is one of its own", func(t *testing.T) {
		s := newStore("a", 1)
		s.say(statement{})
		say(s, "a", versionOf(2+maxLeap, 1))
		if s.own.wanted != 0 {
			t.Error("it wants incarnation", s.own.wanted)
		}
		say(s, "a", versionOf(7, 1))
		if s.own.wanted != 8 {
			t.Error("it wants incarnation", s.own.wanted, "and not 8")
		}
	})
	t.Run("only peers are observers", func(t *testing.T) {
		s := newStore("a", 1)
		say(s, "c", 1)
		s.setPeers(map[string]bool{"b": true})
		if s.observers["c"] != nil || say(s, "c", 2) || !say(s, "b", 1) || !say(s, "a", 1) {
			t.Error("not as it should be")
		}
		if s.size != s.observers["a"].size+s.observers["b"].size {
			t.Error("the size is", s.size)
		}
	})
	t.Run("a member takes the place of one that isn't", func(t *testing.T) {
		s := newStore("a", 1)
		s.member = func(name string) bool { return name == "member" }
		for i := range maxObservers {
			say(s, fmt.Sprint("x", i), 1)
		}
		if say(s, "y", 1) || !say(s, "member", 1) || len(s.observers) != maxObservers {
			t.Error(len(s.observers), "observers")
		}
	})
	t.Run("the number of buckets", func(t *testing.T) {
		s := newStore("a", 1)
		say(s, "b", 1)
		var full buckets
		for i := range uint64(maxBuckets - 1) {
			full = append(full, newBucket("b", version(i+2), region{i << 40, 24}, nil))
		}
		s.replace(s.observers["b"], nil, full)
		for i := range uint64(11) {
			s.apply(newBucket("b", 2, region{1<<63 + i<<40, 24}, nil).message, today)
		}
		if n := len(s.observers["b"].buckets); n != maxBuckets || s.refused != 10 {
			t.Error(n, "buckets, refused", s.refused)
		}
	})
	t.Run("the rate of what is passed on", func(t *testing.T) {
		s := newStore("a", 1)
		relayed := 0
		for i := range 1000 {
			h := s.apply(newBucket("b", version(i+1), region{}, nil).message, today.Add(time.Duration(i)*time.Millisecond))
			if !h.news {
				t.Fatal("no news")
			}
			if h.relay {
				relayed++
			}
		}
		if relayed < relayBurst || relayed > relayBurst+relayRate+1 {
			t.Error(relayed, "are passed on")
		}
	})
}
