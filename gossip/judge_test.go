package gossip

import (
	"strings"
	"testing"
	"time"

	"pointsman/state"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// votes reads a letter for each observer that is asked: u(p), d(own) or - for
// no fresh vote.
func votes(letters string) []state.Vote {
	var out []state.Vote
	for i, l := range strings.ReplaceAll(letters, " ", "") {
		verdict := map[rune]state.Verdict{'u': state.Up, 'd': state.Down}[l]
		out = append(out, state.Vote{Observer: hosts(3)[i], Verdict: verdict})
	}
	return out
}

func TestJudge(t *testing.T) {
	up, down := &state.Judgement{Verdict: state.Up}, &state.Judgement{Verdict: state.Down}
	untried := &state.Judgement{Untried: true}
	lapsed := &state.Judgement{}
	restored := &state.Judgement{Verdict: state.Down, Held: true, Until: noon.Add(time.Minute), Unconfirmed: true}
	expired := &state.Judgement{Verdict: state.Down, Held: true, Until: noon, Unconfirmed: true}
	for _, c := range []struct {
		votes  string
		former *state.Judgement
		want   string
	}{
		// A host alone.
		{"u", nil, "up"},
		{"d", nil, "down"},
		{"d", up, "down"},
		// Two of two, or nothing.
		{"ud", up, "up"},
		{"dd", up, "down"},
		{"d-", up, "up held"},
		{"u-", down, "up"},
		// A majority of three.
		{"uud", nil, "up"},
		{"udd", nil, "down"},
		{"ddd", nil, "down"},
		// Ties are up, and one alone takes nothing out.
		{"ud-", down, "up"},
		{"dd-", up, "down"},
		{"d--", up, "up held"},
		{"d--", down, "down held"},
		{"d--", nil, "untried"},
		// One is enough to say that it's up.
		{"u--", down, "up"},
		{"u--", nil, "up"},
		{"u--", untried, "up"},
		// Nobody has a word.
		{"---", up, "up held"},
		{"---", down, "down held"},
		{"---", nil, "untried"},
		{"---", untried, "untried"},
		{"---", lapsed, "unknown"},
		{"", up, "up held"},
		{"", nil, "none"},
		// From before a restart.
		{"---", restored, "down held unconfirmed"},
		{"d--", restored, "down held unconfirmed"},
		{"dd-", restored, "down"},
		{"u--", restored, "up"},
		{"---", expired, "unknown"},
	} {
		if got := describe(judge(c.former, votes(c.votes), noon)); got != c.want {
			t.Errorf("%q after %s: got %s, want %s", c.votes, describe(c.former), got, c.want)
		}
	}
}

// describe writes a Judgement in words.
func describe(j *state.Judgement) string {
	if j == nil {
		return "none"
	}
	words := []string{j.Verdict.String()}
	if j.Untried {
		words = []string{"untried"}
	}
	if j.Held {
		words = append(words, "held")
	}
	if j.Unconfirmed {
		words = append(words, "unconfirmed")
	}
	return strings.Join(words, " ")
}

func TestJudgeHoldsForAWhile(t *testing.T) {
	j := judge(nil, votes("udd"), noon)
	for _, step := range []struct {
		votes string
		after time.Duration
		want  string
		since time.Duration
	}{
		{"udd", time.Minute, "down", 0},
		{"---", 2 * time.Minute, "down held", 0},
		{"d--", 3 * time.Minute, "down held", 0},
		{"---", 7*time.Minute - 1, "down held", 0},
		{"---", 8 * time.Minute, "unknown", 7 * time.Minute},
		{"d--", 9 * time.Minute, "unknown", 7 * time.Minute},
		{"uu-", 10 * time.Minute, "up", 10 * time.Minute},
	} {
		j = judge(j, votes(step.votes), noon.Add(step.after))
		if describe(j) != step.want || !j.Since.Equal(noon.Add(step.since)) {
			t.Errorf("after %v: %s since %v", step.after, describe(j), j.Since.Sub(noon))
		}
	}
}
