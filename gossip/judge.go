package gossip

import (
	"slices"
	"time"

	"pointsman/state"
)

// holdFor is how long a verdict outlives the last fresh vote.
const holdFor = 5 * time.Minute

// judge folds the votes of the observers that are asked into a Judgement, given
// the former one (nil if there is none). A vote whose verdict is Unknown isn't a
// fresh one. The result keeps no hold of votes; it's nil where there is nothing
// to say.
//
// DOWN needs min(2, observers asked) votes and more than half of the fresh ones.
// It's UP with a fresh vote for it otherwise. Where neither is so (nobody has a
// fresh vote, or too few that say down and none that says up) the former verdict
// holds for a while, and is Unknown then, which is usable: that nobody knows is
// no reason to take an endpoint out.
func judge(former *state.Judgement, votes []state.Vote, now time.Time) *state.Judgement {
	up, down := tallyVotes(votes)
	switch {
	case down >= min(2, len(votes)) && down > up:
		return decided(former, state.Down, votes, now)
	case up > 0:
		return decided(former, state.Up, votes, now)
	case former == nil && len(votes) == 0:
		return nil
	case former == nil:
		return &state.Judgement{Since: now, Votes: votes, Untried: true}
	}
	next := *former
	next.Votes = votes
	switch {
	case next.Untried || next.Verdict == state.Unknown:
	case !next.Held:
		next.Held, next.Until = true, now.Add(holdFor)
	case !now.Before(next.Until):
		next = state.Judgement{Since: next.Until, Votes: votes}
	}
	return &next
}

func tallyVotes(votes []state.Vote) (up, down int) {
	for _, v := range votes {
		switch v.Verdict {
		case state.Up:
			up++
		case state.Down:
			down++
		}
	}
	return up, down
}

func decided(former *state.Judgement, v state.Verdict, votes []state.Vote, now time.Time) *state.Judgement {
	j := &state.Judgement{Verdict: v, Since: now, Votes: votes}
	if former != nil && former.Verdict == v {
		j.Since = former.Since
	}
	return j
}

// sameJudgement reports whether two Judgements say the same, evidence included.
func sameJudgement(a, b *state.Judgement) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Verdict == b.Verdict && a.Since.Equal(b.Since) && a.Untried == b.Untried &&
		a.Held == b.Held && a.Until.Equal(b.Until) && a.Unconfirmed == b.Unconfirmed &&
		slices.Equal(a.Votes, b.Votes)
}
