package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ask gets an answer of the running agent.
func ask(ctx context.Context, socket, path string, answer any) error {
	return call(ctx, socket, http.MethodGet, path, nil, answer)
}

// maxAnswer bounds what is read of an agent's answer.
const maxAnswer = 256 << 20

// patience is how long an agent may take to begin its answer. One that's frozen
// takes for ever; one that tells somebody else of 40,000 Services first, a while.
const patience = 10 * time.Second

// call sends a request to the running agent and decodes its answer.
func call(ctx context.Context, socket, method, path string, body, answer any) error {
	req, err := newRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	resp, hangUp, err := send(socket, req, 0)
	if err != nil {
		return err
	}
	defer hangUp()
	return readAnswer(resp, answer)
}

// send sends a request to the running agent, which may take a while longer than
// usual to answer.
func send(socket string, req *http.Request, longer time.Duration) (resp *http.Response, hangUp func(), err error) {
	client := &http.Client{Timeout: time.Minute + longer, Transport: &http.Transport{
		ResponseHeaderTimeout: patience + longer,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	if resp, err = client.Do(req); err != nil {
		client.CloseIdleConnections()
		return nil, nil, unreachable(socket, err)
	}
	return resp, func() { resp.Body.Close(); client.CloseIdleConnections() }, nil
}

// poller asks for what is new, again and again.
type poller struct {
	socket, path string
	tag          string // of the last answer
	soon         bool   // that there's an answer at all is news
}

// pollFor is how long the agent is to wait for something new, and pollSoon where
// that it answers is new.
const (
	pollFor  = 25 * time.Second
	pollSoon = 100 * time.Millisecond
)

// next waits until the answer is another one than the last time, and reads it. It
// reports whether it is: not to hear anything for a while is no error.
func (p *poller) next(ctx context.Context, answer any) (fresh bool, err error) {
	wait := pollFor
	if p.soon {
		wait = pollSoon
	}
	req, err := newRequest(ctx, http.MethodGet, p.path+"&wait="+wait.String(), nil)
	if err != nil {
		return false, err
	}
	if p.tag != "" {
		req.Header.Set("If-None-Match", p.tag)
	}
	resp, hangUp, err := send(p.socket, req, pollFor)
	if err != nil {
		return false, err
	}
	defer hangUp()
	if resp.StatusCode == http.StatusNotModified {
		return false, nil
	}
	if err := readAnswer(resp, answer); err != nil {
		return false, err
	}
	p.tag = resp.Header.Get("ETag")
	return true, nil
}

// errNoAgent says that there's nobody to ask.
var errNoAgent = errors.New("no agent runs here")

// unreachable says why the agent doesn't answer, as an operator sees it.
func unreachable(socket string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%w: nobody answers on %s", errNoAgent, socket)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: permission denied; are you root, or in the socket's group?", socket)
	}
	var asked *url.Error // which names a URL that is nobody's business
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return fmt.Errorf("the agent doesn't answer on %q: %w", socket, err)
}

// refusal is an error that the agent has answered with.
type refusal string

// Error says that it's the agent's word.
func (r refusal) Error() string { return "the agent says: " + string(r) }

func newRequest(ctx context.Context, method, path string, body any) (*http.Request, error) {
	if body == nil {
		return http.NewRequestWithContext(ctx, method, "http://pointsman"+path, nil)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, method, "http://pointsman"+path, bytes.NewReader(text))
}

// readAnswer decodes the agent's answer, or gives the error that it's a text of.
func readAnswer(resp *http.Response, answer any) error {
	body := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, 4096))
		return refusal(strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(body).Decode(answer); err != nil {
		return fmt.Errorf("the agent's answer: %w", err)
	}
	return nil
}
