package gossip

import (
	"maps"
	"math"
	"slices"
	"time"
)

// What all that others say may take. They are hard bounds: what goes beyond is
// dropped and counted.
const (
	maxObservers   = 2048
	maxEntries     = 65536 // listed by this host
	maxBuckets     = 4096  // of one observer
	maxRecordSize  = 2 << 20
	maxRecordsSize = 64 << 20

	// relayRate and relayBurst bound how many messages a second of one observer
	// are passed on; the rest is fetched (exchange.go). So a host that flaps
	// does not fill the fleet's packets.
	relayRate  = 10
	relayBurst = 64

	// syncRate and syncBurst do the same for what was fetched: a newcomer would
	// tell everybody everything.
	syncRate  = 32
	syncBurst = 64
)

// groups is how many parts the observers are in, by name, so that two members
// find out cheaply where they differ. It's part of the format.
const groups = 64

func groupOf(observer string) int { return int(sum64([]byte(observer)) % groups) }

// observer is what one observer said.
type observer struct {
	name    string
	header  *header // nil if none came yet
	buckets buckets
	sum     uint64 // of header and buckets
	size    int
	relay   tokens
	record  *Record // nil if it changed since the last view
}

// newest gives the observer's latest version that was heard.
func (o *observer) newest() version {
	var v version
	if o.header != nil {
		v = o.header.version
	}
	for _, b := range o.buckets {
		v = max(v, b.version)
	}
	return v
}

// view gives the Record, the same as before if nothing changed.
func (o *observer) view() *Record {
	if o.record == nil {
		r := &Record{Observer: o.name, Incarnation: o.newest().incarnation(), Complete: o.complete(),
			buckets: o.buckets, lengths: o.buckets.lengths()}
		if o.header != nil {
			r.Generation = o.header.generation
		}
		o.record = r
	}
	return o.record
}

// complete tells whether what's held is what the observer says. After its last
// header it may have changed some buckets; then there's nothing to compare with,
// and it's enough that none is missing.
func (o *observer) complete() bool {
	if o.header == nil || !o.buckets.complete() {
		return false
	}
	return o.header.buckets == o.buckets.sum() || o.newest() > o.header.version
}

// store is all that this host holds of what it and others said. It isn't safe
// for concurrent use, and does no I/O.
type store struct {
	self      string
	observers map[string]*observer
	drains    drainMap
	sums      [groups]uint64 // XOR of the observers' in each group
	size      int
	peers     map[string]bool               // who may be an observer; nil: all, as far as there is room
	member    func(string) bool             // is it one, alive or dead?
	drainTime func(now time.Time) time.Time // the time of day that drains go by
	own       writer
	sync      tokens
	turn      int // counts exchanges, so that each begins elsewhere
	refused   int // messages that were dropped for a bound, or couldn't be read
}

func newStore(self string, incarnation uint32) *store {
	return &store{
		self: self, observers: map[string]*observer{}, drains: drainMap{},
		member:    func(string) bool { return false },
		drainTime: func(now time.Time) time.Time { return now },
		own:       writer{incarnation: incarnation},
	}
}

// heard is what became of a message: news, or not.
type heard struct {
	news  bool
	name  string // of what the message replaces in a queue
	relay bool   // it's to be passed on
	slow  bool   // it can wait for others
}

// apply takes a bucket, a header or a drain. The store keeps the message.
func (s *store) apply(message []byte, now time.Time) heard {
	k, _, ok := open(message)
	if !ok {
		return s.refuse(k)
	}
	switch k {
	case kindBucket:
		if b, ok := decodeBucket(message); ok {
			return s.applyBucket(b, now)
		}
	case kindHeader:
		if h, ok := decodeHeader(message); ok {
			return s.applyHeader(h, now)
		}
	case kindDrain:
		if d, ok := decodeDrain(message); ok {
			news := s.drains.merge(d, s.drainTime(now))
			return heard{news: news, relay: news, name: "drain " + d.target.String()}
		}
	}
	return s.refuse(k)
}

// refuse counts a message that's no good. Kinds of later releases are none of
// those.
func (s *store) refuse(k kind) heard {
	if k <= kindAnswer {
		s.refused++
	}
	return heard{}
}

func (s *store) applyBucket(b *bucket, now time.Time) heard {
	if b.observer == s.self && s.own.heardBucket(b) {
		return heard{}
	}
	o := s.observer(b.observer, b.version)
	if o == nil {
		return s.refuse(kindBucket)
	}
	merged, news := o.buckets.merge(b)
	if !news {
		return heard{}
	}
	size := merged.size()
	if len(merged) > maxBuckets || size > maxRecordSize || s.size+size-o.size > maxRecordsSize {
		return s.refuse(kindBucket)
	}
	s.replace(o, o.header, merged)
	return heard{news: true, name: bucketName(b), relay: o.relay.take(now, relayRate, relayBurst)}
}

func (s *store) applyHeader(h *header, now time.Time) heard {
	if h.observer == s.self && s.own.heardHeader(h) {
		return heard{}
	}
	o := s.observer(h.observer, h.version)
	if o == nil {
		return s.refuse(kindHeader)
	}
	if !h.newer(o.header) {
		return heard{}
	}
	s.replace(o, h, o.buckets)
	return heard{news: true, slow: true, name: headerName(h.observer), relay: o.relay.take(now, relayRate, relayBurst)}
}

// bucketName names a bucket in a queue: its next version replaces it there.
func bucketName(b *bucket) string {
	return string(append(appendU64(nil, b.region.start), b.region.bits)) + b.observer
}

func headerName(observer string) string { return "header " + observer }

// observer gives the one of a name, nil if it may not be one, or not with that
// version.
func (s *store) observer(name string, v version) *observer {
	if o := s.observers[name]; o != nil {
		if v.incarnation() > o.newest().incarnation() && v.incarnation()-o.newest().incarnation() > maxLeap {
			return nil
		}
		return o
	}
	if s.peers != nil && !s.peers[name] && name != s.self {
		return nil
	}
	if len(s.observers) >= maxObservers && (!s.member(name) || !s.evict()) {
		return nil
	}
	o := &observer{name: name}
	s.observers[name] = o
	return o
}

// evict forgets an observer that isn't a member. Without a list of peers there
// is no other sign that one is gone for good.
func (s *store) evict() bool {
	for _, name := range slices.Sorted(maps.Keys(s.observers)) {
		if name != s.self && !s.member(name) {
			s.forget(name)
			return true
		}
	}
	return false
}

func (s *store) forget(name string) {
	s.replace(s.observers[name], nil, nil)
	delete(s.observers, name)
}

// replace gives an observer a header and buckets.
func (s *store) replace(o *observer, h *header, b buckets) {
	sum, size := b.sum(), b.size()
	if h != nil {
		sum ^= h.sum
		size += len(h.message) + bucketOverhead
	}
	s.sums[groupOf(o.name)] ^= o.sum ^ sum
	s.size += size - o.size
	o.header, o.buckets, o.sum, o.size, o.record = h, b, sum, size, nil
}

// setPeers says who may be an observer; nil means all. The others are forgotten.
func (s *store) setPeers(peers map[string]bool) {
	s.peers = peers
	for name := range maps.Clone(s.observers) {
		if peers != nil && !peers[name] && name != s.self {
			s.forget(name)
		}
	}
}

// payload is what rides in ping answers: 8 bytes for the records, 8 for the
// drains. Two members that hold the same have the same.
func (s *store) payload() []byte {
	var all uint64
	for _, sum := range s.sums {
		all ^= sum
	}
	return appendU64(appendU64(nil, all), s.drains.sum())
}

// tokens bound a rate. The zero value is full.
type tokens struct {
	used float64
	last time.Time
}

func (t *tokens) take(now time.Time, rate, burst float64) bool {
	t.used = max(0, t.used-math.Max(0, now.Sub(t.last).Seconds())*rate)
	t.last = now
	if t.used+1 > burst {
		return false
	}
	t.used++
	return true
}
