package manifest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// step is one of the three parts of a reading.
type step int

const (
	stepNone    step = iota
	stepScan         // look at the tree and read what has changed
	stepVerify       // look again
	stepPublish      // nothing has moved since: make it known
)

// settling decides when a tree that is being changed is read: after a quiet
// time, but not later than most after the first event. Two timers are needed,
// for one alone either cuts a burst in two or is put off for ever.
//
// The two looks fall within the quiet time, at its thirds. At its end there is
// nothing left to do but to publish, unless a look takes longer than a third.
type settling struct {
	quiet, most time.Duration

	step  step
	at    [stepPublish + 1]time.Time
	first time.Time // the first event of this reading; zero before there is one
	late  time.Time // the last event that came too late for this reading
	retry time.Time // a failed reading is tried again by then, whatever happens

	noticed time.Time // the first sign of a change that was not read yet; zero while there is none
	next    time.Time // the same of what came too late for this reading
}

// notice notes a sign of a change: an event, a poll's finding, a wish to have
// the tree read.
func (s *settling) notice(now time.Time) {
	if s.noticed.IsZero() {
		s.noticed = now
	}
}

// event notes that something has changed. Once the reading cannot be put off
// any more, an event leads to another reading after this one.
func (s *settling) event(now time.Time) {
	s.notice(now)
	if s.step == stepNone || s.first.IsZero() {
		s.first = now
	}
	limit := s.first.Add(s.most)
	if !now.Before(limit) {
		s.late = now
		if s.next.IsZero() {
			s.next = now
		}
		return
	}
	end := earlier(now.Add(s.quiet), limit)
	if !s.retry.IsZero() && s.retry.Before(end) {
		s.plan(s.retry, s.retry, s.retry)
		return
	}
	s.plan(earlier(now.Add(s.quiet/3), end), earlier(now.Add(s.quiet*2/3), end), end)
}

// now has the tree read without waiting.
func (s *settling) now(now time.Time) { s.plan(now, now, now); s.first = time.Time{} }

// blind has the tree read where no events can be relied on: it must hold still
// for the whole quiet time by looks alone.
func (s *settling) blind(now time.Time) {
	end := now.Add(s.quiet)
	s.plan(now, end, end)
	s.first = time.Time{}
}

// plan starts from the beginning.
func (s *settling) plan(scan, verify, publish time.Time) {
	s.step = stepScan
	s.at = [...]time.Time{stepScan: scan, stepVerify: verify, stepPublish: publish}
}

// due returns when the next step is to be taken, if there is one.
func (s *settling) due() (time.Time, bool) { return s.at[s.step], s.step != stepNone }

// begin is called before a step. From the first step on, a reading that was
// not caused by events, or is overdue, is not put off by them either.
func (s *settling) begin(now time.Time) {
	overdue := !s.retry.IsZero() && !now.Before(s.retry)
	if s.first.IsZero() || overdue {
		s.first = now.Add(-s.most)
	}
}

// done ends a reading; again is when to try once more, zero for not at all.
func (s *settling) done(again time.Time, blind bool) {
	if again.IsZero() {
		s.noticed = s.next
	}
	s.next = time.Time{}
	late := s.late
	s.step, s.first, s.late, s.retry = stepNone, time.Time{}, time.Time{}, again
	switch {
	case again.IsZero():
	case blind:
		s.blind(again)
	default:
		s.now(again)
	}
	if !late.IsZero() {
		s.event(late)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// backoff spaces the attempts at a tree that is unsteady or in error.
type backoff struct {
	tries int
	since time.Time // the first of the unsteady attempts in a row
}

// next takes the outcome of an attempt. It returns after which time to try
// again, zero for not at all, and the error to report, which an unsteady tree
// becomes after 30 seconds.
func (b *backoff) next(now time.Time, err error) (time.Duration, error) {
	if err == nil {
		*b = backoff{}
		return 0, nil
	}
	delay := min(100*time.Millisecond<<min(b.tries, 10), 2*time.Second)
	b.tries++
	var u *unsteadyError
	if !errors.As(err, &u) {
		b.since = time.Time{}
		return delay, err
	}
	if u.wait > 0 {
		delay = min(u.wait, 2*time.Second)
	}
	if b.since.IsZero() {
		b.since = now
	}
	if now.Sub(b.since) >= restless {
		return delay, fmt.Errorf("the manifests have not held still for %v: %w", restless, err)
	}
	return delay, nil
}

// reader is what a loop drives, one step at a time.
type reader interface {
	scan() error
	verify() error
	publish(noticed time.Time, err error) time.Duration // the outcome; returns when to try again, 0 for not at all
	poll() bool                                         // looks whether anything has changed without an event
	period() time.Duration                              // between two polls
	blind() bool                                        // no events are to be expected
}

// loop is the one goroutine that reads. It is all select and timers, so that
// it can be tested in a bubble of testing/synctest.
type loop struct {
	settle settling
	reader reader
	dirty  <-chan struct{} // something has changed
	reload <-chan struct{} // read now

	pollAt time.Time
}

// run reads at once and then whenever there is a reason to, until ctx ends.
func (l *loop) run(ctx context.Context) {
	l.settle.now(time.Now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(l.next()))
		select {
		case <-ctx.Done():
			return
		case <-l.dirty:
			l.settle.event(time.Now())
		case <-l.reload:
			l.settle.notice(time.Now())
			l.settle.now(time.Now())
		case <-timer.C:
			l.fire()
		}
	}
}

// next returns when the timer has to fire. There is no polling while a reading
// is under way, nor while one will be tried again.
func (l *loop) next() time.Time {
	if at, ok := l.settle.due(); ok {
		return at
	}
	if l.pollAt.IsZero() {
		l.pollAt = time.Now().Add(l.reader.period())
	}
	return l.pollAt
}

// fire takes the step that is due. An event that is waiting is noted first, for
// select chooses at random and the tree must not be published over it.
func (l *loop) fire() {
	now := time.Now()
	select {
	case <-l.dirty:
		l.settle.event(now)
	default:
	}
	at, ok := l.settle.due()
	switch {
	case !ok:
		l.pollAt = time.Time{}
		if l.reader.poll() {
			l.settle.notice(time.Now())
			l.settle.blind(time.Now())
		}
	case !at.After(now):
		l.settle.begin(now)
		l.take()
	}
}

// take does one step and plans the next.
func (l *loop) take() {
	var err error
	switch l.settle.step {
	case stepScan:
		err = l.reader.scan()
	case stepVerify:
		err = l.reader.verify()
	}
	if err == nil && l.settle.step < stepPublish {
		l.settle.step++
		return
	}
	var again time.Time
	if delay := l.reader.publish(l.settle.noticed, err); delay > 0 {
		again = time.Now().Add(delay)
	}
	l.settle.done(again, l.reader.blind())
	l.pollAt = time.Time{}
}
