package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"pointsman/state/event"
)

// eventsAnswer lists what happened, oldest first.
type eventsAnswer struct {
	Started string        `json:"started"` // when the agent was: with the next, numbers of events begin anew
	Events  []event.Event `json:"events"`
}

// eventsQuery asks for the events since one with a number; if there are none,
// for the next one, for a while.
type eventsQuery struct {
	after uint64
	wait  time.Duration
}

// maxEventsWait is the longest that anybody waits for an event, before it's said
// that there are none. Shorter than a client's patience: so silence of an agent
// means that it's frozen.
const maxEventsWait = patience / 2

func (q eventsQuery) path() string {
	return fmt.Sprintf("/v1/events?after=%d&wait=%s", q.after, q.wait)
}

func readEventsQuery(v url.Values) (q eventsQuery, err error) {
	if text := v.Get("after"); text != "" {
		if q.after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, fmt.Errorf("after: %.80q is no number of an event", text)
		}
	}
	if text := v.Get("wait"); text != "" {
		if q.wait, err = time.ParseDuration(text); err != nil || q.wait < 0 {
			return q, fmt.Errorf("wait: %.80q is no time such as 2s", text)
		}
	}
	q.wait = min(q.wait, maxEventsWait)
	return q, nil
}

func (c *control) listEvents(w http.ResponseWriter, r *http.Request) {
	q, err := readEventsQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events, changed := c.events.After(q.after)
	if len(events) == 0 && q.wait > 0 {
		timeout := time.NewTimer(q.wait)
		defer timeout.Stop()
		select {
		case <-changed:
			events, _ = c.events.After(q.after)
		case <-timeout.C:
		case <-r.Context().Done():
			return
		}
	}
	reply(w, eventsAnswer{Started: c.started, Events: append([]event.Event{}, events...)})
}
