package gossip

// Meta is what a member shows of itself.
type Meta struct {
	Release string // of pointsman
	Commit  string // of the manifests that it serves, or another name of their contents
	BootID  string // of its kernel

	Drained  bool
	Isolated bool // it sees too few of the others, and judges alone
}

// maxMeta is the most bytes of an encoded Meta.
const maxMeta = 512

// maxMetaString is the most bytes of each string in a Meta; the rest is cut off.
const maxMetaString = 128

const (
	metaDrained  = 1 << 1
	metaIsolated = 1 << 2
)

func appendMeta(b []byte, m Meta) []byte {
	b = append(b, metaDrained*boolByte(m.Drained)|metaIsolated*boolByte(m.Isolated))
	for _, s := range []string{m.Release, m.Commit, m.BootID} {
		b = appendStr8(b, s[:min(len(s), maxMetaString)])
	}
	return b
}

// decodeMeta reads what is there: an earlier release may show less, a later one
// more.
func decodeMeta(b []byte) Meta {
	r := &wireReader{rest: b[:min(len(b), maxMeta)]}
	flags := r.u8()
	return Meta{
		Drained: flags&metaDrained != 0, Isolated: flags&metaIsolated != 0,
		Release: oneLine(r.str8()), Commit: oneLine(r.str8()), BootID: oneLine(r.str8()),
	}
}

// A header is what an observer says beside its buckets. It's immutable.
//
// It isn't memberlist's own meta data: that rides in alive messages, which come
// before all else in each packet. When a thousand hosts take a new commit they
// would hold up the news for a minute.
type header struct {
	observer   string
	version    version
	generation uint64
	buckets    uint64 // sum of the buckets when this was said
	meta       []byte // part of the message
	sum        uint64 // of the message
	message    []byte
}

func newHeader(h header) *header {
	m := appendStr8(begin(kindHeader), h.observer)
	m = appendU64(m, uint64(h.version))
	m = appendU64(m, h.generation)
	m = appendU64(m, h.buckets)
	h.message = appendBytes16(m, h.meta)
	h.sum = sum64(h.message)
	return &h
}

// decodeHeader reads a header; it keeps the message.
func decodeHeader(message []byte) (*header, bool) {
	k, r, ok := open(message)
	if !ok || k != kindHeader || len(message) > maxPacket {
		return nil, false
	}
	h := &header{observer: r.name(), version: version(r.u64()), generation: r.u64(), buckets: r.u64(),
		message: message, sum: sum64(message)}
	h.meta = r.bytes16()
	return h, !r.bad && len(h.meta) <= maxMeta
}

// newer is a total order, as for buckets. Any header is newer than none.
func (h *header) newer(o *header) bool {
	if o == nil || h.version != o.version {
		return o == nil || h.version > o.version
	}
	return h.sum > o.sum
}

// repeats tells whether an earlier header says the same. The buckets' sum is as
// of when a header was said, and no reason to say another.
func (h *header) repeats(o *header) bool {
	return o != nil && h.generation == o.generation && string(h.meta) == string(o.meta)
}
