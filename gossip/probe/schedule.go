package probe

import (
	"container/heap"
	"time"

	"pointsman/state"
)

// The probe of a Check without one, of a home that is dead: it's asked whether
// the port of a host that nobody hears from answers all the same.
const (
	homePeriod  = 2 * time.Second
	homeTimeout = time.Second

	// homeGrace is after what time a backend that can't be asked is taken to be
	// dead like its home.
	homeGrace = 30 * time.Second
)

var homeProbe = state.Probe{Period: homePeriod, Timeout: homeTimeout, SuccessThreshold: 1, FailureThreshold: 1}

// effective gives the probe that a Check is made by.
func effective(c *state.Check) *state.Probe {
	if c.Probe == nil {
		return &homeProbe
	}
	return c.Probe
}

// mute reports whether a Check can't be made by asking.
func mute(c *state.Check) bool { return c.Probe == nil && c.Protocol != state.TCP }

// target is a Check in the schedule.
type target struct {
	check   *state.Check
	urgent  bool
	count   counter
	due     time.Time // when the next probe is to begin
	place   int       // in the queue; -1 while it isn't there
	running bool      // a probe is in flight, so it isn't in the queue
	gone    bool      // not assigned any more, and only here until its probe has ended
	round   uint64    // of the set that it was last in
}

// ended is a probe that has ended.
type ended struct {
	target *target
	began  time.Time
	outcome
}

// schedule knows when the next probe of each Check is due. Time is a parameter,
// and it belongs to one goroutine.
type schedule struct {
	workers int
	seed    uint64
	report  func(Result)

	targets   map[state.CheckKey]*target
	queue     queue
	inFlight  int
	assigned  int     // targets that aren't gone
	perSecond float64 // of their probes
	round     uint64
}

func newSchedule(cfg Config) *schedule {
	return &schedule{workers: cfg.Workers, seed: cfg.Seed, report: cfg.Report, targets: map[state.CheckKey]*target{}}
}

// replace makes checks the ones that are assigned.
func (s *schedule) replace(checks []Assignment, now time.Time) {
	s.round++
	s.assigned, s.perSecond = 0, 0
	for i := range checks {
		a := &checks[i]
		t := s.targets[a.Check.Key]
		switch {
		case t == nil:
			t = &target{place: -1}
			s.targets[a.Check.Key] = t
			s.begin(t, a, now)
		case t.round == s.round:
			continue // a Check that is there twice
		case t.gone:
			s.begin(t, a, now)
		default:
			s.keep(t, a, now)
		}
		t.round = s.round
		s.assigned++
		if !mute(t.check) {
			s.perSecond += 1 / effective(t.check).Period.Seconds()
		}
	}
	for _, t := range s.targets {
		if t.round != s.round {
			s.drop(t)
		}
	}
}

// begin starts a Check from nothing. The first probes of all Checks are spread
// over their periods. While a probe of a former life of it is in flight, none is
// begun.
func (s *schedule) begin(t *target, a *Assignment, now time.Time) {
	t.check, t.urgent, t.gone = a.Check, a.Urgent, false
	t.count = counter{}
	switch {
	case mute(a.Check):
		t.due = now.Add(homeGrace)
	case a.Urgent:
		t.due = now
	default:
		t.due = now.Add(jitter(a.Check.Key, s.seed, effective(a.Check).Period))
	}
	if !t.running {
		heap.Push(&s.queue, t)
	}
}

// keep goes on with a Check. What has become urgent is made at once.
func (s *schedule) keep(t *target, a *Assignment, now time.Time) {
	t.check = a.Check // so that the former one's memory is given up
	if a.Urgent && !t.urgent && t.place >= 0 && !mute(t.check) && t.due.After(now) {
		t.due = now
		heap.Fix(&s.queue, t.place)
	}
	t.urgent = a.Urgent
}

// drop takes a Check out, at once or when its probe has ended.
func (s *schedule) drop(t *target) {
	t.gone = true
	if t.place >= 0 {
		heap.Remove(&s.queue, t.place)
	}
	if !t.running {
		delete(s.targets, t.check.Key)
	}
}

// jitter gives when, in its period, a Check is first made: some fraction that
// only the Check and the node decide. The mixing is SplitMix64's.
func jitter(k state.CheckKey, seed uint64, period time.Duration) time.Duration {
	x := uint64(k) ^ seed
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return time.Duration(float64(period) * (float64(x>>11) / (1 << 53)))
}

// next takes the next target that is due off the queue, to be probed; nil where
// none is, or no worker is free.
func (s *schedule) next(now time.Time) *target {
	for len(s.queue) > 0 && !s.queue[0].due.After(now) && s.inFlight < s.workers {
		t := heap.Pop(&s.queue).(*target)
		if mute(t.check) {
			s.presume(t)
			continue
		}
		t.running = true
		s.inFlight++
		return t
	}
	return nil
}

// presume takes a backend that can't be asked to be dead, for good: as long as
// it's assigned its home is.
func (s *schedule) presume(t *target) {
	t.count = counter{verdict: state.Down}
	s.report(Result{Key: t.check.Key, Verdict: state.Down, Failure: state.HomeDead})
}

// wait gives for how long there is nothing to begin. Where no worker is free,
// the end of a probe will tell.
func (s *schedule) wait(now time.Time) time.Duration {
	if len(s.queue) == 0 || s.inFlight >= s.workers {
		return time.Hour
	}
	return max(s.queue[0].due.Sub(now), 0)
}

// settle takes in the outcome of a probe, and says when the next one is due.
func (s *schedule) settle(e ended, now time.Time) {
	t := e.target
	t.running = false
	s.inFlight--
	if t.gone {
		delete(s.targets, t.check.Key)
		return
	}
	p := effective(t.check)
	if !e.void {
		fall := p.FailureThreshold
		if t.urgent {
			fall = 1
		}
		before := t.count.verdict
		t.count = t.count.after(e.failure == state.NoFailure, p.SuccessThreshold, fall)
		if t.count.verdict != before {
			s.report(Result{Key: t.check.Key, Verdict: t.count.verdict, Failure: e.failure, Detail: e.detail})
		}
	}
	t.due = e.began.Add(interval(p, t.count))
	if t.due.Before(now) {
		t.due = now
	}
	heap.Push(&s.queue, t)
}

// interval gives the time from the start of one probe to that of the next.
// Failures that don't decide yet are followed up sooner, so that a verdict
// comes within Period + FailureThreshold x max(1 s, Timeout) after a backend
// has failed.
func interval(p *state.Probe, c counter) time.Duration {
	if c.suspects() {
		return min(p.Period, max(time.Second, p.Timeout))
	}
	return p.Period
}

// queue is a heap of targets, the one that is due first on top.
type queue []*target

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, k int) bool { return q[i].due.Before(q[k].due) }

func (q queue) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].place, q[k].place = i, k
}

func (q *queue) Push(x any) {
	t := x.(*target)
	t.place = len(*q)
	*q = append(*q, t)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = -1
	return t
}
