package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// errOverflow: the kernel dropped notifications for want of buffer, or
	// one did not fit into ours. It is reported before what was queued ahead
	// of the gap (netlink_recvmsg looks at sk_err first), so it says that
	// something is missing, not where.
	errOverflow = errors.New("notifications were lost")
	// errEmpty: nothing is queued, and the caller did not want to wait.
	errEmpty = errors.New("no notification is queued")
)

// receiveBuffer is what a datagram must fit into. nf_tables puts at most
// NLMSG_GOODSIZE (a page, at most 8 KiB) into one; that of an interface with
// many virtual functions can be larger.
const receiveBuffer = 64 << 10

// socket is a subscription to netlink multicast groups. The netlink library
// has one too (nl.Subscribe); it blocks a thread in the system call, can't be
// interrupted without a timeout, and copies every message out. This one waits
// in Go's poller.
type socket struct {
	file *os.File
	conn syscall.RawConn
	buf  []byte
}

// subscribe joins the groups (1 to 32) of a netlink protocol.
func subscribe(protocol, bufferBytes int, groups ...uint) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "netlink")
	if err := join(fd, bufferBytes, groups); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &socket{file: file, conn: conn, buf: make([]byte, receiveBuffer)}, nil
}

// join sizes the socket's buffer, then binds it to the groups.
func join(fd, bufferBytes int, groups []uint) error {
	// SO_RCVBUFFORCE asks for CAP_NET_ADMIN in the first user namespace; in a
	// user namespace of our own net.core.rmem_max is what we get, and lost
	// notifications are then likelier, but never silent.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferBytes); err != nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes)
		if err != nil {
			return fmt.Errorf("size a netlink socket's buffer: %w", err)
		}
	}
	address := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, g := range groups {
		address.Groups |= 1 << (g - 1)
	}
	if err := unix.Bind(fd, address); err != nil {
		return fmt.Errorf("subscribe to netlink groups %v: %w", groups, err)
	}
	return nil
}

// interruptOn makes a waiting receive return os.ErrDeadlineExceeded when ctx
// ends. The function it returns undoes it.
func (s *socket) interruptOn(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		// A file that can't take a deadline is closed already.
		_ = s.file.SetReadDeadline(time.Unix(1, 0))
	})
}

// receive gives the next datagram, valid until the next call: one or more
// netlink messages. Without wait it returns errEmpty when none is queued.
func (s *socket) receive(wait bool) ([]byte, error) {
	for {
		n, flags, from, err := s.read(wait)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return nil, errEmpty
		case errors.Is(err, unix.ENOBUFS), err == nil && flags&unix.MSG_TRUNC != 0:
			return nil, errOverflow
		case err != nil:
			return nil, fmt.Errorf("receive from a netlink socket: %w", err)
		case fromKernel(from):
			return s.buf[:n], nil
		}
	}
}

// read is one recvmsg, after waiting in the poller for something to read.
func (s *socket) read(wait bool) (n, flags int, from unix.Sockaddr, err error) {
	failed := s.conn.Read(func(fd uintptr) bool {
		n, _, flags, from, err = unix.Recvmsg(int(fd), s.buf, nil, 0)
		return !wait || !errors.Is(err, unix.EAGAIN)
	})
	if failed != nil {
		err = failed
	}
	return n, flags, from, err
}

// fromKernel tells the kernel's messages from those that another process
// with CAP_NET_ADMIN sent to our port.
func fromKernel(from unix.Sockaddr) bool {
	a, ok := from.(*unix.SockaddrNetlink)
	return ok && a.Pid == 0
}

// poke leaves a signal in a channel of capacity 1.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
