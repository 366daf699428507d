package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// TestQuestionsChangeNothing: what is asked is GET and what changes something is
// POST, and nothing is both. Who can't be told changes nothing.
func TestQuestionsChangeNothing(t *testing.T) {
	c := &control{source: &source{}}
	check := func(method, path string, want int) {
		t.Helper()
		rec := httptest.NewRecorder()
		c.handler().ServeHTTP(rec, httptest.NewRequest(method, path, nil))
		if rec.Code != want {
			t.Errorf("%s %s: %d, not %d", method, path, rec.Code, want)
		}
	}
	for path := range c.changes() {
		check(http.MethodGet, path, http.StatusMethodNotAllowed)
		check(http.MethodPost, path, http.StatusForbidden)
	}
	for path := range c.reads() {
		check(http.MethodPost, path, http.StatusMethodNotAllowed)
	}
}

// TestNamesOfOthers: of the names that the agent gives, those that mean something to
// a shell are left out.
func TestNamesOfOthers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, namesAnswer{Names: []nameAnswer{{Name: "$(reboot)"}, {Name: "n1", About: "alive"}, {Name: "n2;reboot"}}})
	})}
	listener := must[net.Listener](t)(net.Listen("unix", socket))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	if got := askNames(t.Context(), socket, nameQuery{kind: "nodes"}); len(got) != 1 || got[0] != (candidate{"n1", "alive"}) {
		t.Errorf("%q", got)
	}
}
