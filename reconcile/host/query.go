package host

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// requestBuffer is enough for the answers to one request at a time: the kernel
// goes on with a dump when what there is of it has been received.
const requestBuffer = 256 << 10

// errMalformed: the kernel sent what isn't netlink.
var errMalformed = errors.New("a netlink answer that makes no sense")

// query sends a request, and gives the answers to visit until the kernel says
// that they are all, or that it is done. After an error the socket is of no
// more use, unless it is the kernel's refusal (an Errno).
//
// nl.NetlinkRequest.Execute can't be interrupted, and makes 64 KiB of garbage
// for every answer.
func (s *socket) query(request *nl.NetlinkRequest, visit func(payload []byte)) error {
	if err := s.send(request.Serialize()); err != nil {
		return err
	}
	a := answer{visit: visit}
	for {
		datagram, err := s.receive(true)
		if err != nil {
			return err
		}
		if done, err := a.read(datagram); done || err != nil {
			return err
		}
	}
}

// answer is what came of an answer so far.
type answer struct {
	visit       func(payload []byte)
	interrupted bool
}

// read reads a datagram of it, and tells whether it was the last. A dump that
// changed while it was made is an error in the end: something may be missing.
func (a *answer) read(datagram []byte) (done bool, err error) {
	for len(datagram) > 0 {
		kind, payload, rest, ok := nextMessage(datagram)
		if !ok {
			return true, errMalformed
		}
		a.interrupted = a.interrupted || flags(datagram)&unix.NLM_F_DUMP_INTR != 0
		switch {
		case kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR:
			return true, a.end(kind, payload)
		case a.visit != nil:
			a.visit(payload)
		}
		datagram = rest
	}
	return false, nil
}

// end reads how a request ended. Some kernels end a dump without a status.
func (a *answer) end(kind uint16, payload []byte) error {
	if len(payload) < 4 {
		if kind == unix.NLMSG_ERROR {
			return errMalformed
		}
		payload = make([]byte, 4)
	}
	if number := int32(binary.NativeEndian.Uint32(payload)); number != 0 {
		return unix.Errno(-number)
	}
	if a.interrupted {
		return netlink.ErrDumpInterrupted
	}
	return nil
}

// flags gives the flags of a message, which is whole.
func flags(message []byte) uint16 { return binary.NativeEndian.Uint16(message[6:]) }

func (s *socket) send(b []byte) (err error) {
	failed := s.conn.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("send to a netlink socket: %w", err)
	}
	return nil
}
