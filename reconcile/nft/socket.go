package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// socket asks the kernel about one table over netlink.
type socket struct {
	fd     int
	family Family
	buffer []byte
}

// bufferSize is more than the 32 KiB that the kernel fills at most, and it
// fills no more than there is room for. For each buffer it walks a set from
// the beginning to where it was, so size counts: with the 4 KiB of the usual
// libraries 100,000 elements take many times as long.
const bufferSize = 1 << 16

// answerTimeout is for what can't happen: the kernel answers at once.
const answerTimeout = 10

func openSocket(f Family) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerTimeout}); err != nil {
		return nil, errors.Join(fmt.Errorf("netlink socket: %w", err), unix.Close(fd))
	}
	return &socket{fd: fd, family: f, buffer: make([]byte, bufferSize)}, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// netfilterHeader is the length of the header behind netlink's own: family,
// version and resource id.
const netfilterHeader = 4

// get sends a request and hands each answer's attributes to a function. They
// are valid only during the call.
func (s *socket) get(message, flags uint16, attrs []byte, each func(attrs []byte)) error {
	if err := unix.Sendto(s.fd, s.request(message, flags, attrs), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if more, err := answers(s.buffer[:n], each); err != nil || !more {
			return err
		}
	}
}

func (s *socket) request(message, flags uint16, attrs []byte) []byte {
	family := byte(unix.NFPROTO_IPV4)
	if s.family == IPv6 {
		family = unix.NFPROTO_IPV6
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+netfilterHeader+len(attrs)))
	b = binary.NativeEndian.AppendUint16(b, unix.NFNL_SUBSYS_NFTABLES<<8|message)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = append(b, make([]byte, 8)...) // sequence and port
	return append(append(b, family, unix.NFNETLINK_V0, 0, 0), attrs...)
}

// answers takes a datagram apart, and tells whether more will follow.
func answers(b []byte, each func(attrs []byte)) (more bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(binary.NativeEndian.Uint32(b))
		if n < unix.SizeofNlMsghdr+netfilterHeader || n > len(b) {
			break
		}
		flags, body := binary.NativeEndian.Uint16(b[6:]), b[unix.SizeofNlMsghdr:n]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_ERROR, unix.NLMSG_DONE: // both begin with an error number, negative
			if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
				return false, unix.Errno(-code)
			}
			return false, nil
		}
		each(body[netfilterHeader:])
		if flags&unix.NLM_F_MULTI == 0 {
			return false, nil
		}
		if b = b[min(len(b), (n+3)&^3):]; len(b) == 0 {
			return true, nil
		}
	}
	return false, errors.New("malformed answer")
}

// appendAttribute encodes an attribute.
func appendAttribute(b []byte, number uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, number)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}

// ours names our table: in messages of every kind its attribute is number 1.
func ours() []byte { return appendAttribute(nil, unix.NFTA_TABLE_NAME, []byte(TableName+"\x00")) }
