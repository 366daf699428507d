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
	members *bell // rings when there is news of the fleet
	left    *remaining
	loop    *reconcile.Loop

	lists, words, reasons turnstile // of those who ask for what may be long, for what is short, and for explanations
}

// reads are the questions: GET. Who may open the socket may ask them.
func (c *control) reads() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/v1/status":    c.words.each(c.status),
		"/v1/served":    c.answering(c.served, &c.source.news),
		"/v1/services":  c.answering(c.services, &c.source.news),
		"/v1/endpoints": c.answering(c.endpoints, &c.source.news),
		"/v1/problems":  c.answering(c.problems, &c.source.news),
		"/v1/drains":    c.answering(c.drains, &c.source.news),
		"/v1/left":      c.left.ServeHTTP,
		"/v1/nodes":     c.answering(c.nodes, c.members),
		"/v1/names":     c.words.each(c.names),
		"/v1/explain":   c.reasons.each(c.explain),
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

// answering answers what can be watched.
func (c *control) answering(look func(wanted) answer, news *bell) http.HandlerFunc {
	return (&question{look: look, news: news, turns: c.lists}).ServeHTTP
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

// reply writes an answer. That the asker has gone is nobody's concern.
func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
