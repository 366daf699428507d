package gossip

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

func TestIsolated(t *testing.T) {
	for _, c := range []struct {
		known, live int
		want        bool
	}{
		{1, 1, false}, // a host alone
		{2, 1, false}, // which of two is cut off?
		{3, 1, true},
		{3, 2, false},
		{4, 1, true},
		{4, 2, false}, // two halves: both go on
		{5, 2, true},
		{5, 3, false},
		{1000, 499, true},
		{1000, 500, false},
	} {
		if got := Isolated(c.known, c.live); got != c.want {
			t.Errorf("sees %d of %d: %v", c.live, c.known, got)
		}
	}
}

// However a fleet of three or more falls in two, at most one part is isolated:
// so some part always goes on together.
func TestOnePartGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.IntRange(3, 2000).Draw(t, "known")
		part := rapid.IntRange(1, known-1).Draw(t, "part")
		if Isolated(known, part) && Isolated(known, known-part) {
			t.Fatalf("%d and %d are both isolated", part, known-part)
		}
	})
}

func TestElsewhere(t *testing.T) {
	for letters, want := range map[string]state.Verdict{ // the first one is this host
		"duu": state.Up, "udd": state.Down, "ddu": state.Unknown, "d--": state.Unknown,
		"du-": state.Up, "d": state.Unknown, "u-d": state.Down,
	} {
		if got := Elsewhere(hosts(1)[0], votes(letters)); got != want {
			t.Errorf("%s: %v", letters, got)
		}
	}
}

// sightings reads targets, one word an address, one pair of letters a target:
// what this host says, and what others say.
func sightings(text string) []Sighting {
	verdicts := map[byte]state.Verdict{'u': state.Up, 'd': state.Down}
	var out []Sighting
	for i, word := range strings.Fields(text) {
		for ; word != ""; word = word[2:] {
			address := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			out = append(out, Sighting{Address: address, Mine: verdicts[word[0]], Elsewhere: verdicts[word[1]]})
		}
	}
	return out
}

func TestBlind(t *testing.T) {
	for _, c := range []struct {
		name, seen string
		want       bool
	}{
		{"all fail here alone", "dudu dudu dudu dudu", true},
		{"five of eight", "dudu dudu duuu uuuu", true},
		{"just half", "dudu dudu uuuu uuuu", false},
		{"they fail elsewhere too", "dddd dddd dddd dddd", false},
		{"nobody else has a word", "d-d- d-d- d-d- d-d-", false},
		{"seven targets", "dudu dudu dudu du", false},
		{"three addresses", "dududu dududu dudu", false},
		{"a firewall before one address", "dududududu uu uu uu", false},
		{"all is well", "uuuu uuuu uuuu uuuu", false},
		{"no targets", "", false},
	} {
		if got := Blind(sightings(c.seen)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestMassDeath(t *testing.T) {
	for _, c := range []struct {
		known int
		died  []int // after so many seconds
		want  string
	}{
		{2, []int{0}, ""}, // of two, one is no mass
		{3, []int{0}, ""}, // just a third
		{3, []int{0, 30}, "h0 h1"},
		{3, []int{0, 31}, ""},
		{9, []int{0, 10, 20}, ""},
		{9, []int{0, 10, 20, 30}, "h0 h1 h2 h3"},
		{9, []int{0, 10, 20, 31}, ""},
		// Those of another day are ordinary dead.
		{9, []int{0, 1000, 1001, 1002, 1003}, "h1 h2 h3 h4"},
		// In one window or another.
		{9, []int{0, 15, 16, 17, 40}, "h0 h1 h2 h3 h4"},
		{9, nil, ""},
	} {
		died := map[string]time.Time{}
		for i, after := range c.died {
			died[fmt.Sprintf("h%d", i)] = noon.Add(time.Duration(after) * time.Second)
		}
		if got := strings.Join(MassDeath(c.known, died), " "); got != c.want {
			t.Errorf("%v of %d: got %q, want %q", c.died, c.known, got, c.want)
		}
	}
}
