package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/state"
)

// loopbacks are what the servers of the tests listen on.
var loopbacks = []string{"127.0.0.1:0", "[::1]:0"}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func targetOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// raw starts a server that does as it likes with each connection.
func raw(t testing.TB, handle func(net.Conn)) netip.AddrPort {
	l := listen(t, loopbacks[0])
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go handle(conn)
		}
	}()
	return targetOf(l)
}

// try makes one probe. It fails the test where that holds a worker for long
// after the timeout.
func try(t testing.TB, target netip.AddrPort, p state.Probe) outcome {
	t.Helper()
	p.Timeout = max(p.Timeout, 10*time.Second) // long, unless the test is about it
	return tryFor(t, target, p, p.Timeout)
}

func tryFor(t testing.TB, target netip.AddrPort, p state.Probe, timeout time.Duration) outcome {
	t.Helper()
	p.Timeout = timeout
	prober := New(Config{AllowExec: true, Version: "v1"})
	done := make(chan outcome, 1)
	go func() { done <- prober.work(t.Context(), &state.Check{Target: target, Probe: &p}) }()
	select {
	case out := <-done:
		return out
	case <-time.After(timeout + 20*time.Second):
		t.Fatal("the probe holds its worker")
		return outcome{}
	}
}

func expect(t testing.TB, got outcome, want state.Failure, detail string) {
	t.Helper()
	if got.void || got.failure != want || !strings.Contains(got.detail, detail) {
		t.Errorf("got %v (%q, void: %v), want %v (%q)", got.failure, got.detail, got.void, want, detail)
	}
}

// closedPort gives a port that refuses.
func closedPort(t testing.TB, address string) netip.AddrPort {
	l := listen(t, address)
	target := targetOf(l)
	_ = l.Close()
	return target
}

func TestTCP(t *testing.T) {
	for _, address := range loopbacks {
		l := listen(t, address)
		expect(t, try(t, targetOf(l), state.Probe{}), state.NoFailure, "")
		// The connection was reset: the listener finds it broken, if at all.
		if conn, err := l.Accept(); err == nil {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: the connection ended with %v", address, err)
			}
		}
		expect(t, try(t, closedPort(t, address), state.Probe{}), state.Refused, "refused")
	}
}

func TestTCPErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want state.Failure
	}{
		{syscall.EHOSTUNREACH, state.Unreachable}, {syscall.ENETUNREACH, state.Unreachable}, {syscall.ETIMEDOUT, state.TimedOut},
		{syscall.ECONNRESET, state.Refused}, {syscall.EPERM, state.OtherFailure}, {context.DeadlineExceeded, state.TimedOut}, {errors.New("x"), state.OtherFailure},
	} {
		x := &executor{dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", tt.err)}
		}}
		expect(t, x.probe(t.Context(), &state.Check{}, &homeProbe), tt.want, tt.err.Error())
	}
	for _, err := range []error{syscall.EMFILE, syscall.EADDRNOTAVAIL} {
		if out := classify(os.NewSyscallError("socket", err), state.OtherFailure); !out.void || out.detail == "" {
			t.Errorf("%v: %+v", err, out)
		}
	}
}

// Whatever a backend says of itself is one short printable line.
func TestTidy(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a\r\n b\x1b[31mc\t": "a b [31mc", "\xff\xfea": "a", strings.Repeat("é", 300): strings.Repeat("é", 100), "é" + strings.Repeat("a", 198) + "é": "é" + strings.Repeat("a", 198),
	} {
		if got := tidy(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
