package gossip

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

func hosts(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	return names
}

func TestAssign(t *testing.T) {
	probed := func(home string, from ...string) *state.Check {
		return &state.Check{Key: 25, Probe: &state.Probe{}, Home: home, From: from}
	}
	bare := func(home string, p state.Protocol) *state.Check {
		return &state.Check{Key: 25, Home: home, Protocol: p}
	}
	nobody := probed("")
	nobody.From = []string{}
	five := Fleet{Live: []string{"a", "b", "c", "d", "e"}, Dead: []string{"x", "y"}, Spared: []string{"y"}}
	for _, c := range []struct {
		name  string
		check *state.Check
		fleet Fleet
		want  string
	}{
		// By rendezvous hashing, key 25 prefers c, then d, e, a and b.
		{"no home", probed(""), five, "c d e"},
		{"a live home, and two others", probed("b"), five, "b c d"},
		{"a live home that's among the first", probed("d"), five, "c d e"},
		{"a dead home", probed("x"), five, "c d e"},
		{"a home that's no member", probed("z"), five, "c d e"},
		{"two hosts", probed("b"), Fleet{Live: []string{"a", "b"}}, "a b"},
		{"a host alone", probed("z"), Fleet{Live: []string{"a"}}, "a"},
		{"named twice", probed("z"), Fleet{Live: []string{"a", "b", "a"}}, "a b"},
		{"some may probe", probed("", "b", "d", "e", "z"), five, "b d e"},
		{"the home is one of them", probed("b", "a", "b", "c", "d"), five, "b c d"},
		{"the home is none of them", probed("b", "a", "c"), five, "a c"},
		{"none of them lives", probed("b", "x", "z"), five, "nobody"},
		{"nobody may", nobody, five, "nobody"},
		{"a host alone that may not", probed("", "b"), Fleet{Live: []string{"a"}}, "nobody"},

		{"no probe, and the home lives", bare("b", state.TCP), five, "none"},
		{"no probe, and the home is dead", bare("x", state.TCP), five, "c d e at once"},
		{"the same for UDP", bare("x", state.UDP), five, "c d e at once"},
		{"many homes died", bare("y", state.TCP), five, "c d e at once"},
		{"the same for UDP", bare("y", state.UDP), five, "none"},
		{"no probe, and a home that's no member", bare("z", state.TCP), five, "nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			duty, there := Assign([]*state.Check{c.check}, c.fleet)[25]
			got := strings.Join(duty.Observers, " ")
			switch {
			case !there:
				got = "none"
			case got == "":
				got = "nobody"
			}
			if duty.Urgent {
				got += " at once"
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func drawChecks(t *rapid.T, names []string) []*state.Check {
	keys := rapid.SliceOfNDistinct(rapid.Uint64(), 1, 30, rapid.ID[uint64]).Draw(t, "keys")
	var checks []*state.Check
	for _, k := range keys {
		c := &state.Check{Key: state.CheckKey(k), Protocol: state.TCP, Home: rapid.SampledFrom(append(names, "")).Draw(t, "home")}
		if rapid.IntRange(0, 3).Draw(t, "probed") > 0 {
			c.Probe = &state.Probe{}
		}
		if rapid.IntRange(0, 3).Draw(t, "narrowed") == 0 {
			c.From = slices.DeleteFunc(slices.Clone(names), func(string) bool { return rapid.Bool().Draw(t, "not this") })
		}
		checks = append(checks, c)
	}
	return checks
}

// All hosts that see the same fleet agree, whatever order they hear of it in,
// and what they agree on is sound.
func TestAssignAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := hosts(rapid.IntRange(1, 12).Draw(t, "hosts"))
		checks := drawChecks(t, names)
		live := rapid.Permutation(names).Draw(t, "order")[:rapid.IntRange(1, len(names)).Draw(t, "live")]
		got := Assign(checks, Fleet{Live: live})
		if other := Assign(rapid.Permutation(checks).Draw(t, "checks"), Fleet{Live: slices.Sorted(slices.Values(live))}); !maps.EqualFunc(got, other, sameDuty) {
			t.Fatal("two hosts differ")
		}
		for _, c := range checks {
			asked := got[c.Key].Observers
			may := slices.DeleteFunc(slices.Clone(live), func(n string) bool { return c.From != nil && !slices.Contains(c.From, n) })
			if c.Probe == nil {
				may = nil
			}
			if len(asked) != min(3, len(may)) || !slices.IsSorted(asked) || len(slices.Compact(slices.Clone(asked))) != len(asked) {
				t.Fatalf("asked %v of %v", asked, may)
			}
			for _, name := range asked {
				if !slices.Contains(may, name) || !got.Of(name, c.Key) {
					t.Fatalf("asked %v of %v", asked, may)
				}
			}
			if slices.Contains(may, c.Home) && !slices.Contains(asked, c.Home) {
				t.Fatalf("home %s is not asked: %v", c.Home, asked)
			}
		}
	})
}

func sameDuty(a, b Duty) bool { return a.Urgent == b.Urgent && slices.Equal(a.Observers, b.Observers) }

// A host that joins takes over its own share and moves nothing else; the other
// way around when it leaves.
func TestAssignMovesLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := hosts(rapid.IntRange(2, 12).Draw(t, "hosts"))
		checks := drawChecks(t, names)
		joins := rapid.IntRange(0, len(names)-1).Draw(t, "joins")
		before := Assign(checks, Fleet{Live: slices.Delete(slices.Clone(names), joins, joins+1)})
		after := Assign(checks, Fleet{Live: names})
		for _, c := range checks {
			was, is := before[c.Key].Observers, after[c.Key].Observers
			lost := slices.DeleteFunc(slices.Clone(was), func(n string) bool { return slices.Contains(is, n) })
			won := slices.DeleteFunc(slices.Clone(is), func(n string) bool { return slices.Contains(was, n) })
			if len(won) > 1 || len(won) == 1 && won[0] != names[joins] || len(lost) > len(won) {
				t.Fatalf("%s joins: %v become %v", names[joins], was, is)
			}
		}
	})
}

// The work is shared out evenly: each of 20 hosts gets its twentieth of 60,000,
// give or take six standard deviations.
func TestAssignSpreadsEvenly(t *testing.T) {
	got := map[string]int{}
	for _, d := range Assign(manyChecks(20_000, nil), Fleet{Live: hosts(20)}) {
		for _, name := range d.Observers {
			got[name]++
		}
	}
	for name, n := range got {
		if n < 2700 || n > 3300 {
			t.Errorf("%s has %d of 60000", name, n)
		}
	}
}

func TestGeneration(t *testing.T) {
	checks := manyChecks(3, nil)
	turned := []*state.Check{checks[2], checks[0], checks[1]}
	if Generation(checks) != Generation(turned) || Generation(checks) == Generation(checks[:2]) || Generation(nil) != 0 {
		t.Error("it should depend on all checks, and not on their order")
	}
}

func manyChecks(n int, homes []string) []*state.Check {
	checks := make([]*state.Check, n)
	for i := range checks {
		checks[i] = &state.Check{Key: state.CheckKey(mix(uint64(i + 1))), Probe: &state.Probe{}}
		if len(homes) > 0 {
			checks[i].Home = homes[i%len(homes)]
		}
	}
	return checks
}

func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		names := hosts(n)
		checks := manyChecks(100_000, names)
		b.Run(fmt.Sprintf("100000checks/%dhosts", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Assign(checks, Fleet{Live: names})
			}
		})
	}
}
