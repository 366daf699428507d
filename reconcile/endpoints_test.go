package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// ep reads an endpoint: a number, then words: r(eady), s(erving), t(erminating),
// node=, zone=, hn= (hinted node), hz= (hinted zone).
func ep(text string) state.Endpoint {
	words := strings.Fields(text)
	e := state.Endpoint{Address: netip.MustParseAddrPort(fmt.Sprintf("10.20.0.%s:80", words[0]))}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "r":
			e.Ready, e.Serving = true, true
		case "s":
			e.Serving = true
		case "t":
			e.Terminating = true
		case "node":
			e.NodeName = value
		case "hn":
			e.HintNodes = strings.Split(value, ",")
		case "hz":
			e.HintZones = strings.Split(value, ",")
		}
	}
	return e
}

// last gives the last bytes of addresses.
func last(addrs []netip.AddrPort) string {
	var out []string
	for _, a := range addrs {
		out = append(out, fmt.Sprint(a.Addr().As4()[3]))
	}
	return strings.Join(out, " ")
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name, endpoints, cluster, local string
	}{
		{"ready ones", "1 r node=n1; 2 r node=n2; 3 node=n1", "1 2", "1"},
		{"none", "1 node=n1; 2", "", ""},
		{"serving alone is not enough", "1 s node=n1", "", ""},
		// KEP-1669.
		{"terminating while no ready one is left", "1 s t node=n1; 2 s t node=n2; 3 t", "1 2", "1"},
		{"ready ones elsewhere, terminating ones here", "1 s t node=n1; 2 r node=n2", "2", "1"},
		{"terminating and not serving", "1 t node=n1", "", ""},
		{"ready though terminating (publishNotReadyAddresses)", "1 r t node=n1; 2 r", "1 2", "1"},
		// KEP-2433.
		{"zone hints", "1 r hz=a; 2 r hz=b; 3 r hz=a,b", "1 3", ""},
		{"no hint of ours", "1 r hz=b; 2 r hz=c", "1 2", ""},
		{"one has no hint", "1 r hz=a; 2 r hz=b; 3 r", "1 2 3", ""},
		{"one that isn't ready has no hint", "1 r hz=a; 2 r hz=b; 3", "1", ""},
		// Node hints come first.
		{"node hints", "1 r hn=n1 hz=a; 2 r hn=n2 hz=a; 3 r hn=n3 hz=b", "1", ""},
		{"no node hint of ours", "1 r hn=n2 hz=a; 2 r hn=n3 hz=b", "1", ""},
		{"neither", "1 r hn=n2 hz=b; 2 r hn=n3 hz=c", "1 2", ""},
		{"hints don't count for policy Local", "1 r node=n1 hz=b; 2 r node=n2 hz=a", "2", "1"},
		{"nor for terminating ones", "1 s t hz=a; 2 s t hz=b", "1 2", ""},
		{"no node is not this node", "1 r; 2 r node=", "1 2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var endpoints []state.Endpoint
			for _, text := range strings.Split(c.endpoints, ";") {
				endpoints = append(endpoints, ep(text))
			}
			got := choose(endpoints, false, Node{Name: "n1", Zone: "a"})
			if last(got.cluster) != c.cluster || last(got.local) != c.local {
				t.Errorf("cluster %q, want %q; local %q, want %q", last(got.cluster), c.cluster, last(got.local), c.local)
			}
			if other := choose(endpoints, true, Node{Name: "n1"}); len(other.cluster)+len(other.local) > 0 {
				t.Errorf("of the other family: %v", other)
			}
		})
	}
}

// TestChooseNamelessNode: a host without a name has no local endpoints, and an
// empty hint is nobody's.
func TestChooseNamelessNode(t *testing.T) {
	got := choose([]state.Endpoint{ep("1 r"), ep("2 r node=n1")}, false, Node{})
	if last(got.cluster) != "1 2" || last(got.local) != "" {
		t.Errorf("%+v", got)
	}
}

func genSlots(t *rapid.T) (held map[int]string, want []string) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	held = rapid.MapOf(rapid.IntRange(0, 10), name).Draw(t, "held") // repeats, too: anybody may have written there
	want = rapid.SliceOfNDistinct(name, 0, 8, rapid.ID[string]).Draw(t, "want")
	slices.Sort(want)
	return held, want
}

// TestPlace: the slots are filled without gaps by exactly the wanted; who is
// wanted and held below their number doesn't move; the result is a function.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		held, want := genSlots(t)
		before := maps.Clone(held)
		got := place(held, want)
		if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, want) {
			t.Fatalf("got %q", got)
		}
		seen := map[string]bool{}
		for _, slot := range slices.Sorted(maps.Keys(held)) {
			e := held[slot]
			if slot < len(want) && slices.Contains(want, e) && !seen[e] && got[slot] != e {
				t.Fatalf("%s left slot %d: %q", e, slot, got)
			}
			seen[e] = true
		}
		if !slices.Equal(place(held, want), got) || !maps.Equal(held, before) {
			t.Fatal("not a function")
		}
	})
}

// TestSettle: everybody has a number of their own; who is wanted and held
// keeps one that they hold; a new one never gets a number that is held.
func TestSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		held, want := genSlots(t)
		number, fresh := settle(held, want)
		taken := map[int]string{}
		for _, e := range want {
			slot, ok := number[e]
			if !ok || taken[slot] != "" {
				t.Fatalf("%s has %d (%v), as %q", e, slot, ok, taken[slot])
			}
			taken[slot] = e
			was := slices.Contains(slices.Collect(maps.Values(held)), e)
			if was && held[slot] != e || !was && (held[slot] != "" || !slices.Contains(fresh, slot)) {
				t.Fatalf("%s has slot %d of %v", e, slot, held)
			}
		}
		if len(number) != len(want) {
			t.Fatalf("numbers: %v", number)
		}
		for _, slot := range fresh {
			if held[slot] != "" || taken[slot] == "" {
				t.Fatalf("fresh: %v", fresh)
			}
		}
		if n2, f2 := settle(held, want); !maps.Equal(n2, number) || !slices.Equal(f2, fresh) {
			t.Fatal("not a function")
		}
	})
}
