package host

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What the library's nl lacks of linux/netfilter/nfnetlink_conntrack.h, and of
// the kernel's net/netfilter/nf_internals.h.
const (
	ctaTupleZone        = 3
	ctaFilter           = 25
	ctaFilterOrigFlags  = 1
	ctaFilterReplyFlags = 2

	filterBySource          = 1 << 0 // CTA_FILTER_F_CTA_IP_SRC
	filterByDestination     = 1 << 1 // CTA_FILTER_F_CTA_IP_DST
	filterByProtocol        = 1 << 3 // CTA_FILTER_F_CTA_PROTO_NUM
	filterBySourcePort      = 1 << 4 // CTA_FILTER_F_CTA_PROTO_SRC_PORT
	filterByDestinationPort = 1 << 5 // CTA_FILTER_F_CTA_PROTO_DST_PORT
)

// filterTuple is what the tuple of one direction must have for the kernel to
// list the entry (Linux 5.8). Older kernels ignore it and list all, so whoever
// parses the answers looks again.
type filterTuple struct {
	protocol            uint8 // 0: any
	source, destination netip.AddrPort
}

// udpFilter makes the kernel leave other protocols out.
func udpFilter() []nl.NetlinkRequestData {
	return conntrackFilter(filterTuple{protocol: unix.IPPROTO_UDP}, filterTuple{})
}

// conntrackFilter gives the attributes that ask for both. There are none where
// nothing is asked for: the kernel refuses an empty filter.
func conntrackFilter(original, reply filterTuple) []nl.NetlinkRequestData {
	filter := nl.NewRtAttr(unix.NLA_F_NESTED|ctaFilter, nil)
	var out []nl.NetlinkRequestData
	for _, d := range []struct {
		tuple       filterTuple
		kind, flags int
	}{{original, nl.CTA_TUPLE_ORIG, ctaFilterOrigFlags}, {reply, nl.CTA_TUPLE_REPLY, ctaFilterReplyFlags}} {
		tuple, flags := d.tuple.attribute(d.kind)
		if flags != 0 {
			out = append(out, tuple)
			filter.AddRtAttr(d.flags, nl.Uint32Attr(flags))
		}
	}
	if out == nil {
		return nil
	}
	return append(out, filter)
}

// attribute gives the tuple as an attribute, and what of it counts. IPv6
// addresses are left out: of these the kernel lists all but the one that is
// asked for (ctnetlink_filter_match_tuple takes ipv6_addr_cmp for a test of
// equality; seen in 6.18).
func (t filterTuple) attribute(kind int) (attribute *nl.RtAttr, flags uint32) {
	attribute = nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil)
	ip := nl.NewRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	proto := nl.NewRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	if t.protocol != 0 {
		proto.AddRtAttr(nl.CTA_PROTO_NUM, []byte{t.protocol})
		flags |= filterByProtocol
	}
	for _, side := range []struct {
		at               netip.AddrPort
		ip, port         int
		byAddr, byNumber uint32
	}{
		{t.source, nl.CTA_IP_V4_SRC, nl.CTA_PROTO_SRC_PORT, filterBySource, filterBySourcePort},
		{t.destination, nl.CTA_IP_V4_DST, nl.CTA_PROTO_DST_PORT, filterByDestination, filterByDestinationPort},
	} {
		if side.at.Addr().Is4() {
			ip.AddRtAttr(side.ip, side.at.Addr().AsSlice())
			flags |= side.byAddr
		}
		if side.at.Port() != 0 && t.protocol != 0 { // a port is a protocol's
			proto.AddRtAttr(side.port, binary.BigEndian.AppendUint16(nil, side.at.Port()))
			flags |= side.byNumber
		}
	}
	attribute.AddChild(ip)
	attribute.AddChild(proto)
	return attribute, flags
}
