package event

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Record is a log record that can be kept: its attributes are resolved and flat,
// those of groups with the names of the groups before their own.
type Record struct {
	Time    time.Time
	Level   slog.Level
	Message string
	Attrs   []slog.Attr
}

// Tap is a slog.Handler that gives each record of a level to Take, and to Next,
// if there's one that wants it.
type Tap struct {
	Level slog.Leveler
	Take  func(Record)
	Next  slog.Handler

	prefix string
	attrs  []slog.Attr
}

// Enabled makes it a slog.Handler.
func (t *Tap) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= t.Level.Level() || t.Next != nil && t.Next.Enabled(ctx, l)
}

// Handle makes it a slog.Handler.
func (t *Tap) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= t.Level.Level() {
		flat := Record{r.Time, r.Level, r.Message, slices.Clip(t.attrs)}
		r.Attrs(func(a slog.Attr) bool {
			flat.Attrs = flatten(flat.Attrs, t.prefix, a)
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
	next.attrs = slices.Clip(t.attrs)
	for _, a := range attrs {
		next.attrs = flatten(next.attrs, t.prefix, a)
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

// flatten adds an attribute. What others may still change is written down now.
func flatten(to []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			to = flatten(to, prefix, member)
		}
		return to
	}
	if a.Equal(slog.Attr{}) {
		return to
	}
	if _, reason := v.Any().(Reason); !reason && v.Kind() == slog.KindAny {
		v = slog.StringValue(v.String())
	}
	return append(to, slog.Attr{Key: prefix + a.Key, Value: v})
}
