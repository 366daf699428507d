package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state/event"
)

func TestReadEventsQuery(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"since=1h&wait=20s":          "",
		"type=Normal&type=x":         "",
		"type=warning":               `type: "warning" is none of Normal, Warning`,
		"wait=-1s":                   `wait: "-1s" is no time such as 20s`,
		"since=yesterday&wait=later": `since: "yesterday" is no time such as 20s`,
	} {
		v, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := readEventsQuery(v, at); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

// TestEventsWait: who asks for what comes next is answered as soon as it comes,
// with that alone, or with nothing when the time is over.
func TestEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &control{events: event.NewLog("n1", event.Most), started: "now", words: newTurnstile()}
		ask := func(query, tag string) (body, next string, took time.Duration) {
			began := time.Now()
			r := httptest.NewRequest(http.MethodGet, "/v1/events?"+query, nil)
			r.Header.Set("If-None-Match", tag)
			w := httptest.NewRecorder()
			c.listEvents(w, r)
			var answer eventsAnswer
			if w.Code == http.StatusOK {
				if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
					t.Fatal(err)
				}
			}
			body = fmt.Sprint(w.Code)
			for _, e := range answer.Events {
				body += " " + e.Message
			}
			return body, w.Header().Get("ETag"), time.Since(began)
		}
		happens := func(kind, text string) {
			c.events.Add(event.Event{Type: kind, Reason: event.Reason(text), Message: text})
		}
		body, first, took := ask("wait=20s", "")
		if body != "200" || took != 0 {
			t.Errorf("the first answer: %s after %s", body, took)
		}
		time.AfterFunc(time.Second, func() { happens(event.Normal, "one") })
		time.AfterFunc(2*time.Second, func() { happens(event.Warning, "two") })
		if body, _, took = ask("wait=20s&type=Warning", first); body != "200 two" || took != 2*time.Second {
			t.Errorf("a warning: %s after %s", body, took)
		}
		body, second, _ := ask("wait=20s", first)
		if body != "200 one two" {
			t.Errorf("after nothing: %s", body)
		}
		if body, _, took = ask("wait=20s", second); body != "304" || took != 20*time.Second {
			t.Errorf("nothing new: %s after %s", body, took)
		}
		for _, tag := range []string{`"before/2"`, `"now/x"`, `"now"`, "*"} {
			if body, _, _ = ask("wait=20s", tag); body != "200 one two" {
				t.Errorf("another agent's tag %s: %s", tag, body)
			}
		}
	})
}

func TestEventsQueryHas(t *testing.T) {
	e := event.Event{Type: event.Warning, Reason: event.EndpointDown, Object: "Service shop/web", Endpoint: "10.20.0.11:8080", Node: "n2",
		File: "web.yaml:7", Process: "firewalld", Last: at}
	for _, c := range []struct {
		q   eventsQuery
		has bool
	}{
		{eventsQuery{}, true},
		{eventsQuery{wanted: wanted{namespace: "shop"}}, true}, {eventsQuery{wanted: wanted{namespace: "other"}}, false},
		{eventsQuery{kind: event.Warning}, true}, {eventsQuery{kind: event.Normal}, false},
		{eventsQuery{since: at}, true}, {eventsQuery{since: at.Add(1)}, false},
		{eventsQuery{wanted: wanted{name: "web"}}, true}, {eventsQuery{wanted: wanted{namespace: "shop", name: "web"}}, true},
		{eventsQuery{wanted: wanted{namespace: "other", name: "web"}}, false}, {eventsQuery{wanted: wanted{name: "eb"}}, false},
		{eventsQuery{wanted: wanted{name: "10.20.0.11"}}, true}, {eventsQuery{wanted: wanted{name: "10.20.0.11:8080"}}, true},
		{eventsQuery{wanted: wanted{name: "n2"}}, true}, {eventsQuery{wanted: wanted{name: "web.yaml"}}, true}, {eventsQuery{wanted: wanted{name: "firewalld"}}, true},
	} {
		if c.q.has(&e) != c.has {
			t.Errorf("%+v: %v", c.q, !c.has)
		}
	}
	one := event.Event{Object: "Manifests 0123", Concerns: event.Concerns{"shop/web", "infra/dns"}}
	many := event.Event{Object: "Manifests 0123", Concerns: event.Concerns{event.Everything}}
	for _, c := range []struct{ namespace, name, is string }{
		{"", "", "true true"}, {"shop", "", "true true"}, {"shop", "web", "true true"}, {"", "dns", "true false"}, {"shop", "dns", "false true"},
		{"other", "", "false true"}, {"", "n1", "false false"}, {"", "0123", "true true"},
	} {
		q := eventsQuery{wanted: wanted{namespace: c.namespace, name: c.name}}
		if got := fmt.Sprint(q.has(&one), " ", q.has(&many)); got != c.is {
			t.Errorf("%s/%s of those that a load changed: %s", c.namespace, c.name, got)
		}
	}
	node := event.Event{Object: "Node n1"}
	if q := (eventsQuery{wanted: wanted{namespace: "shop"}}); q.has(&node) {
		t.Error("a node is in a namespace")
	}
	if q := (eventsQuery{wanted: wanted{name: "n1"}}); !q.has(&node) {
		t.Error("a node has no name")
	}
}

func TestEventColumns(t *testing.T) {
	list := eventList(func() time.Time { return at.Add(3 * time.Minute) })
	for wide, want := range map[bool]string{
		false: "2m (x5 over 11m)|Warning|EndpointDown|Service shop/web|it's down",
		true:  "2m (x5 over 11m)|Warning|EndpointDown|Service shop/web|10.20.0.11:8080|-|-|-|13m|it's down",
	} {
		e := event.Event{Type: event.Warning, Reason: event.EndpointDown, Object: "Service shop/web", Endpoint: "10.20.0.11:8080", Message: "it's down",
			Count: 5, First: at.Add(-10 * time.Minute), Last: at.Add(time.Minute)}
		if got := strings.Join(cells(columnsOf(list.columns, wide), &e), "|"); got != want {
			t.Errorf("%s\nnot %s", got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 400 * 24 * time.Hour: "400d"} {
		if got := age(d); got != want {
			t.Errorf("%s: %s, not %s", d, got, want)
		}
	}
}

// agentOf answers for an agent on a socket, until it's stopped.
func agentOf(t *testing.T, socket, started string, log *event.Log) *http.Server {
	t.Helper()
	listener := must[net.Listener](t)((&net.ListenConfig{}).Listen(t.Context(), "unix", socket))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/events", (&control{events: log, started: started, words: newTurnstile()}).listEvents)
	srv := &http.Server{Handler: mux}
	go func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { srv.Close() })
	return srv
}

// transcript is what a command writes, which tests read meanwhile.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// until waits for a text.
func (l *transcript) until(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() error {
		if got := l.String(); !strings.Contains(got, text) {
			return errors.New("no " + text + " in\n" + got)
		}
		return nil
	})
}

// TestWatchEvents: what happens is shown as it happens, each thing once, and the
// watch outlives the agent.
func TestWatchEvents(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	happened := func(text string) event.Event {
		return event.Event{Type: event.Normal, Reason: event.Started, Message: text, Count: 1}
	}
	log := event.NewLog("n1", event.Most)
	log.Add(happened("one"))
	agent := agentOf(t, socket, "first", log)
	ctx, interrupt := context.WithCancel(t.Context())
	out, notes, ended := &transcript{}, &transcript{}, make(chan int)
	go func() {
		ended <- Main(ctx, []string{"pointsman", "get", "events", "-w", "-o", "json", "--socket", socket, "--config", ""}, out, notes)
	}()
	out.until(t, `"message":"one"`)
	log.Add(happened("two"))
	out.until(t, `"message":"two"`)
	agent.Close()
	notes.until(t, "trying again")
	log = event.NewLog("n1", event.Most)
	log.Add(happened("three"))
	agentOf(t, socket, "second", log)
	out.until(t, `"message":"three"`)
	notes.until(t, "the agent answers again")
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := out.String(); strings.Count(got, "\n") != 3 {
		t.Errorf("not three events:\n%s", got)
	}
	if got := notes.String(); strings.Count(got, "\n") != 2 {
		t.Errorf("not two notes:\n%s", got)
	}
}

// TestWatchEventsEndsWithItsReader: a pipe that nobody reads ends the watch.
func TestWatchEventsEndsWithItsReader(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	log := event.NewLog("n1", event.Most)
	log.Add(event.Event{Reason: event.Started})
	agentOf(t, socket, "now", log)
	r, w := io.Pipe()
	r.Close()
	if code := Main(t.Context(), []string{"pointsman", "get", "events", "-w", "--socket", socket, "--config", ""}, w, io.Discard); code != exitError {
		t.Errorf("exit code %d", code)
	}
}

// happened waits until the agent tells of an event, and gives the latest of its
// sort.
func (a *daemon) happened(reason event.Reason, text string) event.Event {
	a.t.Helper()
	var found event.Event
	eventually(a.t, func() error {
		var answer eventsAnswer
		if err := a.ask(&answer, "events"); err != nil {
			return err
		}
		for _, e := range answer.Events {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				found = e
			}
		}
		if found.Reason == "" {
			return fmt.Errorf("%s: no %s %q in %+v", a, reason, text, answer.Events)
		}
		return nil
	})
	return found
}
