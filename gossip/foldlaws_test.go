package gossip

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

// history is what happens to Folders that are told the same, one of which folds
// all each time.
type history struct {
	t       *rapid.T
	now     time.Time
	folders []*Folder
	all     int // the one that folds all
	views   []state.Verdicts
	checks  []*state.Check
	fleet   Fleet
	records map[string]*Record
}

func newHistory(t *rapid.T) *history {
	h := &history{t: t, now: noon, records: map[string]*Record{}, checks: drawChecks(t, hosts(5)), fleet: Fleet{Live: hosts(5)}}
	restored := map[state.CheckKey]*state.Judgement{}
	for _, c := range h.checks {
		if rapid.Bool().Draw(t, "restored") {
			restored[c.Key] = &state.Judgement{Verdict: state.Down, Held: true, Until: noon.Add(holdFor), Unconfirmed: true}
		}
	}
	for range 3 {
		h.folders = append(h.folders, NewFolder(hosts(1)[0], restored))
	}
	h.all, h.views = 2, make([]state.Verdicts, 3)
	return h
}

func (h *history) drawRecord(name string) *Record {
	t := h.t
	if rapid.IntRange(0, 5).Draw(t, "none") == 0 {
		return nil
	}
	entries := map[state.CheckKey]Entry{}
	for _, c := range h.checks {
		if v := rapid.SampledFrom([]state.Verdict{state.Up, state.Up, state.Down, state.Unknown}).Draw(t, "says"); v != state.Up {
			entries[c.Key] = Entry{Key: c.Key, Verdict: v}
		}
	}
	sorted := slices.SortedFunc(maps.Values(entries), func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	r := said(name, rapid.Uint64Range(1, 2).Draw(t, "generation"), sorted...)
	r.Incarnation = rapid.Uint32Range(1, 2).Draw(t, "incarnation")
	r.Complete = rapid.IntRange(0, 3).Draw(t, "complete") > 0
	return r
}

// hear has some records change, each Folder hearing of them in another order.
func (h *history) hear() {
	news := map[string]*Record{}
	for _, name := range hosts(5) {
		if rapid.Bool().Draw(h.t, "news") {
			news[name] = h.drawRecord(name)
		}
	}
	maps.Copy(h.records, news)
	for _, f := range h.folders {
		for _, name := range rapid.Permutation(hosts(5)).Draw(h.t, "order") {
			if r, is := news[name]; is {
				f.Hear(name, r)
			}
		}
	}
}

func (h *history) assign() {
	lives := rapid.SliceOfNDistinct(rapid.SampledFrom(hosts(5)), 1, 5, rapid.ID[string]).Draw(h.t, "live")
	h.fleet = Fleet{Live: lives}
	for _, name := range hosts(5) {
		if rapid.Bool().Draw(h.t, "dead") {
			h.fleet.Dead = append(h.fleet.Dead, name)
		}
	}
	checks := h.checks[:rapid.IntRange(0, len(h.checks)).Draw(h.t, "checks")]
	generation := rapid.Uint64Range(1, 2).Draw(h.t, "our generation")
	for _, f := range h.folders {
		f.Assign(Assign(checks, h.fleet), generation, h.now)
	}
}

func (h *history) step() {
	switch rapid.IntRange(0, 3).Draw(h.t, "what") {
	case 0:
		h.assign()
	case 1:
		h.now = h.now.Add(rapid.SampledFrom([]time.Duration{1, time.Second, silenceGrace, holdFor}).Draw(h.t, "passes"))
	default:
		h.hear()
	}
}

func (h *history) fold() {
	h.folders[h.all].touchAll()
	for i, f := range h.folders {
		h.views[i] = h.views[i].With(f.Fold(h.now))
	}
}

// Looking only at what changed, and hearing it in another order, comes to the
// same as judging everything each time.
func TestFolderIsFoldingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.assign()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			h.step()
			h.fold()
			want := maps.Collect(h.views[h.all].All())
			for i := range h.views {
				if got := maps.Collect(h.views[i].All()); !maps.EqualFunc(got, want, sameJudgement) {
					t.Fatalf("folder %d: %v, want %v", i, got, want)
				}
			}
			h.checkVerdicts()
		}
	})
}

// checkVerdicts: whatever happened, nothing is down on too few words.
func (h *history) checkVerdicts() {
	for k, c := range h.folders[0].checks {
		j := h.views[0].Get(k)
		if j == nil || j.Verdict != state.Down || j.Held {
			continue
		}
		words := 0
		for _, name := range c.observers {
			if r := h.records[name]; r != nil {
				if e, ok := r.Says(k); ok && e.Verdict == state.Down {
					words++
				}
			}
		}
		if words == 0 || words < min(2, len(c.observers)) {
			h.t.Fatalf("%x is down on %d words of %v", uint64(k), words, c.observers)
		}
	}
}

// Next is never late: without news, nothing changes before it.
func TestFolderIsNeverLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.assign()
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			h.step()
			h.fold()
			at, due := h.folders[0].Next()
			if due && !at.After(h.now) {
				t.Fatalf("due at %v, and it's %v already", at, h.now)
			}
			if !due {
				at = h.now.Add(24 * time.Hour)
			}
			// Only the Folder that folds all would notice.
			h.folders[h.all].touchAll()
			if changes := h.folders[h.all].Fold(at.Add(-1)); len(changes) > 0 {
				t.Fatalf("%d changes before %v", len(changes), at)
			}
			h.now = at.Add(-1)
		}
	})
}

func drawVerdicts(t *rapid.T) state.Verdicts {
	judgements := map[state.CheckKey]*state.Judgement{}
	for _, k := range rapid.SliceOfDistinct(rapid.Uint64(), rapid.ID[uint64]).Draw(t, "keys") {
		judgements[state.CheckKey(k)] = &state.Judgement{
			Verdict: rapid.SampledFrom([]state.Verdict{state.Unknown, state.Up, state.Down}).Draw(t, "verdict"),
			Since:   noon.Add(-time.Duration(rapid.IntRange(0, 1e6).Draw(t, "age")) * time.Second),
			Untried: rapid.IntRange(0, 4).Draw(t, "untried") == 0,
		}
	}
	var v state.Verdicts
	return v.With(judgements)
}

func TestVerdictFileKeepsVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVerdicts(t)
		file := EncodeVerdicts(&v)
		got, err := DecodeVerdicts(file, noon)
		if err != nil {
			t.Fatal(err)
		}
		for k, j := range v.All() {
			read := got[k]
			if j.Untried != (read == nil) {
				t.Fatalf("untried %v, and read as %v", j.Untried, read)
			}
			if read != nil && (read.Verdict != j.Verdict || !read.Since.Equal(j.Since) || !read.Unconfirmed) {
				t.Fatalf("wrote %v, read %v", j, read)
			}
			delete(got, k)
		}
		if len(got) > 0 {
			t.Fatalf("%d more were read than written", len(got))
		}
		at := rapid.IntRange(0, len(file)-1).Draw(t, "byte")
		file[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "damage"))
		if got, err := DecodeVerdicts(file, noon); err == nil {
			t.Fatalf("damage went unnoticed: %v", got)
		}
	})
}

func FuzzDecodeVerdicts(f *testing.F) {
	var v state.Verdicts
	v = v.With(map[state.CheckKey]*state.Judgement{1: {Verdict: state.Down, Since: noon}, 2: {Verdict: state.Up, Since: noon}})
	f.Add(EncodeVerdicts(&v)[len(verdictMagic):])
	f.Add([]byte{})
	f.Add(append([]byte{7: 1, 8: 1, 9: 0x80}, make([]byte, 7)...)) // before 1970
	f.Add(bytes.Repeat([]byte{0xff}, 2*verdictSize))
	f.Fuzz(func(t *testing.T, body []byte) {
		// With the right frame, so that the fuzzer gets behind the checksum.
		framed := appendChecksum(append([]byte(verdictMagic), body...))
		for _, file := range [][]byte{body, framed} {
			got, err := DecodeVerdicts(file, noon)
			if err != nil && got != nil {
				t.Fatal("something was taken from a bad file")
			}
			for k, j := range got {
				if j.Since.After(noon) || j.Since.Unix() < 0 || j.Verdict > state.Down || !j.Unconfirmed {
					t.Fatalf("%x: %v", uint64(k), j)
				}
			}
		}
	})
}
