package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

// serve starts an HTTP server on each of the loopbacks.
func serve(t testing.TB, secure bool, h http.HandlerFunc) []netip.AddrPort {
	t.Helper()
	var targets []netip.AddrPort
	for _, address := range loopbacks {
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = listen(t, address)
		s.Config.ErrorLog = nil
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		targets = append(targets, targetOf(s.Listener))
	}
	return targets
}

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

func TestHTTP(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	handler := func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		switch r.URL.Path {
		case "/503":
			w.WriteHeader(503)
		case "/399":
			w.WriteHeader(399)
		case "/on":
			http.Redirect(w, r, "/healthz", http.StatusFound)
		case "/to-503":
			http.Redirect(w, r, "/503", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/nowhere":
			w.Header().Set("Location", "http://[::1/")
			w.WriteHeader(302)
		}
	}
	for _, secure := range []bool{false, true} {
		for _, target := range serve(t, secure, handler) {
			for _, tt := range []struct {
				path   string
				want   state.Failure
				detail string
			}{
				{"/healthz", state.NoFailure, ""}, {"healthz", state.NoFailure, ""}, {"//192.0.2.1/healthz", state.NoFailure, ""}, {"http://192.0.2.1/healthz", state.NoFailure, ""},
				{"/a b%zz\x7f", state.NoFailure, ""}, {"/399", state.NoFailure, ""}, {"/503", state.BadStatus, "503 Service Unavailable"}, {"/on", state.NoFailure, ""},
				{"/to-503", state.BadStatus, "503"}, {"/elsewhere", state.NoFailure, ""}, {"/loop", state.BadStatus, "10 redirects"}, {"/nowhere", state.BadProtocol, "Location"},
			} {
				got := try(t, target, state.Probe{HTTP: &state.HTTPProbe{Path: tt.path, TLS: secure}})
				if got.failure != tt.want || !strings.Contains(got.detail, tt.detail) {
					t.Errorf("%s %q, TLS %v: got %v (%q), want %v", target, tt.path, secure, got.failure, got.detail, tt.want)
				}
			}
			try(t, target, state.Probe{HTTP: &state.HTTPProbe{TLS: secure, Path: "/x?q=1", Host: "web.example:81", Headers: []state.Header{{Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}}}})
			r := seen.Load()
			if r.Host != "web.example:81" || r.RequestURI != "/x?q=1" || !slices.Equal(r.Header["X-A"], []string{"1", "2"}) || r.Header.Get("User-Agent") != "pointsman/v1" || !r.Close || r.Method != "GET" || r.ProtoMajor != 1 {
				t.Errorf("asked for %q of %q, with %v", r.RequestURI, r.Host, r.Header)
			}
			if secure && r.TLS.ServerName != "web.example" {
				t.Errorf("server name %q", r.TLS.ServerName)
			}
			try(t, target, state.Probe{HTTP: &state.HTTPProbe{TLS: secure, Path: "/", Headers: []state.Header{{Name: "Host", Value: "b.example"}, {Name: "user-agent", Value: "x"}}}})
			if r := seen.Load(); r.Host != "b.example" || r.Header.Get("User-Agent") != "x" {
				t.Errorf("host %q, %v", r.Host, r.Header)
			}
			try(t, target, state.Probe{HTTP: &state.HTTPProbe{TLS: secure, Path: "/"}})
			if r := seen.Load(); r.Host != target.String() {
				t.Errorf("host %q, want %q", r.Host, target)
			}
		}
	}
}

// Servers that don't speak HTTP, or not as they should.
func TestHTTPMalformed(t *testing.T) {
	answer := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, text)
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}
	for _, tt := range []struct {
		name   string
		handle func(net.Conn)
		want   state.Failure
	}{
		{"nothing", answer(""), state.BadProtocol},
		{"another protocol", answer("SSH-2.0-OpenSSH_9.6\r\n"), state.BadProtocol},
		{"half a header", answer("HTTP/1.1 200 OK\r\nContent-Le"), state.BadProtocol},
		{"half a body", answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab"), state.BadProtocol},
		{"an endless header", answer("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"), state.BadProtocol},
		{"no length", answer("HTTP/1.1 200 OK\r\n\r\nab"), state.NoFailure},
		{"an endless body", answer("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("a", 1<<20)), state.NoFailure},
		{"switching", answer("HTTP/1.1 101 Switching Protocols\r\n\r\n"), state.BadStatus},
		{"a continue first", answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), state.NoFailure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := raw(t, tt.handle)
			expect(t, try(t, target, state.Probe{HTTP: &state.HTTPProbe{Path: "/"}}), tt.want, "")
		})
	}
	target := raw(t, answer("HTTP/1.1 400 Bad Request\r\n\r\n"))
	expect(t, try(t, target, state.Probe{HTTP: &state.HTTPProbe{Path: "/", TLS: true}}), state.BadTLS, "tls")
	refuses := closedPort(t, loopbacks[1])
	expect(t, try(t, refuses, state.Probe{HTTP: &state.HTTPProbe{Path: "/"}}), state.Refused, "")
	expect(t, try(t, refuses, state.Probe{HTTP: &state.HTTPProbe{Path: "/", TLS: true}}), state.Refused, "")
	expect(t, try(t, refuses, state.Probe{GRPC: &state.GRPCProbe{}}), state.Refused, "")
}

// Whatever a server does to keep a probe waiting, the timeout ends it.
func TestSlowServers(t *testing.T) {
	drips := func(first string) func(net.Conn) { // then a byte now and then, for ever
		return func(c net.Conn) {
			_, err := bufio.NewReader(c).ReadString('\n')
			for text := first; err == nil; text = "a" {
				_, err = io.WriteString(c, text)
				<-time.After(20 * time.Millisecond)
			}
		}
	}
	silent := func(net.Conn) {}
	h, s, g := state.Probe{HTTP: &state.HTTPProbe{Path: "/"}}, state.Probe{HTTP: &state.HTTPProbe{Path: "/", TLS: true}}, state.Probe{GRPC: &state.GRPCProbe{}}
	for _, tt := range []struct {
		name   string
		handle func(net.Conn)
		probe  state.Probe
	}{
		{"header", drips("HTTP/1.1 200 OK\r\nA: "), h}, {"body", drips("HTTP/1.1 200 OK\r\n\r\n"), h}, {"silence", silent, h}, {"TLS silence", silent, s}, {"gRPC silence", silent, g},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expect(t, tryFor(t, raw(t, tt.handle), tt.probe, 200*time.Millisecond), state.TimedOut, "")
		})
	}
}

// health serves grpc.health.v1.Health on HTTP/2 without TLS.
func health(t testing.TB, h http.HandlerFunc) []netip.AddrPort {
	var targets []netip.AddrPort
	for _, address := range loopbacks {
		l := listen(t, address)
		s := &http.Server{Handler: h, Protocols: new(http.Protocols), TLSConfig: &tls.Config{}}
		s.Protocols.SetUnencryptedHTTP2(true)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
		targets = append(targets, targetOf(l))
	}
	return targets
}

// grpcAnswer writes an answer as a gRPC server does.
func grpcAnswer(w http.ResponseWriter, status string, message []byte) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	_, _ = w.Write(message)
	w.Header().Set("Grpc-Status", status)
	w.Header().Set("Grpc-Message", "as asked")
}

func TestGRPC(t *testing.T) {
	framed := func(m string) []byte { return append([]byte{0, 0, 0, 0, byte(len(m))}, m...) }
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/grpc.health.v1.Health/Check" || r.Header.Get("Te") != "trailers" || r.Header.Get("Content-Type") != "application/grpc" {
			t.Errorf("asked for %s with %v: %v", r.URL, r.Header, err)
		}
		switch service := string(body[min(len(body), 7):]); service {
		case "", "web":
			grpcAnswer(w, "0", framed("\x08\x01"))
		case "down":
			grpcAnswer(w, "0", framed("\x08\x02"))
		case "unset":
			grpcAnswer(w, "0", framed(""))
		case "future":
			grpcAnswer(w, "0", framed("\x1a\x02ab\x08\x01\x25abcd\x29abcdefgh\x10\x05"))
		case "unknown":
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "5")
		case "no health":
			grpcAnswer(w, "12", nil)
		case "no status":
			w.Header().Set("Content-Type", "application/grpc")
		case "not grpc":
			w.WriteHeader(404)
		case "garbage":
			grpcAnswer(w, "0", framed("\xff"))
		case "compressed":
			grpcAnswer(w, "0", []byte{1, 0, 0, 0, 2, 8, 1})
		case "long":
			grpcAnswer(w, "0", make([]byte, 1<<20))
		}
	}
	for _, target := range health(t, handler) {
		for service, want := range map[string]state.Failure{
			"": state.NoFailure, "web": state.NoFailure, "future": state.NoFailure, "down": state.NotServing, "unset": state.NotServing, "unknown": state.NotServing,
			"no health": state.NotServing, "no status": state.BadProtocol, "not grpc": state.BadProtocol, "garbage": state.BadProtocol, "compressed": state.BadProtocol, "long": state.BadProtocol,
		} {
			got := try(t, target, state.Probe{GRPC: &state.GRPCProbe{Service: service}})
			if got.failure != want {
				t.Errorf("%s %q: got %v (%q), want %v", target, service, got.failure, got.detail, want)
			}
		}
	}
	// A server of HTTP/1 answers, then resets the connection that goes on: either
	// may be seen.
	plain := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	if got := try(t, plain[0], state.Probe{GRPC: &state.GRPCProbe{}}); got.failure != state.BadProtocol && got.failure != state.Refused {
		t.Errorf("a server of HTTP/1: got %v (%q)", got.failure, got.detail)
	}
}

func TestExec(t *testing.T) {
	target := netip.MustParseAddrPort("[fd00::1]:53")
	sh := func(script string) state.Probe { return state.Probe{Exec: []string{"sh", "-c", script}} }
	t.Setenv("POINTSMAN_SECRET", "x")
	for _, tt := range []struct {
		name   string
		probe  state.Probe
		want   state.Failure
		detail string
	}{
		{"success", sh("exit 0"), state.NoFailure, ""},
		{"failure", sh("echo bad news; echo worse >&2; exit 3"), state.ExitCode, "exit status 3: bad news worse"},
		{"endpoint", sh("echo $POINTSMAN_ADDRESS $POINTSMAN_PORT [$POINTSMAN_SECRET]; exit 1"), state.ExitCode, "fd00::1 53 []"},
		{"signal", sh("kill -TERM $$"), state.ExitCode, "signal: terminated"},
		{"much output", sh("head -c 1000000 /dev/zero | tr '\\0' a; exit 1"), state.ExitCode, "aaa"},
		{"no such program", state.Probe{Exec: []string{"/nonexistent/probe"}}, state.OtherFailure, "no such file"},
		{"what it leaves behind", sh("sleep 1000 & exit 0"), state.NoFailure, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := try(t, target, tt.probe)
			expect(t, got, tt.want, tt.detail)
			if len(got.detail) > maxDetail {
				t.Errorf("%d bytes of detail", len(got.detail))
			}
		})
	}
	out := New(Config{}).work(t.Context(), &state.Check{Target: target, Probe: &state.Probe{Exec: []string{"true"}, Timeout: time.Minute}})
	expect(t, out, state.OtherFailure, "--allow-exec-probes")
}

// At the timeout the command dies with its children.
func TestExecTimeout(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	p := state.Probe{Exec: []string{"sh", "-c", fmt.Sprintf("sleep 1000 & echo $! > %s; wait", pids)}}
	expect(t, tryFor(t, netip.MustParseAddrPort("192.0.2.1:80"), p, 500*time.Millisecond), state.TimedOut, "killed")
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	// Whoever reaps it may take its time; killed it is.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ") {
		t.Errorf("the child lives on: %s", stat)
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

// A frame may hold anything.
func FuzzHealthStatus(f *testing.F) {
	for _, m := range []string{"", "\x00\x00\x00\x00\x02\x08\x01", "\x00\x00\x00\x00\x04\x12\xff\xff\x03"} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if status, err := healthStatus(frame); err != nil && status != 0 {
			t.Errorf("%q: status %d and %v", frame, status, err)
		}
	})
}

// BenchmarkProbe is the whole cost of a probe, that of the server in the same
// process included.
func BenchmarkProbe(b *testing.B) {
	plain := serve(b, false, func(http.ResponseWriter, *http.Request) {})[0]
	secure := serve(b, true, func(http.ResponseWriter, *http.Request) {})[0]
	grpc := health(b, func(w http.ResponseWriter, _ *http.Request) {
		grpcAnswer(w, "0", []byte("\x00\x00\x00\x00\x02\x08\x01"))
	})[0]
	for _, bb := range []struct {
		name   string
		target netip.AddrPort
		probe  state.Probe
	}{
		{"tcp", plain, state.Probe{}}, {"http", plain, state.Probe{HTTP: &state.HTTPProbe{Path: "/"}}},
		{"https", secure, state.Probe{HTTP: &state.HTTPProbe{Path: "/", TLS: true}}}, {"grpc", grpc, state.Probe{GRPC: &state.GRPCProbe{}}}, {"exec", plain, state.Probe{Exec: []string{"true"}}},
	} {
		bb.probe.Timeout = time.Minute
		p := New(Config{AllowExec: true})
		b.Run(bb.name, func(b *testing.B) {
			var before, after syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if out := p.work(b.Context(), &state.Check{Target: bb.target, Probe: &bb.probe}); out.failure != state.NoFailure {
					b.Fatal(out.failure, out.detail)
				}
			}
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
				b.Fatal(err)
			}
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
		})
	}
}
