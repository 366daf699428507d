package host

import (
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func touching(generations ...uint32) []Change {
	var out []Change
	for _, g := range generations {
		out = append(out, changed(g, map[Table]Touched{ours4: Elements}))
	}
	return out
}

// together is several transactions as one change.
func together(count int, first, last uint32) Change {
	c := touching(last)[0]
	c.First, c.Count = first, count
	return c
}

func TestJudge(t *testing.T) {
	const top = 1<<32 - 1
	tests := map[string]struct {
		own     []Own
		changes []Change
		foreign []int // indices of changes
	}{
		"nothing":                     {nil, nil, nil},
		"ours":                        {[]Own{{4, 5}, {6, 7}}, touching(5, 7), nil},
		"others' before and after":    {[]Own{{4, 5}}, touching(4, 5, 6), []int{0, 2}},
		"others' only":                {nil, touching(5), []int{0}},
		"others during, elsewhere":    {[]Own{{4, 7}}, touching(6), nil},
		"others during, of ours":      {[]Own{{4, 7}}, touching(5, 7), []int{0, 1}},
		"two such writes":             {[]Own{{4, 6}, {6, 8}}, touching(6, 7), nil},
		"around the end":              {[]Own{{top - 1, top}, {top, 1}, {1, 2}}, touching(top, 1, 2, 3), []int{3}},
		"around the end, not alone":   {[]Own{{top - 1, 2}}, touching(1), nil},
		"run together, ours":          {[]Own{{4, 5}, {7, 8}, {8, 9}}, []Change{together(3, 5, 9)}, nil},
		"run together, ours, shared":  {[]Own{{4, 6}, {7, 9}}, []Change{together(2, 5, 9)}, nil},
		"run together, one others'":   {[]Own{{4, 5}, {8, 9}}, []Change{together(3, 5, 9)}, []int{0}},
		"run together, cut":           {[]Own{{3, 6}, {8, 9}}, []Change{together(2, 5, 9)}, []int{0}},
		"gap, ours alone":             {[]Own{{4, 5}, {5, 6}, {6, 7}}, []Change{lost(5, 7)}, nil},
		"gap, one unexplained":        {[]Own{{4, 5}, {6, 7}}, []Change{lost(5, 7)}, []int{0}},
		"gap, others during":          {[]Own{{4, 5}, {5, 7}}, []Change{lost(5, 7)}, []int{0}},
		"gap, and what came of it":    {[]Own{{4, 5}, {5, 6}}, append(touching(5), lost(5, 6)), nil},
		"gap beside others' of ours":  {[]Own{{4, 5}}, append([]Change{lost(5, 5)}, touching(6)...), []int{1}},
		"gap into a shared write":     {[]Own{{4, 7}}, append([]Change{lost(3, 5)}, touching(6)...), []int{0, 1}},
		"gap longer than our writes":  {[]Own{{4, 5}}, []Change{lost(4, 6)}, []int{0}},
		"gap shorter than our writes": {[]Own{{3, 4}, {4, 5}, {5, 6}}, []Change{lost(5, 5)}, nil},
	}
	for name, tt := range tests {
		var want Verdict
		for _, i := range tt.foreign {
			want = append(want, tt.changes[i])
		}
		if got := Judge(tt.own, tt.changes); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: foreign %v", name, got)
		}
	}
}

func TestVerdict(t *testing.T) {
	elements4 := changed(5, map[Table]Touched{ours4: Elements})
	program6 := changed(6, map[Table]Touched{ours6: Program | Deleted, ours4: Elements})
	tests := []struct {
		verdict      Verdict
		want4, want6 Touched
	}{
		{nil, 0, 0},
		{Verdict{elements4}, Elements, 0},
		{Verdict{elements4, program6}, Elements, Program},
		{Verdict{elements4, lost(6, 7)}, Program, Program},
	}
	for _, tt := range tests {
		v := tt.verdict
		if v.Of(ours4) != tt.want4 || v.Of(ours6) != tt.want6 {
			t.Errorf("%v: ip %v, ip6 %v", v, v.Of(ours4), v.Of(ours6))
		}
	}
}

func TestMergeKeepsTheTruth(t *testing.T) {
	a, b := touching(5)[0], changed(9, map[Table]Touched{ours4: Program, ours6: Elements})
	want := Change{
		First: 5, Last: 9, Count: 2, Process: "nft", PID: 7,
		Tables: map[Table]Touched{ours4: Elements | Program, ours6: Elements},
	}
	if got := a.merge(b); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if !reflect.DeepEqual(a, touching(5)[0]) {
		t.Errorf("merging changed its part: %+v", a)
	}
	if got := lost(3, 4).merge(a); !reflect.DeepEqual(got, lost(3, 5)) {
		t.Errorf("%+v", got)
	}
	if got := a.merge(lost(3, 4)); !reflect.DeepEqual(got, lost(3, 5)) {
		t.Errorf("%+v", got)
	}
	if got := a.merge(lost(7, 8)); !reflect.DeepEqual(got, lost(5, 8)) {
		t.Errorf("%+v", got)
	}
}

func TestLedgerWaitsForTheWholeWrite(t *testing.T) {
	var l Ledger
	l.Known(4)
	l.Wrote(4, 7)
	if v := l.Judge(touching(5), 5); v != nil {
		t.Errorf("judged early: %v", v)
	}
	if v := l.Judge(nil, 6); v != nil {
		t.Errorf("judged early: %v", v)
	}
	if v := l.Judge(touching(7), 7); len(v) != 2 {
		t.Errorf("two in one write: %v", v)
	}
	if v := l.Judge(touching(8), 8); len(v) != 1 || len(l.own) != 0 || len(l.held) != 0 {
		t.Errorf("after it: %v, ledger %+v", v, l)
	}
}

func TestLedgerForgetsWhatIsKnown(t *testing.T) {
	var l Ledger
	l.Wrote(8, 8) // changed nothing
	l.Known(6)
	v := l.Judge(append(touching(5, 6), lost(3, 5), lost(5, 8)), 8)
	if want := (Verdict{lost(7, 8)}); !reflect.DeepEqual(v, want) {
		t.Errorf("%v", v)
	}
}

// world is a kernel with writers and a reader that lags behind.
type world struct {
	generation uint32
	queue      [][]byte
	dropping   bool // the reader's buffer has overflown
	overflow   bool // and it hasn't been told
	lossy      bool // that ever happened, or changes were run together

	tracker *tracker
	pending []Change
	ledger  Ledger

	foreign  []uint32 // generations that touched our table behind our back
	reported Verdict
}

// commit is one transaction.
func (w *world) commit(table string) {
	w.generation = nextGeneration(w.generation)
	for _, d := range [][]byte{
		object(unix.NFT_MSG_NEWSETELEM, IPv4, table), gen(w.generation, 7, "nft"),
	} {
		if !w.dropping {
			w.queue = append(w.queue, d)
		}
	}
}

func (w *world) somebodyElse(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "table") > 0 {
		w.commit("other")
		return
	}
	w.commit("pointsman")
	w.foreign = append(w.foreign, w.generation)
}

func (w *world) we(t *rapid.T) {
	before := w.generation
	for range max(0, rapid.IntRange(-3, 2).Draw(t, "others before")) {
		w.somebodyElse(t)
	}
	w.commit("pointsman")
	for range max(0, rapid.IntRange(-3, 2).Draw(t, "others after")) {
		w.somebodyElse(t)
	}
	w.ledger.Wrote(before, w.generation)
}

func (w *world) read(t *rapid.T) {
	if w.overflow {
		w.overflow = false
		w.tracker.lose()
	}
	switch {
	case len(w.queue) > 0:
		w.record(t, w.tracker.feed(w.queue[0]))
		w.queue = w.queue[1:]
	case w.tracker.gap:
		w.dropping = false
		w.record(t, w.tracker.recover(w.generation))
	}
}

func (w *world) record(t *rapid.T, changes []Change) {
	for _, c := range changes {
		if n := len(w.pending); n > 0 && rapid.IntRange(0, 9).Draw(t, "full") == 0 {
			w.pending[n-1] = w.pending[n-1].merge(c)
			w.lossy = true
		} else {
			w.pending = append(w.pending, c)
		}
	}
}

func (w *world) judge() {
	w.reported = append(w.reported, w.ledger.Judge(w.pending, w.tracker.told())...)
	w.pending = nil
}

func (w *world) readBack() {
	w.ledger.Known(w.generation)
	w.foreign = nil
}

// Whatever is lost, late or run together: what others did to our tables is
// found, and as long as nothing is lost or run together, nothing else is.
func TestNobodyTouchesOurTablesUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]uint32{1, 1<<32 - 9}).Draw(t, "first generation")
		w := &world{generation: first, tracker: newTracker(first, []Table{ours4})}
		w.readBack()
		t.Repeat(map[string]func(*rapid.T){
			"we write":            w.we,
			"somebody else write": w.somebodyElse,
			"read":                w.read,
			"read again":          w.read,
			"judge":               func(*rapid.T) { w.judge() },
			"read back":           func(*rapid.T) { w.readBack() },
			"overflow": func(*rapid.T) {
				if !w.dropping {
					w.dropping, w.overflow, w.lossy = true, true, true
				}
			},
		})
		w.finish(t)
	})
}

func (w *world) finish(t *rapid.T) {
	for w.overflow || w.tracker.gap || len(w.queue) > 0 {
		w.read(t)
	}
	w.judge()
	for _, g := range w.foreign {
		if !slices.ContainsFunc(w.reported, func(c Change) bool { return !later(c.First, g) && !later(g, c.Last) }) {
			t.Fatalf("generation %d was somebody else's, and is not among %v", g, w.reported)
		}
	}
	if len(w.foreign) == 0 && !w.lossy {
		for _, c := range w.reported {
			if later(c.Last, w.ledger.known) {
				t.Fatalf("nobody did %v", c)
			}
		}
	}
	if len(w.ledger.held) > 0 || len(w.ledger.own) > 0 {
		t.Fatalf("everything has been seen, and still the ledger holds %+v", w.ledger)
	}
}
