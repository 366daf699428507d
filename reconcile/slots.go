package reconcile

import (
	"maps"
	"slices"
)

// place puts endpoints into the slots 0..len(want)-1 so that as few as
// possible move: those that stay keep their slot, the slots of those that
// left go to the ones from the last slots and then to new ones. It's a pure
// function of what is held and what is wanted (sorted, no repeats).
func place(held map[int]string, want []string) []string {
	slots := make([]string, len(want))
	placed := make(map[string]bool, len(want))
	for _, slot := range slices.Sorted(maps.Keys(held)) {
		e := held[slot]
		if _, wanted := slices.BinarySearch(want, e); wanted && slot < len(slots) && !placed[e] {
			slots[slot] = e
			placed[e] = true
		}
	}
	rest := homeless(held, want, placed)
	for i := range slots {
		if slots[i] == "" {
			slots[i], rest = rest[0], rest[1:]
		}
	}
	return slots
}

// homeless gives the wanted endpoints that have no slot yet: first those that
// were held in a slot that is no more, then new ones.
func homeless(held map[int]string, want []string, placed map[string]bool) []string {
	var rest []string
	for _, slot := range slices.Sorted(maps.Keys(held)) {
		e := held[slot]
		if _, wanted := slices.BinarySearch(want, e); wanted && !placed[e] {
			rest = append(rest, e)
			placed[e] = true
		}
	}
	for _, e := range want {
		if !placed[e] {
			rest = append(rest, e)
		}
	}
	return rest
}

// settle gives endpoints lasting slot numbers: one that stays keeps its
// number, since its clients are remembered by it, and a new one gets the
// lowest number that isn't in use now. fresh are the numbers that are given
// anew.
func settle(held map[int]string, want []string) (number map[string]int, fresh []int) {
	number = make(map[string]int, len(want))
	for _, slot := range slices.Sorted(maps.Keys(held)) {
		e := held[slot]
		if _, wanted := slices.BinarySearch(want, e); !wanted {
			continue
		}
		if _, twice := number[e]; !twice {
			number[e] = slot
		}
	}
	next := 0
	for _, e := range want {
		if _, ok := number[e]; ok {
			continue
		}
		for held[next] != "" {
			next++
		}
		number[e] = next
		fresh = append(fresh, next)
		next++
	}
	return number, fresh
}
