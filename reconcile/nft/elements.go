package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// rawElement is an element in bytes.
type rawElement struct {
	key, end, value []byte
	intervalEnd     bool
	extra           bool // a timeout, an object or an expression, which ours never have
}

func decodeElement(b []byte) rawElement {
	var r rawElement
	for number, value := range attributes(b) {
		switch number {
		case unix.NFTA_SET_ELEM_KEY:
			r.key = attribute(value, unix.NFTA_DATA_VALUE)
		case keyEndAttr:
			r.end = attribute(value, unix.NFTA_DATA_VALUE)
		case unix.NFTA_SET_ELEM_DATA:
			for _, data := range attributes(value) { // a value or a verdict
				r.value = data
			}
		case unix.NFTA_SET_ELEM_FLAGS:
			r.intervalEnd = len(value) >= 4 && binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_TIMEOUT, unix.NFTA_SET_ELEM_OBJREF, unix.NFTA_SET_ELEM_EXPR, expressionsAttr:
			r.extra = true
		}
	}
	return r
}

// The kernel's NFTA_SET_ELEM_KEY_END and NFTA_SET_ELEM_EXPRESSIONS.
const (
	keyEndAttr      = 10
	expressionsAttr = 11
)

// decode turns an element's bytes into nft's syntax.
func (s *Set) decode(f Family, r rawElement) (Element, error) {
	e := Element{Set: s.Name}
	if s.Interval != (r.end != nil) {
		return e, errors.New("a range in a set without ranges, or the reverse")
	}
	var err error
	if e.Key, err = f.columns(s.Key, r.key, r.end); err != nil {
		return e, err
	}
	switch {
	case s.Verdict:
		e.Value = decodeVerdict(r.value)
	case s.IsMap():
		e.Value, err = f.columns(s.Value, r.value, nil)
	}
	if r.extra && s.Dynamic == 0 {
		e.Value += " changed by somebody else" // no wanted value, so it's replaced
	}
	return e, err
}

// width is the number of bytes of a column: every one is padded to 32 bits.
func (f Family) width(field Field) int {
	if field == Addr && f == IPv6 {
		return 16
	}
	return 4
}

// columns decodes bytes column by column. With an end, the last column is a
// range, given as the prefix that it is.
func (f Family) columns(fields []Field, b, end []byte) (string, error) {
	text := make([]byte, 0, 64)
	for i, field := range fields {
		n := f.width(field)
		if len(b) < n || end != nil && len(end) < n {
			return "", fmt.Errorf("%d bytes are too few for %d columns", len(b), len(fields))
		}
		if i > 0 {
			text = append(text, " . "...)
		}
		switch {
		case end == nil:
			text = appendColumn(text, field, b[:n])
		case i == len(fields)-1:
			text = appendPrefix(text, b[:n], end[:n])
		case bytes.Equal(b[:n], end[:n]):
			text = appendColumn(text, field, b[:n])
		default:
			return "", errors.New("a range in the wrong column")
		}
		if b = b[n:]; end != nil {
			end = end[n:]
		}
	}
	return string(text), nil
}

func appendColumn(text []byte, field Field, b []byte) []byte {
	switch field {
	case Proto:
		return appendProto(text, b[0])
	case Service, TCPService, UDPService, SCTPService:
		return strconv.AppendUint(text, uint64(binary.BigEndian.Uint16(b)), 10)
	case Slot:
		return strconv.AppendUint(text, uint64(binary.NativeEndian.Uint32(b)), 10)
	}
	a, _ := netip.AddrFromSlice(b)
	return a.AppendTo(text)
}

func appendProto(text []byte, n byte) []byte {
	switch n {
	case unix.IPPROTO_TCP:
		return append(text, "tcp"...)
	case unix.IPPROTO_UDP:
		return append(text, "udp"...)
	case unix.IPPROTO_SCTP:
		return append(text, "sctp"...)
	}
	return strconv.AppendUint(text, uint64(n), 10)
}

// appendPrefix gives the prefix from its first and last address. A range that
// is no prefix can't be ours; it's given as a range, and will be removed.
func appendPrefix(text, first, last []byte) []byte {
	bits := 0
	for bits < 8*len(first) && (first[bits/8]^last[bits/8])&(0x80>>(bits%8)) == 0 {
		bits++
	}
	a, _ := netip.AddrFromSlice(first)
	z, _ := netip.AddrFromSlice(last)
	if p := netip.PrefixFrom(a, bits); p.Masked() == p && lastAddr(p) == z {
		return p.AppendTo(text)
	}
	return z.AppendTo(append(a.AppendTo(text), '-'))
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		host := min(8, max(0, (i+1)*8-p.Bits()))
		b[i] |= byte(1<<host - 1)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// pairIntervals gives each interval of a set of single addresses its last
// address: the kernel lists where intervals begin and where they end, and one
// may end where the next begins.
func pairIntervals(raw []rawElement) []rawElement {
	slices.SortFunc(raw, func(a, b rawElement) int {
		if order := bytes.Compare(a.key, b.key); order != 0 || a.intervalEnd == b.intervalEnd {
			return order
		}
		if a.intervalEnd {
			return -1
		}
		return 1
	})
	var out []rawElement
	for i, r := range raw {
		if r.intervalEnd {
			continue
		}
		end := make([]byte, len(r.key)) // no end: up to the last address there is
		if i+1 < len(raw) {
			copy(end, raw[i+1].key)
		}
		r.end = before(end)
		out = append(out, r)
	}
	return out
}

// before gives the address before b, the last one before 0.
func before(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		b[i]--
		if b[i] != 0xff {
			break
		}
	}
	return b
}

// decodeVerdict gives a verdict in nft's syntax. One that is none of ours is
// given so that it differs from all of them.
func decodeVerdict(b []byte) string {
	code := attribute(b, unix.NFTA_VERDICT_CODE)
	chain := cstring(attribute(b, unix.NFTA_VERDICT_CHAIN))
	switch v := int32(number(code)); {
	case len(code) < 4:
		return "no verdict"
	case v == unix.NFT_GOTO:
		return "goto " + chain
	case v == unix.NFT_JUMP:
		return "jump " + chain
	case v == 0:
		return "drop"
	default:
		return fmt.Sprint("verdict ", v)
	}
}
