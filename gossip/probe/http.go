package probe

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"pointsman/state"
)

const (
	maxBody      = 10 << 10 // bytes that are read of an answer, as the kubelet does
	maxAnswer    = 64 << 10 // bytes that are read at all, with the header
	maxRedirects = 10
)

var errRedirects = errors.New("stopped after 10 redirects")

// http asks by HTTP as the kubelet does (pkg/probe/http): a status from 200 to
// 399 is a success, and so is a redirect to another host, which isn't followed.
// Whatever there is of the first 10 KiB of the body must arrive in time.
func (x *executor) http(ctx context.Context, target netip.AddrPort, h *state.HTTPProbe) outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "", nil)
	if err != nil {
		return failed(state.OtherFailure, "%v", err)
	}
	req.URL = addressOf(target, h)
	x.setHeaders(req, h)
	client := &http.Client{Transport: once{x, req.Host}, CheckRedirect: checkRedirect}
	resp, err := client.Do(req)
	if errors.Is(err, errRedirects) {
		return failed(state.BadStatus, "%v", err)
	}
	if err != nil {
		return classify(cause(err), state.BadProtocol)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)); err != nil {
		return classify(err, state.BadProtocol)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return failed(state.StatusFailure(resp.StatusCode), "HTTP status %s", resp.Status)
	}
	return outcome{}
}

// cause takes off what http.Client says before an error: the method and URL are
// known.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// addressOf gives the URL to ask. The path may hold a query; one that isn't
// part of any URL is taken as it stands. Where it names a host, that's ignored.
func addressOf(target netip.AddrPort, h *state.HTTPProbe) *url.URL {
	u, err := url.Parse(h.Path)
	if err != nil {
		u = &url.URL{Path: h.Path}
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
		if u.RawPath != "" {
			u.RawPath = "/" + u.RawPath
		}
	}
	scheme := "http"
	if h.TLS {
		scheme = "https"
	}
	return &url.URL{Scheme: scheme, Host: target.String(), Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
}

// setHeaders sets the headers. A Host among them counts as in the kubelet, and
// more than HTTPProbe.Host.
func (x *executor) setHeaders(req *http.Request, h *state.HTTPProbe) {
	for _, header := range h.Headers {
		req.Header.Add(header.Name, header.Value)
	}
	req.Host = cmp.Or(req.Header.Get("Host"), h.Host)
	if _, given := req.Header["User-Agent"]; !given {
		req.Header.Set("User-Agent", x.userAgent)
	}
	if _, given := req.Header["Accept"]; !given {
		req.Header.Set("Accept", "*/*")
	}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return errRedirects
	}
	return nil
}

// once is a http.RoundTripper that uses each connection once. http.Transport
// would start three goroutines for each, and write a line to the log whenever a
// server speaks before it's asked, which is for its probe to say.
type once struct {
	*executor
	host string // of the Host header, for TLS
}

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	address, err := portOf(req.URL)
	if err != nil {
		return nil, err
	}
	conn, err := o.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	// The deadline is the connection's too, but the agent may end before.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	body := &connBody{conn: conn, stop: stop}
	if req.URL.Scheme == "https" {
		if body.conn, err = handshake(ctx, conn, o.host); err != nil {
			return nil, errors.Join(err, body.Close())
		}
	}
	resp, err := exchange(body.conn, req)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	body.Reader, resp.Body = resp.Body, body
	return resp, nil
}

// portOf gives the address and port of a URL, which a redirect may have brought.
func portOf(u *url.URL) (string, error) {
	port, ok := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if !ok {
		return "", fmt.Errorf("redirected to a URL of scheme %q", u.Scheme)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), nil
}

// exchange asks, and reads the header of the answer. What may come before it
// (status 100 to 199) is passed over.
func exchange(conn net.Conn, req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context()) // which isn't ours to change
	req.Close = true
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	answer := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	for {
		resp, err := http.ReadResponse(answer, req)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// connBody is the body of an answer, whose end is that of the connection: the
// body's own Close would read on to its end.
type connBody struct {
	io.Reader
	conn net.Conn
	stop func() bool
}

func (b *connBody) Close() error {
	b.stop()
	return b.conn.Close()
}

// connect opens a connection, which ends by itself with the context's deadline.
func (x *executor) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := x.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// tlsError is an error of a TLS handshake.
type tlsError struct{ error }

func (e *tlsError) Unwrap() error { return e.error }

// handshake makes a TLS connection of one, or gives that one back. The
// certificate isn't verified, as in the kubelet: it's asked whether the backend
// works, and told no secrets.
func handshake(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: name})
	if err := secure.HandshakeContext(ctx); err != nil {
		return conn, &tlsError{err}
	}
	return secure, nil
}
