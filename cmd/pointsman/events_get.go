package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/state/event"
)

func getEventsCommand() *cli.Command {
	only := &choiceFlag{stringFlag("type", "", "only events of this `TYPE`: "+strings.Join(eventTypes, " or ")), eventTypes}
	return lister(&cli.Command{
		Name:      "events",
		Aliases:   []string{"event", "ev"},
		Usage:     "what changed on this host, and why",
		ArgsUsage: "[NAME]",
		Description: "The latest of what happened since the agent started: endpoints that came and went, by whose\n" +
			"word; manifests that were refused; changes that are held; rules that somebody else changed;\n" +
			"hosts of the fleet. NAME is that of a Service (shop/web), a node, an endpoint's address, a file\n" +
			"or a process; loads of manifests are of each Service that they changed. What happens again\n" +
			"within ten minutes is counted.\n\n" +
			"Each event is a line of the log, too: journalctl -u pointsman POINTSMAN_REASON=EndpointDown",
	}, getEvents, append(namespaceFlags(), only, durationFlag("since", 0, "only what happened within this `TIME`"))...)
}

func getEvents(c *cli.Context) error {
	v, err := viewOf(c)
	if err != nil {
		return err
	}
	kind, since := c.String("type"), c.Duration("since")
	if kind != "" && !slices.Contains(eventTypes, kind) {
		return usage("--type: %q is none of %s", kind, strings.Join(eventTypes, ", "))
	}
	if since < 0 {
		return usage("--since: %v is still to come", since)
	}
	v.query.Set("type", kind)
	v.query.Set("since", since.String())
	return eventList(time.Now).show(c.Context, v)
}

// eventList shows events as kubectl does.
func eventList(now func() time.Time) resource[eventsAnswer, event.Event] {
	ago := func(t time.Time) string { return age(now().Sub(t)) }
	return resource[eventsAnswer, event.Event]{
		name: "events", path: "/v1/events", news: true,
		rows: func(a *eventsAnswer) []event.Event { return a.Events },
		key:  func(e *event.Event) string { return strconv.FormatUint(e.Seq, 10) },
		columns: []column[event.Event]{
			{head: "LAST SEEN", text: func(e *event.Event) string { return ago(e.Last) + times(e) }},
			{head: "TYPE", text: func(e *event.Event) string { return e.Type }},
			{head: "REASON", text: func(e *event.Event) string { return string(e.Reason) }},
			{head: "OBJECT", text: func(e *event.Event) string { return e.Object }},
			{head: "ENDPOINT", wide: true, text: func(e *event.Event) string { return orDash(e.Endpoint) }},
			{head: "NODE", wide: true, text: func(e *event.Event) string { return orDash(e.Node) }},
			{head: "FILE", wide: true, text: func(e *event.Event) string { return orDash(e.File) }},
			{head: "PROCESS", wide: true, text: func(e *event.Event) string { return orDash(e.Process) }},
			{head: "FIRST SEEN", wide: true, text: func(e *event.Event) string { return ago(e.First) }},
			{head: "MESSAGE", text: func(e *event.Event) string { return e.Message }},
		},
	}
}

// times says how often something happened, if that's more than once.
func times(e *event.Event) string {
	if e.Count < 2 {
		return ""
	}
	return fmt.Sprintf(" (x%d over %s)", e.Count, age(e.Last.Sub(e.First)))
}

// age gives a time in one unit, as kubectl does: of a larger one there are at
// least two.
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
