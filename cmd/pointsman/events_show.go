package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"pointsman/state/event"
)

// list shows events and nothing after them.
func (w *eventsWatch) list(events []event.Event) error {
	if w.format == "json" {
		return writeJSON(w.out, eventsAnswer{Started: w.started, Events: events})
	}
	if len(events) == 0 {
		fmt.Fprintln(w.notes, "no events")
	}
	return w.show(events, true)
}

// show shows events as they come: a line of JSON or of a table each.
func (w *eventsWatch) show(events []event.Event, first bool) error {
	if w.format == "json" {
		for i := range events {
			if err := json.NewEncoder(w.out).Encode(&events[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return showEvents(w.out, events, eventColumns{wide: w.format == "wide", header: first, now: time.Now()})
}

// eventColumns says what of events is shown, and when.
type eventColumns struct {
	wide, header bool
	now          time.Time
}

func showEvents(out io.Writer, events []event.Event, c eventColumns) error {
	if len(events) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if c.header {
		wide := ""
		if c.wide {
			wide = "ENDPOINT\tNODE\tFILE\tPROCESS\tFIRST SEEN\tCOUNT\t"
		}
		fmt.Fprintf(w, "LAST SEEN\tTYPE\tREASON\tOBJECT\t%sMESSAGE\n", wide)
	}
	for i := range events {
		fmt.Fprintln(w, c.row(&events[i]))
	}
	return w.Flush()
}

func (c eventColumns) row(e *event.Event) string {
	last, wide := age(c.now.Sub(e.Last)), ""
	switch {
	case c.wide:
		wide = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t", orDash(e.Endpoint), orDash(e.Node), orDash(e.File), orDash(e.Process), age(c.now.Sub(e.First)), e.Count)
	case e.Count > 1:
		last += fmt.Sprintf(" (x%d over %s)", e.Count, age(e.Last.Sub(e.First)))
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s%s", last, e.Type, e.Reason, e.Object, wide, e.Message)
}

// age gives a time in one unit, as kubectl does: two of a unit are the least that
// it's told in.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}
