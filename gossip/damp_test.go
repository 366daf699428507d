package gossip

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

// flapping drives a Damper about one check, as its owner should: it's asked
// whenever something is observed or Next says so.
type flapping struct {
	Damper
	now       time.Duration
	published []publication
}

type publication struct {
	at    time.Duration
	entry Entry
}

func (f *flapping) ask() {
	for _, e := range f.Due(noon.Add(f.now)) {
		f.published = append(f.published, publication{f.now, e})
	}
}

// until lets time pass.
func (f *flapping) until(end time.Duration) {
	for at, ok := f.Next(); ok && !at.After(noon.Add(end)); at, ok = f.Next() {
		f.now = max(f.now, at.Sub(noon))
		f.ask()
	}
	f.now = end
}

func (f *flapping) observe(at time.Duration, e Entry) {
	f.until(at)
	e.Key = web
	f.Observe(e, noon.Add(at))
	f.ask()
}

// run reads verdicts with the seconds at which they are observed, as "0u 10d",
// waits for ten minutes more, and gives what was published in the same way.
func run(observed string) string {
	var f flapping
	for _, word := range strings.Fields(observed) {
		var seconds float64
		var letter rune
		fmt.Sscanf(word, "%g%c", &seconds, &letter)
		verdict := map[rune]state.Verdict{'u': state.Up, 'd': state.Down}[letter]
		f.observe(time.Duration(seconds*float64(time.Second)), Entry{Verdict: verdict})
	}
	f.until(f.now + 10*time.Minute)
	var out []string
	for _, p := range f.published {
		out = append(out, fmt.Sprintf("%g%c", p.at.Seconds(), p.entry.Verdict.String()[0]))
	}
	return strings.Join(out, " ")
}

func TestDamper(t *testing.T) {
	for _, c := range []struct{ name, observed, want string }{
		{"a change at once", "0u 10d 60u", "0u 10d 60u"},
		{"the same again is none", "0u 1u 2u", "0u"},
		{"a second within a second waits", "0u 0.4d", "0u 1d"},
		{"and is dropped if it's undone", "0u 0.4d 0.6u", "0u"},
		{"three flips in a minute", "0u 10d 20u 30d", "0u 10d 20u 30d"},
		{"the fourth waits for 30 s of stability", "0u 10d 20u 30d 40u", "0u 10d 20u 30d 70u"},
		{"four in more than a minute", "0u 10d 30u 50d 71u", "0u 10d 30u 50d 71u"},
		{"the next change waits as long", "0u 10d 20u 30d 40u 100d", "0u 10d 20u 30d 70u 130d"},
		{"another four, and it's a minute", "0u 1d 2u 3d 4u 5d 6u 7d 8u", "0u 1d 2u 3d 68u"},
		{"that doubles up to five minutes",
			"0u 1d 2u 3d 4u 5d 6u 7d 8u 9d 10u 11d 12u 13d 14u 15d 16u 17d 18u 19d 20u 21d 22u 23d 24u",
			"0u 1d 2u 3d 324u"},
		{"flapping that ends where it began", "0u 1d 2u 3d 4u 5d", "0u 1d 2u 3d"},
		{"five quiet minutes, and all is forgotten", "0u 10d 20u 30d 40u 340d", "0u 10d 20u 30d 70u 340d"},
		{"halved, where more was asked for", "0u 1d 2u 3d 4u 5d 6u 7d 8u 308d", "0u 1d 2u 3d 68u 338d"},
	} {
		if got := run(c.observed); got != c.want {
			t.Errorf("%s: %s\ngot  %s\nwant %s", c.name, c.observed, got, c.want)
		}
	}
}

// Another reason for the same verdict is no hurry; another verdict is.
func TestDamperOfReasons(t *testing.T) {
	var f flapping
	for i, failure := range []state.Failure{state.Refused, state.TimedOut, state.Refused, state.TimedOut} {
		f.observe(time.Duration(i)*time.Second, Entry{Verdict: state.Down, Failure: failure})
	}
	f.observe(40*time.Second, Entry{Verdict: state.Down, Failure: state.Refused})
	f.observe(41*time.Second, Entry{Verdict: state.Up})
	f.until(time.Hour)
	want := []publication{
		{0, Entry{Key: web, Verdict: state.Down, Failure: state.Refused}},
		{30 * time.Second, Entry{Key: web, Verdict: state.Down, Failure: state.TimedOut}},
		{41 * time.Second, Entry{Key: web, Verdict: state.Up}},
	}
	if !slices.Equal(f.published, want) {
		t.Errorf("got %v, want %v", f.published, want)
	}
}

func TestDamperForgets(t *testing.T) {
	var f flapping
	f.observe(0, Entry{Verdict: state.Up})
	f.observe(time.Millisecond, Entry{Verdict: state.Down})
	f.Forget(web)
	f.until(time.Hour)
	if len(f.published) != 1 {
		t.Errorf("published %v", f.published)
	}
	f.observe(time.Hour, Entry{Verdict: state.Down})
	if len(f.published) != 2 {
		t.Errorf("asked anew, and it's not as the first time: %v", f.published)
	}
}

// Each check by itself, in the order of their keys.
func TestDamperOfSeveralChecks(t *testing.T) {
	var d Damper
	for _, k := range []state.CheckKey{3, 1, 2} {
		d.Observe(isDown(k), noon)
	}
	if got := d.Due(noon); !slices.Equal(got, []Entry{isDown(1), isDown(2), isDown(3)}) {
		t.Errorf("got %v", got)
	}
}

// The laws of damping, whatever the probes find.
func TestDamperLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f flapping
		var latest Entry
		for range rapid.IntRange(1, 60).Draw(t, "observations") {
			pause := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 6 * time.Minute}).Draw(t, "pause")
			latest = Entry{Key: web, Verdict: rapid.SampledFrom([]state.Verdict{state.Up, state.Down}).Draw(t, "verdict")}
			first := f.now == 0 && len(f.published) == 0
			f.observe(f.now+pause, latest)
			if first && len(f.published) != 1 {
				t.Fatal("the first verdict waits")
			}
		}
		f.until(f.now + dampLongest)
		if last := f.published[len(f.published)-1].entry; last != latest {
			t.Fatalf("after five quiet minutes %v is published, and %v is so", last, latest)
		}
		for i, p := range f.published {
			if i > 0 && (p.at-f.published[i-1].at < dampSpacing || p.entry == f.published[i-1].entry) {
				t.Fatalf("publication %d is too early, or none: %v", i, f.published)
			}
			// The first of all, three flips, and one after 30 s.
			if i >= 5 && p.at-f.published[i-5].at < dampWindow {
				t.Fatalf("six in a minute: %v", f.published)
			}
		}
	})
}

// Asking more often than Next says brings nothing.
func TestDamperMayBeAskedAtAnyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seldom, often flapping
		for range rapid.IntRange(1, 30).Draw(t, "observations") {
			at := seldom.now + time.Duration(rapid.IntRange(0, 40_000).Draw(t, "pause"))*time.Millisecond
			e := Entry{
				Verdict: rapid.SampledFrom([]state.Verdict{state.Up, state.Down}).Draw(t, "verdict"),
				Failure: rapid.SampledFrom([]state.Failure{state.NoFailure, state.Refused}).Draw(t, "failure"),
			}
			for range rapid.IntRange(0, 5).Draw(t, "asked in vain") {
				often.until(often.now + (at-often.now)/3)
				often.ask()
			}
			seldom.observe(at, e)
			often.observe(at, e)
		}
		seldom.until(seldom.now + time.Hour)
		often.until(often.now + time.Hour)
		if !slices.Equal(seldom.published, often.published) {
			t.Fatalf("asked seldom %v\nasked often  %v", seldom.published, often.published)
		}
		if _, due := seldom.Next(); due {
			t.Fatal("something is due after an hour of quiet")
		}
	})
}

// What flaps is told when that begins, and when it must be stable for longer.
func TestDampTold(t *testing.T) {
	var d Damper
	var told []string
	for i := range 30 {
		verdict := []state.Verdict{state.Up, state.Down}[i%2]
		if flaps := d.Observe(Entry{Key: web, Verdict: verdict}, noon.Add(time.Duration(i)*time.Second)); flaps > 0 {
			told = append(told, fmt.Sprintf("%d: %v", i, flaps))
		}
	}
	if got, want := strings.Join(told, ", "), "4: 30s, 8: 1m0s, 12: 2m0s, 16: 4m0s, 20: 5m0s"; got != want {
		t.Errorf("told %q, not %q", got, want)
	}
}
