package probe

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"testing"

	"pointsman/state"
)

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
