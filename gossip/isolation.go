package gossip

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"pointsman/state"
)

const (
	// fewestMembers is from how many members on a majority means something.
	fewestMembers = 3

	blindTargets   = 8
	blindAddresses = 4

	massWindow = 30 * time.Second
)

// Isolated reports whether a host that sees live of the known members, itself
// among both, is cut off: fewer than half. Of two equal halves neither is.
func Isolated(known, live int) bool { return known >= fewestMembers && 2*live < known }

// Sighting is what this host's probe and the other observers say about one
// target that isn't on this host.
type Sighting struct {
	Address   netip.Addr
	Mine      state.Verdict
	Elsewhere state.Verdict // Elsewhere()
}

// Elsewhere gives what most of the fresh votes say that aren't this host's own:
// Unknown if there are none, or as many for as against.
func Elsewhere(self string, votes []state.Vote) state.Verdict {
	others := slices.DeleteFunc(slices.Clone(votes), func(v state.Vote) bool { return v.Observer == self })
	switch up, down := tallyVotes(others); {
	case up > down:
		return state.Up
	case down > up:
		return state.Down
	}
	return state.Unknown
}

// Blind reports whether a host's probes say more about itself than about their
// targets: of at least 8 targets on 4 addresses it calls more than half down
// that others call up, on more than half of the addresses. A dead rack looks
// different, since others see it too, and so does a firewall before one address.
// A host alone is never blind: nobody contradicts it.
func Blind(seen []Sighting) bool {
	addresses, failing, contradicted := map[netip.Addr]bool{}, map[netip.Addr]bool{}, 0
	for _, s := range seen {
		addresses[s.Address] = true
		if s.Mine == state.Down && s.Elsewhere == state.Up {
			failing[s.Address] = true
			contradicted++
		}
	}
	return len(seen) >= blindTargets && len(addresses) >= blindAddresses &&
		2*contradicted > len(seen) && 2*len(failing) > len(addresses)
}

// MassDeath gives those of the dead, sorted, that died with more than a third of
// the known members within 30 s: rather a fault of the network, or of a release,
// than of each of them. So their death says nothing about their backends
// (Fleet.Spared), whose own probes decide. It stays so until enough of them are
// back: those that are left then are ordinary dead.
func MassDeath(known int, died map[string]time.Time) []string {
	if known < fewestMembers {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(died), func(a, b string) int { return died[a].Compare(died[b]) })
	var together []string
	end, taken := 0, 0
	for i, first := range names { // a window begins with each death
		for end < len(names) && died[names[end]].Sub(died[first]) <= massWindow {
			end++
		}
		if 3*(end-i) > known {
			together = append(together, names[max(i, taken):end]...)
			taken = end
		}
	}
	slices.Sort(together)
	return together
}
