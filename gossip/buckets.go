package gossip

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"sort"

	"pointsman/state"
)

// Entry is what an observer says about one Check.
type Entry struct {
	Key     state.CheckKey
	Verdict state.Verdict
	Failure state.Failure
}

// A version orders what one observer says: its incarnation, which it counts up
// on disk at each start, and a sequence number in it.
type version uint64

func versionOf(incarnation uint32, sequence uint32) version {
	return version(incarnation)<<32 | version(sequence)
}

func (v version) incarnation() uint32 { return uint32(v >> 32) }

// maxLeap is how far an incarnation or a drain's version may be ahead of the
// last known one. Without a bound, one bad message could make the last possible
// number the newest for ever. Incarnations are counts of starts and not time,
// for which such a bound comes true some day (scylla#5164).
const maxLeap = 1 << 20

// A region is all the keys that begin with the same bits.
type region struct {
	start uint64 // the first key
	bits  uint8  // how many of its bits are given, at most 64
}

// last gives the region's last key.
func (r region) last() uint64 {
	if r.bits >= 64 {
		return r.start
	}
	return r.start | math.MaxUint64>>r.bits
}

func (r region) valid() bool {
	return r.bits <= 64 && (r.bits == 64 || r.start&(math.MaxUint64>>r.bits) == 0)
}

func (r region) contains(key uint64) bool { return r.start <= key && key <= r.last() }

// covers tells whether all of o is in r. Two regions are nested or disjoint.
func (r region) covers(o region) bool { return r.bits <= o.bits && r.contains(o.start) }

func (r region) overlaps(o region) bool { return r.covers(o) || o.covers(r) }

// halves splits a region, whose bits are fewer than 64.
func (r region) halves() (low, high region) {
	low = region{r.start, r.bits + 1}
	return low, region{r.start | 1<<(63-r.bits), r.bits + 1}
}

// compareRegions orders by first key, a region before those in it.
func compareRegions(a, b region) int {
	if a.start != b.start {
		return cmp.Compare(a.start, b.start)
	}
	return cmp.Compare(a.bits, b.bits)
}

// A bucket is what an observer says about a region: the checks there that it
// does not call up. It's immutable, and kept as the bytes that were sent, so
// that what is passed on is what its observer said.
type bucket struct {
	observer string
	region   region
	version  version
	blank    bool   // the observer says nothing about the region
	sum      uint64 // of the message
	message  []byte
	entries  []byte // part of the message: 9 bytes each, by key
}

// bucketOverhead is what a bucket takes beside its message, about.
const bucketOverhead = 160

const (
	entrySize  = 9
	flagBlank  = 1
	bucketHead = 2 + 1 + 8 + 1 + 8 + 1 + 2 // without the name
)

// bucketCapacity is how many entries a bucket of an observer may have.
func bucketCapacity(observer string) int {
	return (maxPacket - bucketHead - len(observer)) / entrySize
}

// newBucket makes the message of entries, which are sorted and in the region.
func newBucket(observer string, v version, r region, entries []Entry) *bucket {
	return encodeBucket(observer, v, r, 0, entries)
}

func newBlank(observer string, v version, r region) *bucket {
	return encodeBucket(observer, v, r, flagBlank, nil)
}

func encodeBucket(observer string, v version, r region, flags byte, entries []Entry) *bucket {
	m := appendStr8(begin(kindBucket), observer)
	m = append(appendU64(m, uint64(v)), r.bits)
	m = append(appendU64(m, r.start), flags)
	m = binary.BigEndian.AppendUint16(m, uint16(len(entries)))
	at := len(m)
	m = appendEntries(m, entries)
	return &bucket{observer: observer, region: r, version: v, blank: flags&flagBlank != 0,
		sum: sum64(m), message: m, entries: m[at:]}
}

// appendEntries encodes entries: the key and one byte, whose two low bits are
// the verdict and the others the Failure.
func appendEntries(b []byte, entries []Entry) []byte {
	for _, e := range entries {
		b = append(appendU64(b, uint64(e.Key)), byte(e.Verdict&3)|byte(e.Failure)<<2)
	}
	return b
}

func decodeEntry(b []byte) Entry {
	e := Entry{Key: state.CheckKey(binary.BigEndian.Uint64(b)), Verdict: state.Verdict(b[8] & 3), Failure: state.Failure(b[8] >> 2)}
	if e.Verdict > state.Down {
		e.Verdict = state.Unknown // a later release's
	}
	return e
}

// decodeBucket reads a bucket; it keeps the message.
func decodeBucket(message []byte) (*bucket, bool) {
	k, r, ok := open(message)
	if !ok || k != kindBucket || len(message) > maxPacket {
		return nil, false
	}
	b := &bucket{observer: r.name(), version: version(r.u64()), message: message, sum: sum64(message)}
	b.region.bits, b.region.start = r.u8(), r.u64()
	b.blank = r.u8()&flagBlank != 0
	b.entries = r.take(r.u16() * entrySize)
	return b, !r.bad && b.region.valid() && b.ordered()
}

// ordered tells whether the entries are in the region, and in strict order.
func (b *bucket) ordered() bool {
	for i := range b.len() {
		key := b.key(i)
		if !b.region.contains(key) || i > 0 && key <= b.key(i-1) {
			return false
		}
	}
	return true
}

func (b *bucket) len() int { return len(b.entries) / entrySize }

func (b *bucket) key(i int) uint64 { return binary.BigEndian.Uint64(b.entries[i*entrySize:]) }

func (b *bucket) entry(i int) Entry { return decodeEntry(b.entries[i*entrySize:]) }

func (b *bucket) get(key uint64) (Entry, bool) {
	i := sort.Search(b.len(), func(i int) bool { return b.key(i) >= key })
	if i == b.len() || b.key(i) != key {
		return Entry{}, false
	}
	return b.entry(i), true
}

// newer is a total order. The sum only decides between what an observer that
// lost its state dir said under one number twice.
func (b *bucket) newer(o *bucket) bool {
	return cmp.Or(cmp.Compare(b.version, o.version), cmp.Compare(b.sum, o.sum)) > 0
}

// buckets is what is known of a record, by region, and immutable: of the
// buckets that were heard, those that are the newest word about at least one
// key. For each key the newest of all heard is the one that counts. So the set
// depends on which were heard and not on their order, and hearing one twice
// changes nothing.
//
// An observer that splits or joins regions needs no more than that: what the
// new regions cover together goes, as soon as all of them have come.
type buckets []*bucket

// merge gives the set with b, and whether b is news.
func (s buckets) merge(b *bucket) (buckets, bool) {
	if !s.wants(b) {
		return s, false
	}
	at, _ := slices.BinarySearchFunc(s, b.region, findRegion)
	all := slices.Insert(slices.Clone(s), at, b)
	kept := make(buckets, 0, len(all))
	for _, o := range all {
		if o == b || !o.region.overlaps(b.region) || !all.outdated(o) {
			kept = append(kept, o)
		}
	}
	return kept, true
}

func findRegion(b *bucket, r region) int { return compareRegions(b.region, r) }

// wants tells whether b would be news.
func (s buckets) wants(b *bucket) bool {
	at, found := slices.BinarySearchFunc(s, b.region, findRegion)
	return !(found && s[at].sum == b.sum) && !s.outdated(b)
}

// outdated tells whether the set has a newer word than b's about each key of
// b's region.
func (s buckets) outdated(b *bucket) bool {
	next := b.region.start // the first key that may be open
	for o := range s.overlapping(b.region) {
		switch {
		case !o.newer(b):
			continue
		case o.region.start > next:
			return false
		case o.region.last() >= b.region.last():
			return true
		}
		next = max(next, o.region.last()+1)
	}
	return false
}

// overlapping gives the buckets whose regions overlap r, by first key.
func (s buckets) overlapping(r region) iter.Seq[*bucket] {
	return func(yield func(*bucket) bool) {
		for bits := range r.bits { // those around r
			around := region{r.start &^ (math.MaxUint64 >> bits), bits}
			at, found := slices.BinarySearchFunc(s, around, findRegion)
			if found && !yield(s[at]) {
				return
			}
		}
		at, _ := slices.BinarySearchFunc(s, r, findRegion)
		for ; at < len(s) && s[at].region.start <= r.last(); at++ { // r, and those in it
			if !yield(s[at]) {
				return
			}
		}
	}
}

// lengths gives how many bits the regions of the set have, each number once.
func (s buckets) lengths() []uint8 {
	var all []uint8
	for _, b := range s {
		if !slices.Contains(all, b.region.bits) {
			all = append(all, b.region.bits)
		}
	}
	return all
}

// word gives the newest bucket about a key, nil where none is known. It's given
// the set's lengths, since there are few of them.
func (s buckets) word(key uint64, lengths []uint8) *bucket {
	var newest *bucket
	for _, bits := range lengths {
		r := region{key &^ (math.MaxUint64 >> bits), bits} // a shift by 64 gives 0
		at, found := slices.BinarySearchFunc(s, r, findRegion)
		if found && (newest == nil || s[at].newer(newest)) {
			newest = s[at]
		}
	}
	return newest
}

// sum is the XOR of the buckets'.
func (s buckets) sum() uint64 {
	var sum uint64
	for _, b := range s {
		sum ^= b.sum
	}
	return sum
}

// size is about how many bytes the set takes.
func (s buckets) size() int {
	n := 0
	for _, b := range s {
		n += len(b.message) + bucketOverhead
	}
	return n
}

// complete tells whether something is known about each key.
func (s buckets) complete() bool {
	all := &bucket{} // older than any
	return s.outdated(all)
}
