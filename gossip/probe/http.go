package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
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
	maxHeader    = 64 << 10 // bytes of an answer's header
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
	t := x.transport(ctx, req.Host)
	t.Protocols.SetHTTP1(true)
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, CheckRedirect: checkRedirect}
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
		return failed(state.BadStatus, "HTTP status %s", resp.Status)
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

// transport gives a transport for one probe, whose connections end with ctx. One
// for all would go on dialing for a while, for others to use the connection.
func (x *executor) transport(ctx context.Context, host string) *http.Transport {
	dial := func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := x.dial(ctx, network, address)
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
	return &http.Transport{
		DialContext: dial,
		DialTLSContext: func(_ context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return handshake(ctx, conn, host)
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		ExpectContinueTimeout:  time.Second,
		Protocols:              new(http.Protocols),
	}
}

// tlsError is an error of a TLS handshake.
type tlsError struct{ error }

func (e *tlsError) Unwrap() error { return e.error }

// handshake makes a TLS connection. The certificate isn't verified, as in the
// kubelet: it's asked whether the backend works, and told no secrets.
func handshake(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: name})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(&tlsError{err}, conn.Close())
	}
	return secure, nil
}
