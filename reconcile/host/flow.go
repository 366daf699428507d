package host

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// parseFlow reads an entry. It is not ok if that is not UDP, or makes no sense.
func parseFlow(attributes []byte) (Flow, bool) {
	e, ok := parseEntry(attributes)
	return Flow{
		Source: e.original.source, Destination: e.original.destination, ReplySource: e.reply.source,
		Zoned: e.zoned(), key: e.key,
	}, ok && e.original.protocol == unix.IPPROTO_UDP
}

// copyKey gives the attributes by which the kernel finds the entry again, and
// that one only. It is looked for by its reply tuple, which holds the backend:
// had the entry ended and the client sent again meanwhile, the new one would
// differ there. The id says the same, mostly: it is made of the original tuple
// and of the entry's place in memory (Linux 5.2), which may be used again.
//
// A request without any tuple empties the whole table; parseEntry lets no entry
// without pass.
func (f *Flow) copyKey() []byte { return bytes.Join(f.key[:], nil) }

// entry is an entry of the connection tracking table.
type entry struct {
	original, reply tuple
	state           []byte    // what the protocol says of it, CTA_PROTOINFO
	key             [3][]byte // the attributes that hold the reply tuple, the zone and the id
}

func (e *entry) zoned() bool { return e.key[1] != nil || e.original.zoned || e.reply.zoned }

// parseEntry is not ok if the entry has no ports (ICMP), or makes no sense.
func parseEntry(attributes []byte) (e entry, ok bool) {
	for len(attributes) > 0 {
		kind, value, rest, ok := nextAttribute(attributes)
		if !ok {
			return e, false
		}
		whole := attributes[:len(attributes)-len(rest)]
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			e.original, ok = parseTuple(value)
		case nl.CTA_TUPLE_REPLY:
			e.reply, ok = parseTuple(value)
			e.key[0] = whole
		case nl.CTA_PROTOINFO:
			e.state = value
		case nl.CTA_ZONE:
			e.key[1] = whole
		case nl.CTA_ID:
			e.key[2] = whole
		}
		if !ok {
			return e, false
		}
		attributes = rest
	}
	return e, e.original.destination.IsValid() && e.reply.source.IsValid() && e.original.protocol == e.reply.protocol
}

// tuple is one direction of a flow.
type tuple struct {
	protocol            uint8
	source, destination netip.AddrPort
	zoned               bool
}

// parseTuple reads the tuple of a protocol with ports.
func parseTuple(b []byte) (t tuple, ok bool) {
	ports, ok := attribute(b, nl.CTA_TUPLE_PROTO)
	if !ok {
		return t, false
	}
	number, ok := attribute(ports, nl.CTA_PROTO_NUM)
	if !ok || len(number) != 1 {
		return t, false
	}
	t.protocol = number[0]
	_, t.zoned = attribute(b, ctaTupleZone)
	addresses, ok := attribute(b, nl.CTA_TUPLE_IP)
	if !ok {
		return t, false
	}
	t.source = addrPort(addresses, nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC, ports, nl.CTA_PROTO_SRC_PORT)
	t.destination = addrPort(addresses, nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST, ports, nl.CTA_PROTO_DST_PORT)
	return t, t.source.IsValid() && t.destination.IsValid()
}

// addrPort reads an address, which is of either kind, and a port.
func addrPort(addresses []byte, v4, v6 uint16, ports []byte, kind uint16) netip.AddrPort {
	address, ok := attribute(addresses, v4)
	if !ok {
		address, _ = attribute(addresses, v6)
	}
	port, ok := attribute(ports, kind)
	ip, valid := netip.AddrFromSlice(address)
	if !ok || !valid || len(port) != 2 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port))
}
