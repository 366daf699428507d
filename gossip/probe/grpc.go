package probe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"pointsman/state"
)

// maxMessage bounds the answer of a health check, which takes 2 bytes.
const maxMessage = 1 << 10

// grpc asks grpc.health.v1.Health/Check. The standard library speaks HTTP/2
// without TLS since Go 1.24; what gRPC adds to it for one call is a length, two
// protobuf fields and a trailer. google.golang.org/grpc would do no more, and
// add 5 MB to the binary.
func (x *executor) grpc(ctx context.Context, target netip.AddrPort, g *state.GRPCProbe) outcome {
	url := &url.URL{Scheme: "http", Host: target.String(), Path: "/grpc.health.v1.Health/Check"}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url.String(), bytes.NewReader(healthRequest(g.Service)))
	if err != nil {
		return failed(state.OtherFailure, "%v", err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	req.Header.Set("User-Agent", x.userAgent)
	t := x.http2(ctx)
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return classify(err, state.BadProtocol)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err != nil {
		return classify(err, state.BadProtocol)
	}
	return healthAnswer(resp, body)
}

// http2 gives a transport for one probe. One for all would go on dialing after
// a timeout, for others to use the connection.
func (x *executor) http2(ctx context.Context) *http.Transport {
	t := &http.Transport{
		DialContext:            func(_ context.Context, _, address string) (net.Conn, error) { return x.connect(ctx, address) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswer,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// healthAnswer judges an answer. The status stands in the trailer, or in the
// header of an answer that has nothing else.
func healthAnswer(resp *http.Response, body []byte) outcome {
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/grpc") {
		return failed(state.BadProtocol, "not gRPC: HTTP status %s, content type %q", resp.Status, resp.Header.Get("Content-Type"))
	}
	status := cmp.Or(resp.Trailer.Get("Grpc-Status"), resp.Header.Get("Grpc-Status"))
	message := cmp.Or(resp.Trailer.Get("Grpc-Message"), resp.Header.Get("Grpc-Message"))
	switch status {
	case "0":
	case "":
		return failed(state.BadProtocol, "no gRPC status")
	case "12":
		return failed(state.NotServing, "the server has no health service: %s", message)
	default:
		return failed(state.NotServing, "gRPC status %s: %s", status, message)
	}
	serving, err := healthStatus(body)
	if err != nil {
		return failed(state.BadProtocol, "%v", err)
	}
	const servingStatus = 1
	if serving != servingStatus {
		return failed(state.NotServing, "health status %d", serving)
	}
	return outcome{}
}

// healthRequest gives a HealthCheckRequest{service = 1} in gRPC's framing: no
// compression, four bytes of length.
func healthRequest(service string) []byte {
	var m []byte
	if service != "" {
		m = append(m, 1<<3|wireBytes)
		m = append(binary.AppendUvarint(m, uint64(len(service))), service...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// The wire types of protobuf that a field may have (the groups are gone).
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// healthStatus gives the status of a framed HealthCheckResponse{status = 1}; a
// field that isn't there is 0. Fields of the future are passed over.
func healthStatus(frame []byte) (uint64, error) {
	if len(frame) < 5 || frame[0] != 0 || uint64(binary.BigEndian.Uint32(frame[1:])) != uint64(len(frame)-5) {
		return 0, fmt.Errorf("not one gRPC message: %d bytes", len(frame))
	}
	status, m := uint64(0), frame[5:]
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		if n <= 0 {
			return 0, fmt.Errorf("malformed health status")
		}
		m = m[n:]
		value, size := fieldSize(tag&7, m)
		if size < 0 || size > len(m) {
			return 0, fmt.Errorf("malformed health status")
		}
		if tag == 1<<3|wireVarint {
			status = value
		}
		m = m[size:]
	}
	return status, nil
}

// fieldSize gives the size of a field's value in bytes, and the value of a
// varint; -1 where it isn't one. The size may be more than there is.
func fieldSize(wire uint64, m []byte) (value uint64, size int) {
	switch wire {
	case wireVarint:
		if v, n := binary.Uvarint(m); n > 0 {
			return v, n
		}
	case wireFixed64:
		return 0, 8
	case wireFixed32:
		return 0, 4
	case wireBytes:
		if v, n := binary.Uvarint(m); n > 0 && v <= maxMessage {
			return 0, n + int(v)
		}
	}
	return 0, -1
}
