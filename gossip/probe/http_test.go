package probe

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pointsman/state"
)

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

func TestHTTP(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
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
				{"/a b%zz\x7f", state.NoFailure, ""}, {"/399", state.NoFailure, ""}, {"/503", state.StatusFailure(503), "503 Service Unavailable"}, {"/on", state.NoFailure, ""},
				{"/to-503", state.StatusFailure(503), "503"}, {"/elsewhere", state.NoFailure, ""}, {"/loop", state.BadStatus, "10 redirects"}, {"/nowhere", state.BadProtocol, "Location"},
			} {
				got := try(t, target, state.Probe{HTTP: &state.HTTPProbe{Path: tt.path, TLS: secure}})
				if got.failure != tt.want || !strings.Contains(got.detail, tt.detail) {
					t.Errorf("%s %q, TLS %v: got %v (%q), want %v", target, tt.path, secure, got.failure, got.detail, tt.want)
				}
			}
		}
	}
}

func TestPortOf(t *testing.T) {
	for text, want := range map[string]string{
		"http://192.0.2.1/": "192.0.2.1:80", "https://[::1]/x": "[::1]:443", "https://192.0.2.1:80": "192.0.2.1:80", "ftp://192.0.2.1/": "",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := portOf(u); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
}

// What a probe asks for is what the manifest says.
func TestHTTPRequest(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	for _, secure := range []bool{false, true} {
		for _, target := range serve(t, secure, func(_ http.ResponseWriter, r *http.Request) { seen.Store(r) }) {
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
