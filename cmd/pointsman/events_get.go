package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/state/event"
)

func getEventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "what changed on this host, and why",
		ArgsUsage: "[NAME]",
		Description: "The latest of what happened since the agent started: endpoints that came and went, by whose\n" +
			"word; manifests that were refused; changes that are held; rules that somebody else changed;\n" +
			"hosts of the fleet. NAME is that of a Service (shop/web), a node, a file or a process, or an\n" +
			"endpoint's address. What happens again within ten minutes is counted.\n\n" +
			"Each event is in the log, too, and stays there: journalctl -u pointsman POINTSMAN_REASON=EndpointDown",
		Flags: []cli.Flag{
			configFlag(), socketFlag(), outputFlag(eventFormats...), namespaceFlag(),
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on with what happens from now on"},
			&choiceFlag{&cli.StringFlag{Name: "type", Usage: "only events of this `TYPE`: Normal or Warning"}, []string{event.Normal, event.Warning}},
			&cli.DurationFlag{Name: "since", Usage: "only what happened within this `TIME`"},
		},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       getEvents,
	}
}

var eventFormats = []string{"text", "wide", "json"}

// eventsWatch is what getEvents makes of the command line.
type eventsWatch struct {
	socket string
	keep   eventFilter
	format string
	out    io.Writer
	notes  io.Writer // for what is no event

	started string // when the agent was whose events they are
	last    uint64 // the number of the last that is known
}

func getEvents(c *cli.Context) error {
	if c.NArg() > 1 {
		return usage("get events: what is %q?", c.Args().Get(1))
	}
	w := &eventsWatch{socket: c.String("socket"), out: c.App.Writer, notes: c.App.ErrWriter}
	var err error
	if w.format, err = outputOf(c, eventFormats...); err != nil {
		return err
	}
	w.keep = eventFilter{namespace: c.String("namespace"), name: c.Args().First(), kind: c.String("type")}
	if !slices.Contains([]string{"", event.Normal, event.Warning}, w.keep.kind) {
		return usage("--type: %q is none of Normal, Warning", w.keep.kind)
	}
	if since := c.Duration("since"); since > 0 {
		w.keep.since = time.Now().Add(-since)
	}
	events, err := w.next(c.Context, 0)
	if err != nil {
		return err
	}
	if !c.Bool("watch") {
		return w.list(events)
	}
	return w.goOn(c.Context, events)
}

// next gives the events after the last one; if there are none, it waits for one,
// not for ever.
func (w *eventsWatch) next(ctx context.Context, wait time.Duration) ([]event.Event, error) {
	var answer eventsAnswer
	if err := ask(ctx, w.socket, eventsQuery{w.last, wait}.path(), &answer); err != nil {
		return nil, err
	}
	if w.started != "" && answer.Started != w.started {
		fmt.Fprintln(w.notes, "pointsman: the agent was restarted")
		w.started, w.last = answer.Started, 0
		return w.next(ctx, 0)
	}
	w.started = answer.Started
	if n := len(answer.Events); n > 0 {
		w.last = answer.Events[n-1].Seq
	}
	return slices.DeleteFunc(answer.Events, w.keep.not), nil
}

// askAgain is the time between two attempts to reach an agent that has gone.
const askAgain = 500 * time.Millisecond

// goOn shows events, then those that come, until it's interrupted. An agent may be
// gone for a while.
func (w *eventsWatch) goOn(ctx context.Context, events []event.Event) error {
	if err := w.show(events, true); err != nil {
		return err
	}
	gone := false
	for {
		events, err := w.next(ctx, maxEventsWait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !gone {
				fmt.Fprintf(w.notes, "pointsman: %v; waiting for it\n", err)
			}
			gone = true
			select {
			case <-ctx.Done():
			case <-time.After(askAgain):
			}
			continue
		}
		gone = false
		if err := w.show(events, false); err != nil {
			return err
		}
	}
}

// eventFilter chooses events; what is zero chooses all.
type eventFilter struct {
	namespace, name, kind string
	since                 time.Time
}

func (f *eventFilter) not(e event.Event) bool {
	return f.namespace != "" && e.Namespace() != f.namespace ||
		f.kind != "" && e.Type != f.kind ||
		f.name != "" && !slices.Contains(namesOf(&e), f.name) ||
		e.Last.Before(f.since)
}

// namesOf gives what may be meant by the name of an event's object.
func namesOf(e *event.Event) []string {
	kind, name, _ := strings.Cut(e.Object, " ")
	_, short, _ := strings.Cut(name, "/")
	file, _, _ := strings.Cut(e.File, ":")
	names := []string{e.Object, name, short, strings.ToLower(kind) + "/" + name, e.Endpoint, e.Node, e.File, file, e.Process}
	if a, err := netip.ParseAddrPort(e.Endpoint); err == nil {
		names = append(names, a.Addr().String())
	}
	return names
}
