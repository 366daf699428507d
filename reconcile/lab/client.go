package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Outcome is how a request ended, as far as the client can tell.
type Outcome string

// The outcomes of a request.
const (
	OK          Outcome = "ok"
	Refused     Outcome = "refused"     // TCP reset in answer to a SYN, or ICMP port unreachable
	Reset       Outcome = "reset"       // the connection was open
	Closed      Outcome = "closed"      // by the other side, before it answered
	Timeout     Outcome = "timeout"     // nothing came back
	Unreachable Outcome = "unreachable" // ICMP, or no route on the client itself
	Failed      Outcome = "failed"      // anything else: see Err
)

// outcomes says what the kernel's errors mean, for every protocol.
var outcomes = []struct {
	err     error
	outcome Outcome
}{
	{syscall.ECONNREFUSED, Refused},
	{syscall.ECONNRESET, Reset},
	{syscall.EPIPE, Reset},
	{io.EOF, Closed},
	{syscall.EHOSTUNREACH, Unreachable},
	{syscall.ENETUNREACH, Unreachable},
	{syscall.EACCES, Unreachable}, // ICMP "administratively prohibited"
	{context.DeadlineExceeded, Timeout},
	{syscall.ETIMEDOUT, Timeout},
}

// Reply is what a client learnt from one request.
type Reply struct {
	Outcome Outcome
	Backend string         // the name of the backend that answered
	Source  netip.AddrPort // the client, as that backend saw it
	Payload string         // the request, come back
	Err     error          // nil when Outcome is OK
}

// String gives the reply as a line of a failed test.
func (r Reply) String() string {
	if r.Outcome == OK {
		return fmt.Sprintf("%s, which saw %s", r.Backend, r.Source)
	}
	return fmt.Sprintf("%s (%v)", r.Outcome, r.Err)
}

// OutcomeOf tells what an error of Dial, of a read or of a write means.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return Timeout
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.outcome
		}
	}
	return Failed
}

func failure(err error) Reply { return Reply{Outcome: OutcomeOf(err), Err: err} }

// Connect opens a new connection (a new socket) to a backend, asks it once and
// closes.
func (h *Host) Connect(ctx context.Context, proto string, to netip.AddrPort, timeout time.Duration) Reply {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := h.Dial(ctx, proto, to, 0)
	if err != nil {
		return failure(err)
	}
	defer c.Close()
	if proto == TCP {
		timeout = max(timeout, answerTime)
	}
	return c.Ask("hello", timeout)
}

// answerTime is for the answer on a TCP connection that is open: what is lost is
// sent again at once, so that it's late only if the machine is busy.
const answerTime = 20 * time.Second

// Conn is a client's connection to a backend, for more than one request. It
// is not for use by several goroutines at once.
type Conn struct {
	net.Conn
	in *bufio.Reader
}

// Dial opens a connection from the host, from the given port where that is not
// 0. The sockets are connected ones, also UDP's: they report ICMP errors.
//
// Without a port connect(2) takes TCP's, which are another for each connection to
// an address. bind(2) draws them, and may draw one again of a SYN that went by
// before a Service was there: conntrack has it for two minutes, untranslated.
func (h *Host) Dial(ctx context.Context, proto string, to netip.AddrPort, port uint16) (*Conn, error) {
	var conn net.Conn
	err := h.Do(func() (err error) {
		switch proto {
		case SCTP:
			conn, err = dialSCTP(ctx, to, port)
		case TCP:
			d := net.Dialer{}
			if port != 0 {
				d.LocalAddr = &net.TCPAddr{Port: int(port)}
			}
			conn, err = d.DialContext(ctx, TCP, to.String())
		default:
			conn, err = (&net.Dialer{LocalAddr: &net.UDPAddr{Port: int(port)}}).DialContext(ctx, UDP, to.String())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, in: bufio.NewReaderSize(conn, 1<<16)}, nil
}

// Ask sends one request and waits for its answer. An answer to an earlier
// request, which had timed out, is passed over.
func (c *Conn) Ask(request string, timeout time.Duration) Reply {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return failure(err)
	}
	if _, err := c.Write([]byte(request + "\n")); err != nil {
		return failure(err)
	}
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return failure(err)
		}
		if r := parse(strings.TrimSuffix(line, "\n")); r.Outcome != OK || r.Payload == request {
			return r
		}
	}
}

// parse reads a backend's answer.
func parse(line string) Reply {
	fields := strings.SplitN(line, " ", 3)
	if len(fields) != 3 {
		return failure(fmt.Errorf("lab: %q is no backend's answer", line))
	}
	source, err := netip.ParseAddrPort(fields[1])
	if err != nil {
		return failure(err)
	}
	return Reply{Outcome: OK, Backend: fields[0], Source: source, Payload: fields[2]}
}

// Close closes the connection with a reset where the protocol has one. The
// client closes first and leaves no TIME_WAIT behind: a masqueraded connection
// whose server closed first fails now and then when its port is used again.
func (c *Conn) Close() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Close tells what is wrong
	}
	return c.Conn.Close()
}
