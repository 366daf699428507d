package gossip

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// aRegion draws regions that often overlap.
func aRegion(t *rapid.T) region {
	bits := rapid.SampledFrom([]uint8{0, 1, 1, 2, 2, 3, 3, 4, 63, 64}).Draw(t, "bits")
	r := region{bits: bits}
	for i := range min(bits, 4) {
		if rapid.Bool().Draw(t, "bit") {
			r.start |= 1 << (63 - i)
		}
	}
	return r
}

// someBuckets draws buckets of one observer, with what no sane observer says: a
// version twice, regions that overlap, other contents under one version.
func someBuckets(t *rapid.T) []*bucket {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *bucket {
		r := aRegion(t)
		v := version(rapid.IntRange(1, 12).Draw(t, "version"))
		if rapid.Bool().Draw(t, "listed") {
			return newBucket("n1", v, r, []Entry{{Key: state.CheckKey(r.last()), Verdict: state.Down}})
		}
		return newBucket("n1", v, r, nil)
	}), 1, 16).Draw(t, "buckets")
}

func mergeAll(all []*bucket) buckets {
	var s buckets
	for _, b := range all {
		s, _ = s.merge(b)
	}
	return s
}

// newestOf is what merging is to come to, for one key.
func newestOf(all []*bucket, key uint64) *bucket {
	var newest *bucket
	for _, b := range all {
		if b.region.contains(key) && (newest == nil || b.newer(newest)) {
			newest = b
		}
	}
	return newest
}

func shuffled(t *rapid.T, all []*bucket) []*bucket {
	twice := slices.Concat(all, all[:rapid.IntRange(0, len(all)).Draw(t, "doubles")])
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
	random.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
	return twice
}

// For each key the newest that was heard counts, whatever the order.
func TestMergeOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := someBuckets(t)
		one, other := mergeAll(all), mergeAll(shuffled(t, all))
		if one.sum() != other.sum() || len(one) != len(other) {
			t.Fatalf("%v and %v of the same buckets", one, other)
		}
		for i := range uint64(64) {
			for _, key := range []uint64{i << 58, i<<58 | 1<<58 - 1} {
				if got, want := one.word(key, one.lengths()), newestOf(all, key); (got == nil) != (want == nil) || got != nil && got.sum != want.sum {
					t.Fatalf("key %x: %v, want %v", key, got, want)
				}
			}
		}
	})
}

// Merging what two hosts hold is the same as hearing all that both heard.
func TestMergeIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := someBuckets(t), someBuckets(t)
		whole := mergeAll(slices.Concat(a, b))
		parts := mergeAll(slices.Concat(mergeAll(a), mergeAll(b)))
		if whole.sum() != parts.sum() {
			t.Fatalf("%v, want %v", parts, whole)
		}
		for _, b := range whole {
			if again, news := whole.merge(b); news || again.sum() != whole.sum() {
				t.Fatal("a bucket that is held is news")
			}
		}
	})
}

// What's kept is the newest word about some key, and is sorted.
func TestMergeKeepsNoMoreThanItNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := mergeAll(someBuckets(t))
		for i, b := range s {
			if s.outdated(b) {
				t.Fatalf("%v is outdated in %v", b, s)
			}
			if i > 0 && compareRegions(s[i-1].region, b.region) >= 0 {
				t.Fatalf("%v is out of order", s)
			}
		}
	})
}

func (b *bucket) String() string {
	return fmt.Sprintf("%x/%d v%d (%d)", b.region.start>>56, b.region.bits, b.version, b.len())
}

func someEntries(t *rapid.T, most int) []Entry {
	n := rapid.IntRange(0, most).Draw(t, "entries")
	dense := rapid.Bool().Draw(t, "dense") // keys side by side: the partition gets deep
	from := rapid.IntRange(0, 200).Draw(t, "from")
	var all []Entry
	for i := range n {
		key := scattered(from + i)
		if dense {
			key = state.CheckKey(from + i)
		}
		all = append(all, Entry{Key: key, Verdict: state.Down, Failure: state.Failure(i % 64)})
	}
	return sorted(all)
}

// The parts cover all keys, once, in order, and each fits.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := someEntries(t, 1000)
		capacity := rapid.IntRange(1, 200).Draw(t, "capacity")
		next, n := uint64(0), 0
		for r, part := range partition(region{}, entries, capacity) {
			if r.start != next || !r.valid() || len(part) > capacity {
				t.Fatalf("region %v with %d entries after key %x", r, len(part), next)
			}
			for _, e := range part {
				if !r.contains(uint64(e.Key)) || e != entries[n] {
					t.Fatalf("entry %v in %v", e, r)
				}
				n++
			}
			next = r.last() + 1
		}
		if next != 0 || n != len(entries) {
			t.Fatalf("%d of %d entries; the keys from %x on are in no part", n, len(entries), next)
		}
	})
}

func TestBucketsFitPackets(t *testing.T) {
	for _, name := range []string{"n", string(make([]byte, maxName))} {
		var entries []Entry
		for i := range bucketCapacity(name) {
			entries = append(entries, Entry{Key: state.CheckKey(i)})
		}
		if b := newBucket(name, 1, region{}, entries); len(b.message) > maxPacket || len(b.message) < maxPacket-entrySize {
			t.Errorf("%d entries of a name of %d bytes are %d bytes", len(entries), len(name), len(b.message))
		}
	}
}
