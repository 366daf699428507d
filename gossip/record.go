package gossip

import (
	"iter"
	"slices"

	"pointsman/state"
)

// Record is what one observer does not call up, as far as it's known here. It's
// immutable.
type Record struct {
	Observer    string
	Incarnation uint32 // how often the observer started; grows
	Generation  uint64 // of the manifests' checks that the record was made against

	// Complete tells that all which the observer says is known. It may be false
	// for a moment while news spread, or until they are fetched.
	Complete bool

	buckets buckets
	lengths []uint8
}

// Says gives the observer's word about a Check that it is asked about: Up if
// the record doesn't list it. It's false where the observer says nothing, or
// nothing that is known here.
func (r *Record) Says(k state.CheckKey) (Entry, bool) {
	b := r.buckets.word(uint64(k), r.lengths)
	if b == nil || b.blank {
		return Entry{Key: k}, false
	}
	if e, ok := b.get(uint64(k)); ok {
		return e, true
	}
	return Entry{Key: k, Verdict: state.Up}, true
}

// Entries gives what the record lists, by key.
func (r *Record) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, b := range r.buckets {
			for i := range b.len() {
				if r.buckets.word(b.key(i), r.lengths) == b && !yield(b.entry(i)) {
					return
				}
			}
		}
	}
}

// Changed gives the keys that a record and an earlier one of the same observer
// list differently, and all=true if others may differ too: the observer began
// or ceased to speak about a part of the keys, or its generation changed. Both
// may be nil.
func (r *Record) Changed(earlier *Record) (keys []state.CheckKey, all bool) {
	if r == earlier {
		return nil, false
	}
	if r == nil || earlier == nil || r.Generation != earlier.Generation || r.Complete != earlier.Complete {
		return nil, true
	}
	for _, b := range append(without(r.buckets, earlier.buckets), without(earlier.buckets, r.buckets)...) {
		if b.blank {
			return nil, true
		}
		for i := range b.len() {
			k := state.CheckKey(b.key(i))
			was, spoke := earlier.Says(k)
			is, speaks := r.Says(k)
			if was != is || spoke != speaks {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), !r.Complete
}

// without gives the buckets of s that o doesn't have.
func without(s, o buckets) buckets {
	var only buckets
	for _, b := range s {
		at, found := slices.BinarySearchFunc(o, b.region, findRegion)
		if !found || o[at] != b {
			only = append(only, b)
		}
	}
	return only
}

// partition splits r until each part's entries fit a bucket. The entries are
// sorted by key, and in r.
func partition(r region, entries []Entry, capacity int) iter.Seq2[region, []Entry] {
	return func(yield func(region, []Entry) bool) { split(r, entries, capacity, yield) }
}

func split(r region, entries []Entry, capacity int, yield func(region, []Entry) bool) bool {
	if len(entries) <= capacity {
		return yield(r, entries)
	}
	low, high := r.halves()
	at, _ := slices.BinarySearchFunc(entries, high.start, func(e Entry, key uint64) int {
		if uint64(e.Key) < key {
			return -1
		}
		return 1
	})
	return split(low, entries[:at], capacity, yield) && split(high, entries[at:], capacity, yield)
}
