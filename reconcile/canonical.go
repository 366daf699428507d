package reconcile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pointsman/reconcile/nft"
)

// Canonical gives a ruleset's elements as sorted lines without what is only
// this host's history: which endpoint is in which slot, sticky slot numbers,
// clients, and chains that nothing refers to. Two rulesets of one program mean
// the same if and only if their lines are equal.
func Canonical(groups map[string]*nft.Group) []string {
	var lines []string
	for _, g := range groups {
		for _, e := range *g {
			lines = append(lines, canonicalElement(e))
		}
	}
	slices.Sort(lines)
	return lines
}

var (
	recordVerdict = regexp.MustCompile(`^jump record-\d+-`)
	stickyVerdict = regexp.MustCompile(`^(goto sticky-[a-z]+-(?:local-)?\d+)-\d+$`)
)

func canonicalElement(e nft.Element) string {
	if _, ok := slotOf(e); ok {
		e.Key = e.Key[:strings.LastIndex(e.Key, " . ")]
	}
	e.Value = recordVerdict.ReplaceAllString(e.Value, "jump record-")
	e.Value = stickyVerdict.ReplaceAllString(e.Value, "$1")
	return fmt.Sprintf("%s { %s : %s }", e.Set, e.Key, e.Value)
}

// slotOf gives the slot number at the end of an element's key, if its set has
// one.
func slotOf(e nft.Element) (int, bool) {
	for i := range schema.Sets {
		if s := &schema.Sets[i]; s.Name == e.Set && s.Key[len(s.Key)-1] == nft.Slot {
			n, err := strconv.Atoi(e.Key[strings.LastIndex(e.Key, " ")+1:])
			return n, err == nil
		}
	}
	return 0, false
}
