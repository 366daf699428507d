package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// script is a reader that takes no time, unless told so, and notes when it was
// called.
type script struct {
	mu sync.Mutex // the scenario changes what the loop's goroutine reads

	start   time.Time
	log     []string
	backoff backoff
	took    time.Duration // of a scan
	fail    func() error  // of a verify
	reports []error       // what would be made known
	noticed []time.Time   // of what was published
	moved   bool
	isBlind bool
}

// note is called with the lock held.
func (s *script) note(what string) {
	s.log = append(s.log, fmt.Sprintf("%s@%v", what, time.Since(s.start).Round(time.Millisecond)))
}

func (s *script) scan() error {
	s.mu.Lock()
	s.note("scan")
	took := s.took
	s.mu.Unlock()
	<-time.After(took)
	return nil
}

func (s *script) verify() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("verify")
	if s.fail != nil {
		return s.fail()
	}
	return nil
}

func (s *script) publish(noticed time.Time, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.noticed = append(s.noticed, noticed)
	}
	delay, report := s.backoff.next(time.Now(), err)
	if err == nil {
		s.note("publish")
	}
	if report != nil {
		s.reports = append(s.reports, report)
	}
	return delay
}

func (s *script) poll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("poll")
	moved := s.moved
	s.moved = false
	return moved
}

func (s *script) period() time.Duration { return time.Minute }
func (s *script) blind() bool           { return s.isBlind }

// told returns what was reported until now.
func (s *script) told() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reports
}

// recover ends the failing, too.
func (s *script) recover() []error {
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	return s.told()
}

// begin starts the log anew.
func (s *script) begin(took time.Duration, fail func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.log, s.noticed, s.took, s.fail = time.Now(), nil, nil, took, fail
}

// bubble runs a loop with a script in fake time. The first reading, at once,
// is left out of the log; the scenario starts at zero.
func bubble(t *testing.T, s *script, scenario func(dirty, reload chan<- struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dirty, reload := make(chan struct{}, 1), make(chan struct{}, 1)
		l := loop{settle: settling{quiet: 250 * time.Millisecond, most: time.Second}, reader: s, dirty: dirty, reload: reload}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		took, fail := s.took, s.fail
		s.begin(0, nil)
		go func() { l.run(ctx); close(done) }()
		synctest.Wait()
		s.want(t, "scan@0s", "verify@0s", "publish@0s")
		s.begin(took, fail)
		scenario(dirty, reload)
		cancel()
		<-done
	})
}

// pass lets fake time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *script) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.log, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(s.log, " "), strings.Join(want, " "))
	}
}

func TestSettleOneEvent(t *testing.T) {
	s := &script{}
	bubble(t, s, func(dirty, _ chan<- struct{}) {
		poke(dirty)
		pass(2 * time.Second)
	})
	s.want(t, "scan@83ms", "verify@167ms", "publish@250ms")
}

// wantNoticed checks since when what was published had waited, in milliseconds
// after the start; -1 is for no sign of a change.
func (s *script) wantNoticed(t *testing.T, want ...int64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []int64
	for _, at := range s.noticed {
		if at.IsZero() {
			got = append(got, -1)
		} else {
			got = append(got, at.Sub(s.start).Milliseconds())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("waited since %v, want %v", got, want)
	}
}

// What is published has waited since the first event, which may have come too
// late for the reading before.
func TestSettleNoticed(t *testing.T) {
	s := &script{}
	bubble(t, s, func(dirty, reload chan<- struct{}) {
		pass(100 * time.Millisecond)
		poke(dirty)
		pass(200 * time.Millisecond)
		poke(dirty)
		pass(time.Second)
		poke(reload)
		pass(time.Second)
		s.wantNoticed(t, 100, 1300)
	})
	slow := &script{took: 400 * time.Millisecond}
	bubble(t, slow, func(dirty, _ chan<- struct{}) {
		for range 120 {
			poke(dirty)
			pass(10 * time.Millisecond)
		}
		pass(3 * time.Second)
	})
	slow.wantNoticed(t, 0, 1400) // the loop hears of it when it has looked at the tree
}

// A reading that fails has read nothing of what waits, and one that is made for
// no sign but a failure has no time.
func TestSettleNoticedByFailures(t *testing.T) {
	s := &script{fail: func() error { return errors.New("gone") }}
	bubble(t, s, func(dirty, _ chan<- struct{}) {
		poke(dirty)
		pass(time.Minute)
		poke(dirty)
		pass(time.Minute)
		s.recover()
		pass(time.Minute)
		s.mu.Lock()
		s.moved = true
		s.mu.Unlock()
		pass(time.Minute)
	})
	if s.noticed[0].Sub(s.start) != 0 || len(s.noticed) != 2 || s.noticed[1].Sub(s.start) < 2*time.Minute {
		t.Errorf("since %v, from %v on", s.noticed, s.start)
	}
}

// An event between the looks and the end starts the quiet time anew.
func TestSettleEventBeforeTheEnd(t *testing.T) {
	s := &script{}
	bubble(t, s, func(dirty, _ chan<- struct{}) {
		poke(dirty)
		pass(240 * time.Millisecond)
		poke(dirty)
		pass(2 * time.Second)
	})
	s.want(t, "scan@83ms", "verify@167ms", "scan@323ms", "verify@407ms", "publish@490ms")
}

// A writer that does not stop does not put off the reading for ever: one a
// second, and one after the last event.
func TestSettleEndlessEvents(t *testing.T) {
	s := &script{}
	bubble(t, s, func(dirty, _ chan<- struct{}) {
		for range 250 {
			poke(dirty)
			pass(10 * time.Millisecond)
		}
		pass(2 * time.Second)
	})
	s.want(t, "scan@1s", "verify@1s", "publish@1s", "scan@2s", "verify@2s", "publish@2s",
		"scan@2.573s", "verify@2.657s", "publish@2.74s")
}

// A reading that takes long because it is late is not restarted by the events
// that come meanwhile; they lead to the next.
func TestSettleEventsDuringALateReading(t *testing.T) {
	s := &script{took: 400 * time.Millisecond}
	bubble(t, s, func(dirty, _ chan<- struct{}) {
		for range 120 {
			poke(dirty)
			pass(10 * time.Millisecond)
		}
		pass(3 * time.Second)
	})
	s.want(t, "scan@1s", "verify@1.4s", "publish@1.4s", "scan@1.483s", "verify@1.883s", "publish@1.883s")
}

func TestSettleReload(t *testing.T) {
	s := &script{}
	bubble(t, s, func(dirty, reload chan<- struct{}) {
		poke(dirty)
		pass(50 * time.Millisecond)
		poke(reload)
		pass(2 * time.Second)
	})
	s.want(t, "scan@50ms", "verify@50ms", "publish@50ms")
}

// What a poll finds has sent no events, so it must hold still by looks alone
// for the whole quiet time.
func TestSettlePoll(t *testing.T) {
	s := &script{moved: true}
	bubble(t, s, func(_, _ chan<- struct{}) { pass(130 * time.Second) })
	s.want(t, "poll@1m0s", "scan@1m0s", "verify@1m0.25s", "publish@1m0.25s", "poll@2m0.25s")
}

// An unsteady tree is tried again ever more slowly, becomes an error after 30
// seconds, and is still tried.
func TestSettleUnsteady(t *testing.T) {
	s := &script{fail: func() error { return unsteady("x.yaml is being written") }}
	var early int
	var reports []error
	bubble(t, s, func(_, reload chan<- struct{}) {
		poke(reload)
		pass(29 * time.Second)
		early = len(s.told())
		pass(3 * time.Second)
		reports = s.recover()
		pass(3 * time.Second)
	})
	if early > 0 || len(reports) == 0 || !strings.Contains(reports[0].Error(), "30s: x.yaml is being written") {
		t.Errorf("%d reports before 30 s, then %v", early, reports)
	}
	for i, at := range []string{"0s", "100ms", "300ms", "700ms", "1.5s", "3.1s", "5.1s", "7.1s"} {
		if s.log[2*i] != "scan@"+at {
			t.Errorf("attempt %d: %s, want @%s", i, s.log[2*i], at)
		}
	}
	if last := s.log[len(s.log)-1]; last != "publish@33.1s" {
		t.Errorf("last is %s", last)
	}
}

// An error is reported at once, whatever the kind of the attempt.
func TestSettleError(t *testing.T) {
	broken := errors.New("/srv/cfg: no such file or directory")
	s := &script{fail: func() error { return broken }}
	bubble(t, s, func(dirty, _ chan<- struct{}) {
		poke(dirty)
		pass(260 * time.Millisecond)
		s.recover()
		pass(time.Second)
	})
	if !slices.Equal(s.reports, []error{broken}) {
		t.Errorf("reports: %v", s.reports)
	}
	s.want(t, "scan@83ms", "verify@167ms", "scan@267ms", "verify@267ms", "publish@267ms")
}

// Events neither put off nor hasten beyond measure the second attempt at an
// unsteady tree: it comes when it is due, or when the tree is quiet.
func TestSettleEventsWhileUnsteady(t *testing.T) {
	left := 3
	s := &script{fail: func() error {
		if left--; left >= 0 {
			return unsteady("index.lock")
		}
		return nil
	}}
	bubble(t, s, func(dirty, reload chan<- struct{}) {
		poke(reload)
		for range 40 {
			pass(20 * time.Millisecond)
			poke(dirty)
		}
		pass(2 * time.Second)
	})
	s.want(t, "scan@0s", "verify@0s", "scan@100ms", "verify@100ms", "scan@300ms", "verify@300ms",
		"scan@700ms", "verify@700ms", "publish@700ms", "scan@883ms", "verify@967ms", "publish@1.05s")
}

func TestSettleBlindRetry(t *testing.T) {
	left := 1
	s := &script{moved: true, isBlind: true, fail: func() error {
		if left--; left >= 0 {
			return unsteady("x.yaml")
		}
		return nil
	}}
	bubble(t, s, func(_, _ chan<- struct{}) { pass(62 * time.Second) })
	s.want(t, "poll@1m0s", "scan@1m0s", "verify@1m0.25s", "scan@1m0.35s", "verify@1m0.6s", "publish@1m0.6s")
}

// Whatever the events: a scan that is published begins after the last event
// before its end, or at the limit; each event is followed by a publication
// within the limit and a quiet time; and it ends.
func TestSettleProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.IntRange(0, 600), 1, 60).Draw(t, "gaps in ms")
		s := settling{quiet: 250 * time.Millisecond, most: time.Second}
		now, last, owed := time.Unix(0, 0), time.Time{}, time.Time{}
		run := func(until time.Time) {
			for at, ok := s.due(); ok && !at.After(until); at, ok = s.due() {
				s.begin(at)
				if s.step < stepPublish {
					s.step++
					continue
				}
				if late := at.Sub(owed); late > s.most {
					t.Fatalf("published %v after the event", late)
				}
				if still := at.Sub(last); still < s.quiet && at.Sub(owed) < s.most {
					t.Fatalf("published %v after the last event", still)
				}
				s.done(time.Time{}, false)
				owed = time.Time{}
			}
		}
		for _, gap := range gaps {
			now = now.Add(time.Duration(gap) * time.Millisecond)
			run(now.Add(-1))
			s.event(now)
			last = now
			if owed.IsZero() {
				owed = now
			}
		}
		run(now.Add(2 * time.Second))
		if s.step != stepNone || !owed.IsZero() {
			t.Fatalf("the last event was not read: %+v", s)
		}
	})
}
