package gossip

import (
	"encoding/binary"
	"hash/fnv"
)

// A message is a kind, the oldest release of the format that can read it, and
// fields in a fixed order, big-endian, each with its length where that varies.
// Release N reads what N-1 writes, and the other way round: kinds and formats
// that aren't known are ignored, and so is what follows the last known field.
type kind uint8

const (
	kindBucket   kind = 1
	kindHeader   kind = 2
	kindDrain    kind = 3
	kindSums     kind = 4
	kindDigest   kind = 5
	kindDetails  kind = 6
	kindItems    kind = 7
	kindConflict kind = 8
	kindLarge    kind = 9
	kindThanks   kind = 10
	kindQuestion kind = 11
	kindAnswer   kind = 12
)

const wireFormat = 1

// The most bytes of a gossiped message, and of one over a stream. memberlist
// never sends a message that doesn't fit a packet of 1400 bytes, and says
// nothing (alertmanager#1412); label, key and counts take up to 150 of those.
const (
	maxPacket = 1100
	maxStream = 1 << 20
)

// maxName is the most bytes of a node's name: a DNS subdomain, as Kubernetes
// has it.
const maxName = 253

// A wireReader takes a message apart. Reading past the end gives zeroes and
// sets bad; so it's enough to look once, at the end.
type wireReader struct {
	rest []byte
	bad  bool
}

func (r *wireReader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.bad = nil, true
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *wireReader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *wireReader) u16() int {
	if b := r.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *wireReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// str8 reads a string of at most 255 bytes.
func (r *wireReader) str8() string { return string(r.take(int(r.u8()))) }

// bytes16 reads at most 65,535 bytes, which stay part of the message.
func (r *wireReader) bytes16() []byte { return r.take(r.u16()) }

// name reads a node's name, which is never empty.
func (r *wireReader) name() string {
	s := r.str8()
	if s == "" || len(s) > maxName {
		r.bad = true
	}
	return s
}

// open reads what every message begins with, and says whether the rest can be
// read.
func open(message []byte) (kind, *wireReader, bool) {
	r := &wireReader{rest: message}
	k, format := kind(r.u8()), r.u8()
	return k, r, !r.bad && format >= 1 && format <= wireFormat
}

func begin(k kind) []byte { return []byte{byte(k), wireFormat} }

// appendStr8 appends at most 255 bytes of a string.
func appendStr8(b []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(b, byte(len(s))), s...)
}

// appendBytes16 appends at most 65,535 bytes.
func appendBytes16(b, data []byte) []byte {
	data = data[:min(len(data), 1<<16-1)]
	return append(binary.BigEndian.AppendUint16(b, uint16(len(data))), data...)
}

func appendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// sum64 is a hash that all releases and machines agree on. Sums of sets are the
// XOR of their members', which FNV alone is too regular for: hence the
// finalizer (that of MurmurHash3).
func sum64(data []byte) uint64 {
	h := fnv.New64a()
	h.Write(data)
	v := h.Sum64()
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	v *= 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}
