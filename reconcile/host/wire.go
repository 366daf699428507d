package host

import "encoding/binary"

// Netlink's framing (netlink(7)): messages and attributes begin with their
// length, header included, and are padded to four bytes. The kernel is
// trusted to send no nonsense; the parser is not, so nothing here assumes
// that a length is true.
const (
	messageHeader   = 16
	attributeHeader = 4
	netfilterHeader = 4 // struct nfgenmsg: family, version, resource id

	// attributeFlags are NLA_F_NESTED and NLA_F_NET_BYTEORDER.
	attributeFlags = 0xc000
)

// nextMessage splits the first netlink message off b. It is not ok when b
// holds no whole message.
func nextMessage(b []byte) (kind uint16, payload, rest []byte, ok bool) {
	if len(b) < messageHeader {
		return 0, nil, nil, false
	}
	n := int64(binary.NativeEndian.Uint32(b))
	if n < messageHeader || n > int64(len(b)) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(b[4:]), b[messageHeader:n], afterPadding(b, int(n)), true
}

// nextAttribute splits the first attribute off b, as nextMessage does.
func nextAttribute(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < attributeHeader {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < attributeHeader || n > len(b) {
		return 0, nil, nil, false
	}
	kind = binary.NativeEndian.Uint16(b[2:]) &^ attributeFlags
	return kind, b[attributeHeader:n], afterPadding(b, n), true
}

// afterPadding is what follows the first n bytes of b and their padding; the
// last message of a datagram may come without any.
func afterPadding(b []byte, n int) []byte {
	return b[min((n+3)&^3, len(b)):]
}

// attribute finds the first attribute of a kind. Not found and malformed are
// the same to our callers: the message lacks what it must have.
func attribute(b []byte, want uint16) (value []byte, ok bool) {
	for len(b) > 0 {
		kind, value, rest, ok := nextAttribute(b)
		if !ok {
			return nil, false
		}
		if kind == want {
			return value, true
		}
		b = rest
	}
	return nil, false
}
