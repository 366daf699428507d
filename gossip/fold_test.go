package gossip

import (
	"slices"
	"testing"
	"time"

	"pointsman/state"
)

const (
	web = state.CheckKey(1)
	db  = state.CheckKey(2)
	// The generation of the manifests' checks here.
	ours = 77
)

// said makes a record that lists some checks.
func said(observer string, generation uint64, entries ...Entry) *Record {
	all := newBucket(observer, versionOf(1, 1), region{}, entries)
	return &Record{Observer: observer, Incarnation: 1, Generation: generation, Complete: true, buckets: buckets{all}, lengths: buckets{all}.lengths()}
}

func incomplete(r *Record) *Record {
	c := *r
	c.Complete = false
	return &c
}

func isDown(k state.CheckKey) Entry {
	return Entry{Key: k, Verdict: state.Down, Failure: state.Refused}
}
func unsure(k state.CheckKey) Entry { return Entry{Key: k} }

func asked(names ...string) Assignment { return Assignment{web: {Observers: names}} }

// bench is a Folder, the verdicts that come of it, and a clock.
type bench struct {
	*Folder
	now      time.Time
	verdicts state.Verdicts
}

func newBench(restored map[state.CheckKey]*state.Judgement) *bench {
	return &bench{Folder: NewFolder("self", restored), now: noon}
}

func (b *bench) assign(a Assignment) { b.Assign(a, ours, b.now) }

// expect folds, and compares a check's Judgement.
func (b *bench) expect(t *testing.T, k state.CheckKey, want string) {
	t.Helper()
	b.verdicts = b.verdicts.With(b.Fold(b.now))
	if got := describe(b.verdicts.Get(k)); got != want {
		t.Errorf("after %v: got %s, want %s", b.now.Sub(noon), got, want)
	}
}

// settled gives a bench where three observers call web up.
func settled(t *testing.T) *bench {
	b := newBench(nil)
	b.assign(asked("a", "b", "c"))
	for _, name := range []string{"a", "b", "c", "d"} {
		b.Hear(name, said(name, ours))
	}
	b.now = b.now.Add(silenceGrace)
	b.expect(t, web, "up")
	return b
}

func TestFoldFollowsTheVotes(t *testing.T) {
	b := settled(t)
	b.Hear("a", said("a", ours, isDown(web)))
	b.expect(t, web, "up")
	b.Hear("b", said("b", ours, isDown(web)))
	b.expect(t, web, "down")
	b.Hear("d", said("d", ours, isDown(web))) // isn't asked
	b.Hear("a", said("a", ours))
	b.expect(t, web, "up")
}

func TestFoldGivesTheEvidence(t *testing.T) {
	b := settled(t)
	b.Hear("b", said("b", ours, isDown(web)))
	b.Hear("c", said("c", ours, unsure(web)))
	b.now = b.now.Add(time.Second)
	b.expect(t, web, "up")
	got := b.verdicts.Get(web).Votes
	want := []state.Vote{
		{Observer: "a", Verdict: state.Up, Since: noon.Add(silenceGrace)},
		{Observer: "b", Verdict: state.Down, Failure: state.Refused, Since: b.now},
		{Observer: "c", Verdict: state.Unknown, Since: b.now},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Silence means Up only from one who has the same manifests.
func TestFoldNeedsTheSameGeneration(t *testing.T) {
	b := settled(t)
	for _, name := range []string{"a", "b", "c"} {
		b.Hear(name, said(name, 78))
	}
	b.expect(t, web, "up held")
	b.Hear("a", said("a", 78, isDown(web)))
	b.Hear("b", said("b", 79, isDown(web)))
	b.expect(t, web, "down") // what is said counts all the same
	b.Hear("c", said("c", ours))
	b.expect(t, web, "down") // and is outweighed as always
	b.Hear("b", said("b", ours))
	b.expect(t, web, "up")
	b.Assign(asked("a", "b", "c"), 78, b.now) // our manifests change
	b.expect(t, web, "up held")
}

// While a record's parts are on their way its silence means what it did before.
func TestFoldOfIncompleteRecords(t *testing.T) {
	b := settled(t)
	for _, name := range []string{"a", "b", "c"} {
		b.Hear(name, incomplete(said(name, ours)))
	}
	b.expect(t, web, "up")

	b.Assign(asked("a", "b", "c"), 78, b.now)
	b.Hear("a", incomplete(said("a", 78)))
	b.expect(t, web, "up held")
	b.Hear("a", said("a", 78))
	b.expect(t, web, "up")

	restarted := incomplete(said("a", 78))
	restarted.Incarnation = 2
	b.Hear("a", restarted)
	b.expect(t, web, "up held")

	b.Hear("a", said("a", 78))
	b.expect(t, web, "up")
	b.Hear("a", nil)
	b.Hear("a", incomplete(said("a", 78)))
	b.expect(t, web, "up held")
}

// Where nothing is known of a record's part, silence there is no word.
func TestFoldOfPartsOfRecords(t *testing.T) {
	b := settled(t)
	b.assign(asked("a"))
	b.expect(t, web, "up")
	_, elsewhere := region{}.halves() // the keys here are in the lower half
	r := said("a", ours)
	r.buckets = buckets{newBucket("a", versionOf(1, 2), elsewhere, nil)}
	r.lengths = r.buckets.lengths()
	b.Hear("a", r)
	b.expect(t, web, "up held")
	b.Hear("a", said("a", ours))
	b.expect(t, web, "up")
}

func TestFoldWithoutRecords(t *testing.T) {
	b := newBench(nil)
	b.assign(asked("a", "b", "c"))
	b.expect(t, web, "untried")
	b.Hear("a", said("a", ours, isDown(web)))
	b.expect(t, web, "untried")
	b.Hear("b", said("b", ours, isDown(web)))
	b.expect(t, web, "down")
	b.Hear("a", nil)
	b.expect(t, web, "down held")
	b.now = b.now.Add(holdFor)
	b.expect(t, web, "unknown")
}

// A new observer may not know yet that it's asked.
func TestFoldOfNewObservers(t *testing.T) {
	b := settled(t)
	b.Hear("a", said("a", ours, isDown(web)))
	b.Hear("b", said("b", ours, isDown(web)))
	b.expect(t, web, "down")
	b.assign(asked("a", "d", "e"))
	b.expect(t, web, "down held") // d is silent, e unknown
	b.now = b.now.Add(silenceGrace - 1)
	b.expect(t, web, "down held")
	b.now = b.now.Add(1)
	b.expect(t, web, "up")
}

func TestFoldOfANewObserverThatKnows(t *testing.T) {
	b := settled(t)
	b.assign(asked("d"))
	b.expect(t, web, "up held")
	b.Hear("d", said("d", ours, unsure(web)))
	b.expect(t, web, "up held")
	b.Hear("d", said("d", ours)) // it was listed, and isn't any more
	b.expect(t, web, "up")
}

// An observer that is new stays so when others change.
func TestFoldOfObserversThatChangeTwice(t *testing.T) {
	b := settled(t)
	b.assign(asked("d", "e"))
	b.now = b.now.Add(time.Second)
	b.assign(asked("d"))
	b.expect(t, web, "up held")
	if n := len(b.voters); n != 4 { // a, b, c and d have records
		t.Errorf("%d observers are remembered", n)
	}
	b.now = b.now.Add(silenceGrace - time.Second)
	b.expect(t, web, "up")
}

func TestFoldTakesItselfAtItsWord(t *testing.T) {
	b := settled(t)
	b.Hear("self", said("self", ours))
	b.assign(asked("self"))
	b.expect(t, web, "up")
	b.Hear("self", said("self", ours, isDown(web)))
	b.expect(t, web, "down")
}

// Once the fleet is known, the same generation proves that a new check is known.
func TestFoldOfNewChecks(t *testing.T) {
	b := settled(t)
	a := asked("a", "b", "c")
	a[db] = Duty{Observers: []string{"a", "b", "c"}}
	b.Assign(a, 78, b.now)
	b.expect(t, db, "untried")
	b.Hear("a", said("a", 78))
	b.expect(t, db, "up")

	delete(a, web)
	b.Assign(a, 79, b.now)
	b.expect(t, web, "none")
	b.expect(t, db, "up held")
}

// The peers of a dead home's endpoints learn of their task at other times.
func TestFoldOfUrgentChecks(t *testing.T) {
	b := settled(t)
	a := asked("a", "b", "c")
	a[db] = Duty{Observers: []string{"a", "b", "c"}, Urgent: true}
	b.assign(a)
	b.expect(t, db, "untried")
	b.Hear("a", said("a", ours, isDown(db)))
	b.Hear("b", said("b", ours, isDown(db)))
	b.expect(t, db, "down")
	delete(a, db) // the home is back
	b.assign(a)
	b.expect(t, db, "none")
}

func TestFoldAfterARestart(t *testing.T) {
	file := func(v state.Verdict) map[state.CheckKey]*state.Judgement {
		var verdicts state.Verdicts
		verdicts = verdicts.With(map[state.CheckKey]*state.Judgement{web: {Verdict: v, Since: noon.Add(-time.Hour)}, db: {Verdict: v}})
		read, err := DecodeVerdicts(EncodeVerdicts(&verdicts), noon)
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	b := newBench(file(state.Down))
	b.assign(asked("a", "b", "c"))
	b.expect(t, web, "down held unconfirmed")
	b.expect(t, db, "none") // isn't in the manifests any more
	b.Hear("a", said("a", ours))
	b.expect(t, web, "down held unconfirmed") // it may see less than the fleet
	b.Hear("a", said("a", ours, isDown(web)))
	b.Hear("b", said("b", ours, isDown(web)))
	b.expect(t, web, "down")
	if since := b.verdicts.Get(web).Since; !since.Equal(noon.Add(-time.Hour)) {
		t.Errorf("since %v", since)
	}

	b = newBench(file(state.Up))
	b.assign(asked("a", "b", "c"))
	b.expect(t, web, "up held unconfirmed")
	b.now = b.now.Add(holdFor)
	b.expect(t, web, "unknown")

	// What it restores counts before anybody is known to ask; what nobody needs
	// any more is gone at once.
	b = newBench(file(state.Down))
	b.assign(asked())
	if changes := b.Fold(b.now); describe(changes[web]) != "down held unconfirmed" {
		t.Errorf("restored %v", changes)
	} else if j, gone := changes[db]; !gone || j != nil {
		t.Errorf("%v, and it's not in the manifests", j)
	}
}

// Fold is due exactly when something changes by itself.
func TestFoldSaysWhenItIsDue(t *testing.T) {
	b := settled(t)
	b.Fold(b.now)
	if at, ok := b.Next(); ok {
		t.Errorf("due at %v, with nothing to do", at)
	}
	for _, name := range []string{"a", "b", "c"} {
		b.Hear(name, nil)
	}
	b.expect(t, web, "up held")
	at, ok := b.Next()
	if !ok || !at.Equal(b.now.Add(holdFor)) {
		t.Fatalf("due at %v, %v", at, ok)
	}
	b.now = at.Add(-time.Second)
	b.assign(asked("e")) // whose silence counts later
	b.Fold(b.now)
	if next, _ := b.Next(); !next.Equal(at) {
		t.Errorf("due at %v, not at %v", next, at)
	}
	if changes := b.Fold(at.Add(-1)); len(changes) != 0 {
		t.Errorf("too early, and yet %v", changes)
	}
	b.now = at
	b.expect(t, web, "unknown")
	b.now = b.now.Add(silenceGrace)
	b.Fold(b.now)
	if at, ok := b.Next(); ok {
		t.Errorf("still due at %v", at)
	}
}
