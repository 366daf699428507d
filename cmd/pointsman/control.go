package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"pointsman/gossip"
	"pointsman/reconcile"
)

// socketFlag names the control socket.
func socketFlag() *cli.StringFlag {
	return stringFlag("socket", defaultSocket, "the agent's control socket, a `FILE`")
}

// control answers the commands that ask the running agent: HTTP with JSON on a
// Unix socket. Who may open the socket is the file's mode: root, and its group.
type control struct {
	source *source
	fleet  *gossip.Agent
	health *reconcile.Health
}

// reads are the questions: GET. Who may open the socket may ask them.
func (c *control) reads() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/v1/status":    c.status,
		"/v1/problems":  c.problems,
		"/v1/served":    c.served,
		"/v1/endpoints": c.endpoints,
		"/v1/nodes":     c.nodes,
		"/v1/drains":    c.drains,
	}
}

// changes are what an operator may have the agent do: POST.
func (c *control) changes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/v1/drain":   c.drain,
		"/v1/undrain": c.undrain,
		"/v1/approve": c.approve,
		"/v1/reload":  c.reload,
	}
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range c.reads() {
		mux.HandleFunc("GET "+path, answer)
	}
	for path, answer := range c.changes() {
		mux.HandleFunc("POST "+path, answer)
	}
	return mux
}

// problemsAnswer is everything that is wrong with the manifests.
type problemsAnswer struct {
	jsonProblems
	Stale []string    `json:"stale"` // objects whose last good version is served: kind namespace/name
	Held  *heldAnswer `json:"held,omitempty"`
}

func (c *control) problems(w http.ResponseWriter, _ *http.Request) {
	answer := problemsAnswer{jsonProblems: problemList(nil), Stale: []string{}}
	if r := c.source.judged.Load(); r != nil {
		answer.jsonProblems = problemList(r.Problems)
		for _, k := range r.Stale {
			answer.Stale = append(answer.Stale, k.String())
		}
	}
	if f := c.source.inForce.Load(); f != nil {
		answer.Held = heldOf(f.held)
	}
	reply(w, answer)
}

// reply writes an answer. That the asker has gone is nobody's concern.
func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// socketMode lets the group in: an operator need not be root to ask.
const socketMode = 0o660

// listenControl makes the socket. One that nobody answers is left over from an
// agent that was killed.
func listenControl(ctx context.Context, path string) (net.Listener, error) {
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("%s: another agent answers there", path)
	} else if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}
