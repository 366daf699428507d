package event

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Record is a log record that can be kept: its attributes are written down, those
// of groups under the names of the groups before their own.
type Record struct {
	Time    time.Time
	Level   slog.Level
	Message string
	Reason  Reason // "" if it's no event
	Fields  []Field

	Concerns Concerns
}

// Field is an attribute of a log record.
type Field struct{ Name, Text string }

// Tap is a slog.Handler that gives each record of a level to Take, and to Next,
// if there's one that wants it.
type Tap struct {
	Level slog.Leveler
	Take  func(Record)
	Next  slog.Handler

	prefix string
	before Record // what it was given before: Reason and Fields
}

// Enabled makes it a slog.Handler.
func (t *Tap) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= t.Level.Level() || t.Next != nil && t.Next.Enabled(ctx, l)
}

// Handle makes it a slog.Handler.
func (t *Tap) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= t.Level.Level() {
		flat := t.before.copy()
		flat.Time, flat.Level, flat.Message = r.Time, r.Level, r.Message
		r.Attrs(func(a slog.Attr) bool {
			flat.add(t.prefix, a)
			return true
		})
		t.Take(flat)
	}
	if t.Next == nil || !t.Next.Enabled(ctx, r.Level) {
		return nil
	}
	return t.Next.Handle(ctx, r)
}

// WithAttrs makes it a slog.Handler.
func (t *Tap) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *t
	next.before = t.before.copy()
	for _, a := range attrs {
		next.before.add(t.prefix, a)
	}
	if t.Next != nil {
		next.Next = t.Next.WithAttrs(attrs)
	}
	return &next
}

// WithGroup makes it a slog.Handler.
func (t *Tap) WithGroup(name string) slog.Handler {
	if name == "" {
		return t
	}
	next := *t
	next.prefix += name + "."
	if t.Next != nil {
		next.Next = t.Next.WithGroup(name)
	}
	return &next
}

// copy gives a record that can be added to.
func (r Record) copy() Record {
	r.Fields = slices.Clip(r.Fields)
	return r
}

// add writes an attribute down. A Reason and Concerns are known by their types:
// others may have attributes of their names.
func (r *Record) add(prefix string, a slog.Attr) {
	if c, ok := a.Value.Any().(Concerns); ok {
		r.Concerns = c
		return
	}
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			r.add(prefix, member)
		}
		return
	}
	if reason, ok := v.Any().(Reason); ok {
		r.Reason = reason
		return
	}
	if !a.Equal(slog.Attr{}) {
		r.Fields = append(r.Fields, Field{prefix + a.Key, text(v)})
	}
}

// text writes a value down, as slog's handlers do.
func text(v slog.Value) string {
	if v.Kind() == slog.KindTime {
		return v.Time().UTC().Format(time.RFC3339)
	}
	return v.String()
}
