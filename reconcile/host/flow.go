package host

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// parseFlow reads an entry. It is not ok if that is not UDP, or makes no sense.
func parseFlow(attributes []byte) (flow Flow, ok bool) {
	var original, reply tuple
	for len(attributes) > 0 {
		kind, value, rest, ok := nextAttribute(attributes)
		if !ok {
			return flow, false
		}
		whole := attributes[:len(attributes)-len(rest)]
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			original, ok = parseTuple(value)
		case nl.CTA_TUPLE_REPLY:
			reply, ok = parseTuple(value)
			flow.key[0] = whole
		case nl.CTA_ZONE:
			flow.Zoned, flow.key[1] = true, whole
		case nl.CTA_ID:
			flow.key[2] = whole
		}
		if !ok {
			return flow, false
		}
		attributes = rest
	}
	flow.Source, flow.Destination, flow.ReplySource = original.source, original.destination, reply.source
	flow.Zoned = flow.Zoned || original.zoned || reply.zoned
	return flow, flow.Destination.IsValid() && flow.ReplySource.IsValid()
}

// copyKey gives the attributes by which the kernel finds the entry again, and
// that one only. It is looked for by its reply tuple, which holds the backend:
// had the entry ended and the client sent again meanwhile, the new one would
// differ there. The id says the same, mostly: it is made of the original tuple
// and of the entry's place in memory (Linux 5.2), which may be used again.
//
// A request without any tuple empties the whole table; parseFlow lets no entry
// without pass.
func (f *Flow) copyKey() []byte { return bytes.Join(f.key[:], nil) }

// tuple is one direction of a flow.
type tuple struct {
	source, destination netip.AddrPort
	zoned               bool
}

// parseTuple reads the tuple of a UDP flow.
func parseTuple(b []byte) (t tuple, ok bool) {
	ports, ok := attribute(b, nl.CTA_TUPLE_PROTO)
	if !ok {
		return t, false
	}
	number, ok := attribute(ports, nl.CTA_PROTO_NUM)
	if !ok || len(number) != 1 || number[0] != unix.IPPROTO_UDP {
		return t, false
	}
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
