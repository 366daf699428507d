package main

import (
	"encoding/json"
	"net/http"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state/event"
)

// control answers the commands that ask the running agent: HTTP with JSON on a
// Unix socket. Who may open the socket is the file's mode; who may change
// something by it is in peer.go.
type control struct {
	group   int // the socket's
	events  *event.Log
	started string // when the agent was
	source  *source
	fleet   *gossip.Agent
	health  *reconcile.Health
	loop    *reconcile.Loop
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
		"/v1/names":     c.names,
		"/v1/events":    c.listEvents,
	}
}

// changes are what the agent may be made to do: POST. That takes more than to be
// able to open the socket.
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
		mux.HandleFunc("POST "+path, c.privileged(answer))
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
