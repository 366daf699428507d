package host

import "slices"

// Own is a write of our own: the generations read right before it and right
// after it succeeded. If nobody else committed meanwhile they are one apart.
type Own struct{ Before, After uint32 }

// alone reports that nobody else wrote between the two readings.
func (o Own) alone() bool { return o.After == nextGeneration(o.Before) }

func (o Own) holds(generation uint32) bool {
	return later(generation, o.Before) && !later(generation, o.After)
}

func (o Own) inside(c Change) bool {
	return c.First != c.Last && !later(c.First, nextGeneration(o.Before)) && !later(o.After, c.Last)
}

// Verdict holds the changes that we can't account for: others', or lost ones
// that may be.
type Verdict []Change

// Of is the gravest that was done to a table: Program, Elements, or 0 for nothing.
func (v Verdict) Of(t Table) Touched {
	var worst Touched
	for _, c := range v {
		worst |= c.Tables[t]
		if c.Lost {
			worst |= Program
		}
	}
	return worst.worst()
}

// Judge says which changes were not our own. It goes by the generations alone,
// so it doesn't matter when a notification arrives:
//
//   - In a write of ours during which nobody else committed, the change is ours.
//   - In one during which others did commit, it is not known which generation
//     was ours, but exactly one was, and it touched our tables. If only one
//     change did, that is ours; if several did, all are taken for foreign.
//   - Several changes run together are ours if as many writes of ours lie
//     within their generations.
//   - A gap is harmless if every generation in it was ours alone.
//   - Everything else is foreign.
//
// That one of the generations is ours holds for writes that change something.
// One that does not (the kernel found everything there already) commits
// nothing, and if somebody else commits exactly in its moments, that passes
// for ours; the periodic reading of the whole table is for such.
//
// All changes of the generations that a write spans must be there: see Ledger.
func Judge(own []Own, changes []Change) Verdict {
	var v Verdict
	for _, c := range changes {
		if !explained(c, own, changes) {
			v = append(v, c)
		}
	}
	return v
}

func explained(c Change, own []Own, changes []Change) bool {
	if c.Lost {
		return int64(alone(own, c)) == int64(c.Last-c.First)+1
	}
	if c.First != c.Last {
		return count(own, func(o Own) bool { return o.inside(c) }) >= c.Count
	}
	i := slices.IndexFunc(own, func(o Own) bool { return o.holds(c.Last) })
	if i < 0 {
		return false
	}
	return own[i].alone() || transactions(own[i], changes) == 1
}

// alone counts the generations of a gap in which only we wrote.
func alone(own []Own, gap Change) int {
	return count(own, func(o Own) bool {
		return o.alone() && !later(gap.First, o.After) && !later(o.After, gap.Last)
	})
}

// transactions counts those that touched our tables during a write, as far as
// they can be told; a gap that reaches into it counts for one.
func transactions(o Own, changes []Change) int {
	n := 0
	for _, c := range changes {
		if later(c.Last, o.Before) && !later(c.First, o.After) {
			n += max(c.Count, 1)
		}
	}
	return n
}

func count[T any](in []T, is func(T) bool) int {
	n := 0
	for _, v := range in {
		if is(v) {
			n++
		}
	}
	return n
}

// Ledger keeps what Judge needs between one Take and the next: our writes
// whose notifications are still to come, and changes that can't be judged yet.
// Its zero value knows nothing. It belongs to the one goroutine that writes.
type Ledger struct {
	known uint32
	own   []Own
	held  []Change
}

// Known tells that the tables were read back as they were at a generation
// (Generation said so before and after the reading); changes up to it are of
// no more interest.
func (l *Ledger) Known(generation uint32) { l.known = generation }

// Wrote tells of a write of ours: the generations before and after. Equal ones
// are a write that changed nothing.
func (l *Ledger) Wrote(before, after uint32) {
	if before != after {
		l.own = append(l.own, Own{before, after})
	}
}

// Judge judges what Journal.Take returned. Changes in a write of ours that
// others wrote during, too, wait until all of its generations have been seen;
// the kernel has queued all but the last by the time we know of the write, so
// that is a matter of microseconds.
func (l *Ledger) Judge(changes []Change, seen uint32) Verdict {
	var ready, held []Change
	for _, c := range append(l.held, changes...) {
		switch {
		case !later(c.Last, l.known):
		case l.undecided(c, seen):
			held = append(held, l.trim(c))
		default:
			ready = append(ready, l.trim(c))
		}
	}
	v := Judge(l.own, ready)
	l.held = held
	l.own = slices.DeleteFunc(l.own, func(o Own) bool { return !later(o.After, seen) })
	return v
}

// undecided reports that a change is in, or behind the beginning of, a write
// whose generations have not all been seen.
func (l *Ledger) undecided(c Change, seen uint32) bool {
	return slices.ContainsFunc(l.own, func(o Own) bool {
		return later(o.After, seen) && later(c.Last, o.Before)
	})
}

// trim cuts what is known already off a gap.
func (l *Ledger) trim(c Change) Change {
	if c.Lost && !later(c.First, l.known) {
		c.First = nextGeneration(l.known)
	}
	return c
}
