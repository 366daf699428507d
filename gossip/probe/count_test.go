package probe

import (
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// verdictOf is what the counts mean, said in another way: it looks back over
// all results each time.
func verdictOf(known state.Verdict, results []bool, rise, fall int) state.Verdict {
	verdict, from := known, 0
	for i := range results {
		need := fall
		if results[i] {
			if need = rise; verdict == state.Unknown {
				need = 1
			}
		}
		run := 0
		for k := i; k >= from && results[k] == results[i]; k-- {
			run++
		}
		now := state.Down
		if results[i] {
			now = state.Up
		}
		if run >= need && now != verdict {
			verdict, from = now, i+1
		}
	}
	return verdict
}

func TestCounterCountsInARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SampledFrom([]state.Verdict{state.Unknown, state.Up, state.Down}).Draw(t, "known")
		rise, fall := rapid.IntRange(1, 4).Draw(t, "rise"), rapid.IntRange(1, 4).Draw(t, "fall")
		results := rapid.SliceOfN(rapid.Bool(), 0, 30).Draw(t, "results")
		c := counter{verdict: known}
		for i, ok := range results {
			before := c
			c = c.after(ok, rise, fall)
			if want := verdictOf(known, results[:i+1], rise, fall); c.verdict != want {
				t.Fatalf("after %v: %v, want %v", results[:i+1], c.verdict, want)
			}
			if c.verdict != before.verdict && (c.verdict == state.Up) != ok {
				t.Fatalf("%v made it %v", ok, c.verdict)
			}
			if c.suspects() && (ok || c.verdict == state.Down) {
				t.Fatalf("%+v suspects after %v", c, ok)
			}
		}
	})
}

func TestCounter(t *testing.T) {
	for _, tt := range []struct {
		name       string
		known      state.Verdict
		results    string // + and -
		rise, fall int
		want       state.Verdict
	}{
		{"a first success is trusted", state.Unknown, "+", 3, 3, state.Up},
		{"a first failure is not", state.Unknown, "--", 1, 3, state.Unknown},
		{"three are", state.Unknown, "---", 1, 3, state.Down},
		{"unknown, then up after failures", state.Unknown, "--+", 3, 3, state.Up},
		{"a success starts anew", state.Up, "--+--", 1, 3, state.Up},
		{"known from before", state.Up, "---", 1, 3, state.Down},
		{"rise", state.Down, "++", 3, 1, state.Down},
		{"risen", state.Down, "++-+++", 3, 1, state.Up},
	} {
		c := counter{verdict: tt.known}
		for _, r := range tt.results {
			c = c.after(r == '+', tt.rise, tt.fall)
		}
		if c.verdict != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, c.verdict, tt.want)
		}
	}
}
