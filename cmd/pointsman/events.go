package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pointsman/state/event"
)

// eventsAnswer lists what happened, oldest first.
type eventsAnswer struct {
	Events []event.Event `json:"events"`
}

// listEvents answers at once with the events that are asked for; or, who has an
// answer already (ETag and If-None-Match), as soon as there are others, with
// those alone. A tag of an agent that was here before means none.
func (c *control) listEvents(w http.ResponseWriter, r *http.Request) {
	q, err := readEventsQuery(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	tag := r.Header.Get("If-None-Match")
	if tag == "" {
		q.wait = 0
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(q.wait, maxWait))
	defer cancel()
	events := c.eventsAfter(ctx, c.readTag(tag), q)
	if n := len(events); n > 0 {
		w.Header().Set("ETag", c.tag(events[n-1].Seq))
	} else if tag != "" {
		w.WriteHeader(http.StatusNotModified)
		return
	} else {
		w.Header().Set("ETag", c.tag(0))
	}
	c.words.each(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, eventsAnswer{append([]event.Event{}, events...)})
	})(w, r)
}

// eventsAfter gives the events since one with a number, or the first that come
// before ctx ends.
func (c *control) eventsAfter(ctx context.Context, seq uint64, q eventsQuery) []event.Event {
	for {
		events, changed := c.events.After(seq)
		events = slices.DeleteFunc(events, func(e event.Event) bool { return !q.has(&e) })
		if len(events) > 0 || !waitFor(ctx, changed) {
			return events
		}
	}
}

// tag names the last event of an answer, and the agent: numbers begin anew with
// the next one.
func (c *control) tag(seq uint64) string { return fmt.Sprintf(`"%s/%d"`, c.started, seq) }

func (c *control) readTag(tag string) (seq uint64) {
	started, number, _ := strings.Cut(strings.Trim(tag, `"`), "/")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || started != c.started {
		return 0
	}
	return seq
}

// eventsQuery chooses events; what is zero chooses all.
type eventsQuery struct {
	wanted
	kind  string // Normal or Warning
	since time.Time
	wait  time.Duration
}

func readEventsQuery(v url.Values, now time.Time) (eventsQuery, error) {
	q := eventsQuery{wanted: wanted{namespace: v.Get("namespace"), name: v.Get("name")}, kind: v.Get("type")}
	if q.kind != "" && !slices.Contains(eventTypes, q.kind) {
		return q, fmt.Errorf("type: %.80q is none of %s", q.kind, strings.Join(eventTypes, ", "))
	}
	since, err := readTime(v, "since")
	if since > 0 {
		q.since = now.Add(-since)
	}
	if err == nil {
		q.wait, err = readTime(v, "wait")
	}
	return q, err
}

// readTime reads a time that may be missing.
func readTime(v url.Values, key string) (time.Duration, error) {
	d, err := time.ParseDuration("0" + v.Get(key))
	if err != nil {
		return 0, fmt.Errorf("%s: %.80q is no time such as 20s", key, v.Get(key))
	}
	return d, nil
}

var eventTypes = []string{event.Normal, event.Warning}

func (q *eventsQuery) has(e *event.Event) bool {
	isOf := (q.namespace == "" || q.namespace == e.Namespace()) && (q.name == "" || slices.Contains(namesOf(e), q.name))
	return (isOf || q.isConcern(e)) && (q.kind == "" || q.kind == e.Type) && !e.Last.Before(q.since)
}

// isConcern reports whether what is asked for is one of the Services that an event
// concerns. One that concerns everything is no answer to a name alone, which may be
// that of a host or a file.
func (q *eventsQuery) isConcern(e *event.Event) bool {
	return slices.ContainsFunc(e.Concerns, func(c string) bool {
		namespace, name, _ := strings.Cut(c, "/")
		if c == event.Everything {
			return q.namespace != ""
		}
		return (q.namespace == "" || q.namespace == namespace) && (q.name == "" || q.name == name)
	})
}

// namesOf gives what may be meant by the name of an event.
func namesOf(e *event.Event) []string {
	_, object, _ := strings.Cut(e.Object, " ")
	if e.Namespace() != "" {
		_, object, _ = strings.Cut(object, "/")
	}
	file, _, _ := strings.Cut(e.File, ":")
	names := []string{object, e.Endpoint, e.Node, file, e.Process}
	if a, err := netip.ParseAddrPort(e.Endpoint); err == nil {
		names = append(names, a.Addr().String())
	}
	return names
}
