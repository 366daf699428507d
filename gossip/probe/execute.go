package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"pointsman/state"
)

// outcome is what a probe saw.
type outcome struct {
	failure state.Failure // NoFailure of a success
	detail  string

	// void is set where this host couldn't make the probe, for want of file
	// descriptors, say: that is no word about the backend, and isn't counted.
	void bool
}

func failed(f state.Failure, format string, args ...any) outcome {
	return outcome{failure: f, detail: tidy(fmt.Sprintf(format, args...))}
}

// maxDetail bounds what is said of a failure, in bytes: it's kept for each
// backend, and much of it comes from there.
const maxDetail = 200

// tidy makes one printable line of a text.
func tidy(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 2*maxDetail)], "")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}

// executor makes probes. Its methods return within a moment of their context's
// end, whatever the other side does.
type executor struct {
	allowExec bool
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	userAgent string
}

func (x *executor) probe(ctx context.Context, c *state.Check, p *state.Probe) outcome {
	switch {
	case p.HTTP != nil:
		return x.http(ctx, c.Target, p.HTTP)
	case p.GRPC != nil:
		return x.grpc(ctx, c.Target, p.GRPC)
	case p.Exec != nil:
		return x.exec(ctx, c.Target, p.Exec)
	}
	return x.tcp(ctx, c.Target)
}

// tcp opens a connection and closes it. It's reset: thousands of connections a
// minute that are closed in order would leave as many sockets in TIME_WAIT here
// (the kubelet sets SO_LINGER for this too, pkg/probe/dialer_others.go).
func (x *executor) tcp(ctx context.Context, target netip.AddrPort) outcome {
	conn, err := x.dial(ctx, "tcp", target.String())
	if err != nil {
		return classify(err, state.OtherFailure)
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // at worst there is a TIME_WAIT
	}
	_ = conn.Close() // it was open, which is all that was asked
	return outcome{}
}

// The errors that are this host's alone: it has no file, port, memory or
// process left.
var ownErrors = []error{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN,
}

// failuresOf tells the failure by the kernel's error.
var failuresOf = map[syscall.Errno]state.Failure{
	syscall.ECONNREFUSED: state.Refused,
	syscall.ECONNRESET:   state.Refused,
	syscall.ECONNABORTED: state.Refused,
	syscall.EPIPE:        state.Refused,
	syscall.ETIMEDOUT:    state.TimedOut,
	syscall.EHOSTUNREACH: state.Unreachable,
	syscall.ENETUNREACH:  state.Unreachable,
	syscall.EHOSTDOWN:    state.Unreachable,
	syscall.ENETDOWN:     state.Unreachable,
}

// classify tells the failure that an error means; other is that of an error
// which is none of the network's.
func classify(err error, other state.Failure) outcome {
	if slices.ContainsFunc(ownErrors, func(own error) bool { return errors.Is(err, own) }) {
		return outcome{void: true, detail: tidy(err.Error())}
	}
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return failed(state.TimedOut, "%v", err)
	}
	var tls *tlsError
	var errno syscall.Errno
	switch {
	case errors.As(err, &tls):
		other = state.BadTLS
	case errors.As(err, &errno) && failuresOf[errno] != state.NoFailure:
		other = failuresOf[errno]
	}
	return failed(other, "%v", err)
}
