package gossip

import (
	"cmp"
	"math"
	"slices"
)

// writer is what this host itself says.
type writer struct {
	incarnation uint32
	sequence    uint32
	published   bool // something was said in this incarnation
	header      *header
	buckets     buckets // a partition of the keys, if published

	// wanted is the incarnation that is needed to be heard again: others hold
	// something newer under this host's name. It was started from an older state
	// dir, or there's another host of that name.
	wanted uint32
}

// statement is what this host wants others to know.
type statement struct {
	entries    []Entry
	generation uint64
	meta       []byte
}

func (w *writer) next() version {
	w.sequence++ // 2^32 changes at ten a second are 13 years
	return versionOf(w.incarnation, w.sequence)
}

// heard takes notice of what was heard under this host's own name, of some
// version, where newer means that others would take it for newer than what this
// host says. It's true if that's all there is to do: until this host says
// something itself, it holds and passes on what it said before its restart, as
// the others do.
func (w *writer) heard(v version, newer bool) bool {
	if newer && v.incarnation() < math.MaxUint32 && v.incarnation()-w.incarnation <= maxLeap {
		w.wanted = max(w.wanted, v.incarnation()+1)
	}
	return w.published
}

// heardBucket and heardHeader are heard for what they say. A version as late as
// this host's own may be newer even if it isn't the latest: one that lost its
// state dir uses numbers twice.
func (w *writer) heardBucket(b *bucket) bool {
	return w.heard(b.version, b.version.incarnation() >= w.incarnation && (!w.published || w.buckets.wants(b)))
}

func (w *writer) heardHeader(h *header) bool {
	same := w.header != nil && w.header.sum == h.sum
	return w.heard(h.version, h.version.incarnation() >= w.incarnation && !same && h.newer(w.header))
}

// restart takes an incarnation, which is on disk by now. What was said is to be
// said again. A greater one may be wanted meanwhile: it isn't on disk, so that's
// for next time.
func (w *writer) restart(incarnation uint32) {
	*w = writer{incarnation: incarnation, published: w.published, wanted: w.wanted}
}

// say replaces what this host says, and gives what others must learn for it,
// the header last.
func (s *store) say(st statement) []queued {
	w := &s.own
	fresh := w.writeBuckets(s.self, st.entries)
	h := header{observer: s.self, generation: st.generation, buckets: w.buckets.sum(), meta: st.meta}
	if !h.repeats(w.header) {
		h.version = w.next()
		w.header = newHeader(h)
		fresh = append(fresh, queued{headerName(s.self), w.header.message, true})
	}
	w.published = true
	o := s.observers[s.self]
	if o == nil {
		o = &observer{name: s.self}
		s.observers[s.self] = o
	}
	s.replace(o, w.header, w.buckets)
	return fresh
}

// writeBuckets makes the partition of entries, with as many of the buckets of
// before as can stay.
func (w *writer) writeBuckets(self string, entries []Entry) []queued {
	entries = sorted(entries)
	var fresh []queued
	next := make(buckets, 0, len(w.buckets)+1)
	listed := 0
	for r, part := range partition(region{}, entries, bucketCapacity(self)) {
		listed += len(part)
		b := w.reuse(r, part, listed > maxEntries)
		if b == nil {
			b = w.write(self, r, part, listed > maxEntries)
			fresh = append(fresh, queued{bucketName(b), b.message, false})
		}
		next = append(next, b)
	}
	w.buckets = next
	return fresh
}

// write makes a new bucket. Beyond what a record may list, this host says
// nothing at all about a region: what isn't listed would count as up.
func (w *writer) write(self string, r region, part []Entry, beyond bool) *bucket {
	if beyond {
		return newBlank(self, w.next(), r)
	}
	return newBucket(self, w.next(), r, part)
}

// reuse gives the bucket of before that says the same.
func (w *writer) reuse(r region, part []Entry, beyond bool) *bucket {
	at, found := slices.BinarySearchFunc(w.buckets, r, findRegion)
	if !found {
		return nil
	}
	b := w.buckets[at]
	if b.blank != beyond || !beyond && string(b.entries) != string(appendEntries(nil, part)) {
		return nil
	}
	return b
}

// sorted gives the entries by key, each key once: the first one counts.
func sorted(entries []Entry) []Entry {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	return slices.CompactFunc(entries, func(a, b Entry) bool { return a.Key == b.Key })
}
