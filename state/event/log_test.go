package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func down(endpoint string, at time.Time) Event {
	return Event{Type: Warning, Reason: EndpointDown, Object: "Service shop/web", Endpoint: endpoint, Message: "down", Count: 1, First: at, Last: at}
}

// seen sums up a log: reason, endpoint and count of each event.
func seen(l *Log, after uint64) string {
	events, _ := l.After(after)
	var out []string
	for _, e := range events {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Seq, e.Reason, e.Endpoint))+fmt.Sprintf(" x%d", e.Count))
	}
	return strings.Join(out, ", ")
}

// TestRepetitions: the same event within ten minutes is counted, and comes last;
// later it's another one.
func TestRepetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog("n1", Most)
		began := time.Now()
		for range 3 {
			l.Add(down("a", time.Now()))
			l.Add(down("b", time.Now()))
			time.Sleep(again - time.Second)
		}
		if got, want := seen(l, 0), "5 EndpointDown a x3, 6 EndpointDown b x3"; got != want {
			t.Errorf("%s, not %s", got, want)
		}
		if events, _ := l.After(0); !events[0].First.Equal(began) || events[0].Last.Equal(began) {
			t.Errorf("from %s to %s", events[0].First, events[0].Last)
		}
		time.Sleep(time.Second)
		l.Add(down("a", time.Now()))
		if got, want := seen(l, 5), "6 EndpointDown b x3, 7 EndpointDown a x1"; got != want {
			t.Errorf("%s, not %s", got, want)
		}
		l.Add(down("a", time.Now()))
		if got, want := seen(l, 6), "8 EndpointDown a x2"; got != want {
			t.Errorf("%s, not %s", got, want)
		}
	})
}

// TestAfterTells: who waits hears of the next event, also of one that is
// a repetition.
func TestAfterTells(t *testing.T) {
	l := NewLog("n1", Most)
	for range 2 {
		_, changed := l.After(0)
		select {
		case <-changed:
			t.Fatal("told before there's anything")
		default:
		}
		l.Add(Event{Reason: Started})
		<-changed
	}
	if events, _ := l.After(0); events[0].Object != "Node n1" {
		t.Errorf("about %q", events[0].Object)
	}
}

// TestLogLaws: whatever happens, there are never too many events, all are in
// order, each is there once, and a reason that is rare loses nothing to others.
func TestLogLaws(t *testing.T) {
	t.Parallel()
	reasons := []Reason{EndpointDown, EndpointUp, DriftRepaired, Started}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(len(reasons), 40).Draw(t, "most")
		l := NewLog("n1", most)
		now, last := time.Unix(0, 0), map[Reason][]uint64{}
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
			e := down(fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "endpoint")), now)
			e.Reason = rapid.SampledFrom(reasons).Draw(t, "reason")
			l.Add(e)
			last[e.Reason] = append(last[e.Reason], l.seq)
		}
		events, _ := l.After(0)
		if len(events) > most {
			t.Fatalf("%d events, not %d", len(events), most)
		}
		if !slices.IsSortedFunc(events, func(a, b Event) int { return int(a.Seq) - int(b.Seq) }) {
			t.Fatal("out of order")
		}
		checkFair(t, events, last, most/len(reasons))
		if len(l.latest) > len(events) || len(l.of) > len(reasons) {
			t.Fatalf("%d events, and %d and %d are known", len(events), len(l.latest), len(l.of))
		}
	})
}

// checkFair wants the latest events of each reason, as many as there's room for
// if each gets the same. (Of repetitions the last is there.)
func checkFair(t *rapid.T, events []Event, last map[Reason][]uint64, share int) {
	kept := map[Reason]int{}
	for _, e := range events {
		kept[e.Reason]++
	}
	for reason, happened := range last {
		newest := happened[len(happened)-1]
		if !slices.ContainsFunc(events, func(e Event) bool { return e.Seq == newest }) {
			t.Fatalf("the latest %s is gone", reason)
		}
		different := map[string]bool{}
		for _, e := range events {
			if e.Reason == reason {
				different[e.Endpoint] = true
			}
		}
		if kept[reason] < min(share, len(different)) {
			t.Fatalf("of %s %d are left", reason, kept[reason])
		}
	}
}

// TestRareIsKept: thousands of one reason don't push out another.
func TestRareIsKept(t *testing.T) {
	l := NewLog("n1", Most)
	l.Add(Event{Reason: DriftRepaired, Count: 1})
	for i := range 5 * Most {
		l.Add(down(fmt.Sprint(i), time.Unix(0, 0)))
	}
	events, _ := l.After(0)
	if len(events) != Most || events[0].Reason != DriftRepaired || events[Most-1].Endpoint != fmt.Sprint(5*Most-1) {
		t.Errorf("%d events, first %+v, last %+v", len(events), events[0], events[len(events)-1])
	}
}

// TestBounds: an event is small, whatever it's about, and still text.
func TestBounds(t *testing.T) {
	l := NewLog("n1", 3)
	l.Add(Event{Reason: ManifestRefused, Object: strings.Repeat("ä", 1000), Message: "x" + strings.Repeat("ä", 1000), Concerns: make(Concerns, maxConcerns)})
	l.Add(Event{Reason: ManifestsLoaded, Concerns: make(Concerns, maxConcerns+1)})
	events, _ := l.After(0)
	if n := len(events[0].Concerns); n != maxConcerns || !slices.Equal(events[1].Concerns, Concerns{Everything}) {
		t.Errorf("it concerns %d, and %s", n, events[1].Concerns)
	}
	for text, most := range map[string]int{events[0].Object: maxField, events[0].Message: maxMessage} {
		if len(text) > most || len(text) < most-2 || !utf8.ValidString(text) || !strings.HasSuffix(text, "ä...") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// TestOneLine: what isn't for a terminal doesn't come to one.
func TestOneLine(t *testing.T) {
	l := NewLog("n1", 1)
	l.Add(Event{Reason: ManifestRefused, Message: "a\x1b[2Jb\nc\xffd"})
	if events, _ := l.After(0); events[0].Message != "a [2Jb c\ufffdd" {
		t.Errorf("%q", events[0].Message)
	}
}

func BenchmarkAddToFullLog(b *testing.B) {
	l := NewLog("n1", Most)
	for i := range b.N {
		l.Add(down(fmt.Sprint(i), time.Unix(0, 0)))
	}
}
