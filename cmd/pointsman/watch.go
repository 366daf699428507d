package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"pointsman/state/manifest"
)

// item is a row in the words that it's shown in.
type item struct{ key, text string }

// rowChange is a row that came, was changed or is gone, in the words of Kubernetes'
// watches.
type rowChange struct {
	kind string // ADDED, MODIFIED or DELETED
	text string
}

// shownRows is what a watcher has been shown, by key.
type shownRows map[string]string

// update takes what is there now and gives what is different: in the same order,
// and then what is gone. A row that reads as before is no change.
func (s shownRows) update(now []item) []rowChange {
	var changes []rowChange
	gone := maps.Clone(s)
	for _, i := range now {
		text, known := s[i.key]
		delete(gone, i.key)
		switch {
		case !known:
			changes = append(changes, rowChange{"ADDED", i.text})
		case text != i.text:
			changes = append(changes, rowChange{"MODIFIED", i.text})
		}
		s[i.key] = i.text
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		changes = append(changes, rowChange{"DELETED", gone[key]})
		delete(s, key)
	}
	return changes
}

// between joins the cells of a row to a text, and is in none of them.
const between = "\x00"

// items gives the rows in the words that they are shown in: cells, or JSON.
func (r resource[A, R]) items(a *A, columns []column[R]) ([]item, error) {
	var items []item
	for _, row := range r.rows(a) {
		if columns != nil {
			items = append(items, item{r.key(&row), strings.Join(cells(columns, &row), between)})
			continue
		}
		text, err := lineOf(&row)
		if err != nil {
			return nil, err
		}
		items = append(items, item{r.key(&row), string(text)})
	}
	return items, nil
}

// pollAgain is how long a watcher waits before it asks an agent again that
// doesn't answer.
const pollAgain = time.Second

// watch shows what there is, and then what changes, until ctx ends. An agent
// that is restarted meanwhile is waited for.
func (r resource[A, R]) watch(ctx context.Context, v view) error {
	var columns []column[R]
	if v.asText() {
		columns = columnsOf(r.columns, v.format == "wide")
	}
	show, rows := v.shower(heads(columns)), shownRows{}
	p := &steadyPoller{poller: poller{socket: v.socket, path: v.path(r.path)}, err: v.err}
	for {
		a := new(A)
		fresh, err := p.next(ctx, a)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case !fresh:
			continue
		}
		if r.news {
			clear(rows)
		}
		items, err := r.items(a, columns)
		if err == nil {
			err = show(rows.update(items))
		}
		if err != nil {
			return err
		}
	}
}

// steadyPoller is a poller that waits for an agent that goes away, once it has had
// an answer, and says so.
type steadyPoller struct {
	poller
	err         io.Writer
	begun, lost bool
}

func (p *steadyPoller) next(ctx context.Context, answer any) (fresh bool, err error) {
	p.soon = p.lost
	fresh, err = p.poller.next(ctx, answer)
	var refused refusal
	switch {
	case ctx.Err() != nil:
	case err != nil && (!p.begun || errors.As(err, &refused)):
		return false, err
	case err != nil && !p.lost:
		fmt.Fprintf(p.err, "pointsman: %v; trying again\n", err)
		fallthrough
	case err != nil:
		p.lost = true
		waitFor(ctx, time.After(pollAgain))
		return false, nil
	case p.lost:
		fmt.Fprintln(p.err, "pointsman: the agent answers again")
	}
	p.begun, p.lost = true, false
	return fresh, nil
}

// shower gives what shows changes: each as soon as it's known, at least one line.
func (v *view) shower(heads []string) func([]rowChange) error {
	switch v.format {
	case "json":
		return func(changes []rowChange) error { return v.showEach(changes, "%s", lineOf) }
	case "yaml":
		return func(changes []rowChange) error { return v.showEach(changes, "---\n%s", manifest.YAML) }
	}
	t, first := &table{w: v.out}, !v.headless
	return func(changes []rowChange) error {
		var lines [][]string
		if first {
			lines = append(lines, heads)
		}
		first = false
		for _, c := range changes {
			line := strings.Split(c.text, between)
			if c.kind == "DELETED" {
				line = append(line, "(gone)")
			}
			lines = append(lines, line)
		}
		return t.print(lines)
	}
}

// lineOf gives a value as JSON in one line. Nobody reads it as HTML.
func lineOf(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// watchEvent is a change as the API server's watch writes it.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (v *view) showEach(changes []rowChange, format string, encode func(any) ([]byte, error)) error {
	for _, c := range changes {
		text, err := encode(watchEvent{c.kind, json.RawMessage(c.text)})
		if err == nil {
			_, err = fmt.Fprintf(v.out, format, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
