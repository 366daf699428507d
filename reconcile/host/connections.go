package host

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pointsman/state"
)

// Connection is an entry of the connection tracking table of TCP, UDP or SCTP.
type Connection struct {
	Protocol state.Protocol

	// Source and Destination are those of the first packet, before any
	// translation.
	Source, Destination netip.AddrPort

	// ReplySource is where answers come from: the backend where the connection
	// is translated, else the Destination. ReplyDestination is whom it takes
	// for the client: the Source, or where it's masqueraded, an address of this
	// host.
	ReplySource, ReplyDestination netip.AddrPort

	// Closing: an end of it has been asked for, or has come (TCP: from the first
	// FIN on, or a reset; SCTP: from SHUTDOWN on). Nobody sees the end of a UDP
	// flow.
	Closing bool

	// Zoned says that it is not in the default zone (see Flow).
	Zoned bool
}

// ConnectionFilter says which connections are asked for. What is zero, be it
// only the port, may be anything.
type ConnectionFilter struct {
	Protocol    state.Protocol
	Destination netip.AddrPort
	ReplySource netip.AddrPort
}

// EachConnectionOf shows the connections of a family that a filter lets pass, in
// no order. An error means that some may not have been shown. The kernel picks
// them out, so that few among many cost little; it takes the port of an address
// only along with a Protocol.
func EachConnectionOf(ctx context.Context, f Family, of ConnectionFilter, visit func(Connection)) error {
	number := protocolNumber(of.Protocol)
	filter := conntrackFilter(
		filterTuple{protocol: number, destination: of.Destination},
		filterTuple{protocol: number, source: of.ReplySource})
	err := eachEntry(ctx, f, filter, func(attributes []byte) {
		if c, ok := parseConnection(attributes); ok && of.matches(&c) {
			visit(c)
		}
	})
	if err != nil {
		return fmt.Errorf("list connections (%s): %w", f, err)
	}
	return nil
}

func (of *ConnectionFilter) matches(c *Connection) bool {
	return (of.Protocol == "" || of.Protocol == c.Protocol) &&
		isWanted(of.Destination, c.Destination) && isWanted(of.ReplySource, c.ReplySource)
}

func isWanted(want, a netip.AddrPort) bool {
	return (!want.Addr().IsValid() || want.Addr() == a.Addr()) && (want.Port() == 0 || want.Port() == a.Port())
}

// parseConnection is not ok if the entry is of another protocol, or makes no
// sense.
func parseConnection(attributes []byte) (c Connection, ok bool) {
	e, ok := parseEntry(attributes)
	c = Connection{
		Protocol: protocolName(e.original.protocol),
		Source:   e.original.source, Destination: e.original.destination,
		ReplySource: e.reply.source, ReplyDestination: e.reply.destination,
		Closing: closing(e.state), Zoned: e.zoned(),
	}
	return c, ok && c.Protocol != ""
}

func protocolName(number uint8) state.Protocol {
	switch number {
	case unix.IPPROTO_TCP:
		return state.TCP
	case unix.IPPROTO_UDP:
		return state.UDP
	case unix.IPPROTO_SCTP:
		return state.SCTP
	}
	return ""
}

func protocolNumber(name state.Protocol) uint8 {
	switch name {
	case state.TCP:
		return unix.IPPROTO_TCP
	case state.UDP:
		return unix.IPPROTO_UDP
	case state.SCTP:
		return unix.IPPROTO_SCTP
	}
	return 0
}

// The states after which a connection ends: of enum tcp_conntrack, and of enum
// sctp_conntrack, whose attribute the library's nl doesn't have.
const (
	tcpFinWait = 4
	tcpClose   = 8

	sctpState           = 1 // CTA_PROTOINFO_SCTP_STATE
	sctpClosed          = 1
	sctpShutdownSent    = 5
	sctpShutdownAckSent = 7
)

// closing reads CTA_PROTOINFO.
func closing(info []byte) bool {
	if tcp, ok := attribute(info, nl.CTA_PROTOINFO_TCP); ok {
		n := stateNumber(tcp, nl.CTA_PROTOINFO_TCP_STATE)
		return tcpFinWait <= n && n <= tcpClose
	}
	sctp, _ := attribute(info, nl.CTA_PROTOINFO_SCTP)
	n := stateNumber(sctp, sctpState)
	return n == sctpClosed || sctpShutdownSent <= n && n <= sctpShutdownAckSent
}

// stateNumber is 0 where there is none: that is NONE in both protocols.
func stateNumber(b []byte, kind uint16) byte {
	v, ok := attribute(b, kind)
	if !ok || len(v) != 1 {
		return 0
	}
	return v[0]
}
