package event

import (
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Event is something that happened once, or several times.
type Event struct {
	Seq      uint64    `json:"seq"`  // grows with each happening
	Type     string    `json:"type"` // Normal or Warning
	Reason   Reason    `json:"reason"`
	Object   string    `json:"object"`             // kind and name, such as Service shop/web
	Endpoint string    `json:"endpoint,omitempty"` // address:port
	Node     string    `json:"node,omitempty"`     // the endpoint's
	File     string    `json:"file,omitempty"`     // with its line
	Process  string    `json:"process,omitempty"`  // of this host, that did it
	Message  string    `json:"message"`            // of the last time
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`

	// Concerns are objects that it's about beside Object, or Everything alone.
	Concerns Concerns `json:"concerns,omitempty"`
}

// Concerns names the Services, as namespace/name, that one event is about: that a
// load changed, say. A Record knows them by their type, and no log shows them: they
// may be many, of which the message names the first.
type Concerns []string

// Everything is what an event concerns that concerns more than are remembered.
const Everything = "*"

// LogValue makes it a slog.LogValuer: handlers leave out a group of nothing.
func (Concerns) LogValue() slog.Value { return slog.GroupValue() }

// The types of events, as Kubernetes has them.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// key tells whether an event is another one, or the same once more.
type key struct {
	reason                                Reason
	object, endpoint, node, file, process string
}

func (e *Event) key() key { return key{e.Reason, e.Object, e.Endpoint, e.Node, e.File, e.Process} }

// field gives the place of a log record's attribute in an event, nil if there's
// none: of those the message tells.
func (e *Event) field(name string) *string {
	switch name {
	case "object":
		return &e.Object
	case "endpoint":
		return &e.Endpoint
	case "node":
		return &e.Node
	case "file":
		return &e.File
	case "process":
		return &e.Process
	}
	return nil
}

// Namespace gives that of the object, "" if it has none.
func (e *Event) Namespace() string {
	_, name, _ := strings.Cut(e.Object, " ")
	namespace, _, namespaced := strings.Cut(name, "/")
	if !namespaced {
		return ""
	}
	return namespace
}

// Of gives the event that a log record with a Reason is.
func Of(r Record) Event {
	e := Event{Type: Normal, Reason: r.Reason, Concerns: r.Concerns, Message: r.Text(), Count: 1, First: r.Time, Last: r.Time}
	if r.Level >= slog.LevelWarn {
		e.Type = Warning
	}
	for _, f := range r.Fields {
		if field := e.field(f.Name); field != nil {
			*field = f.Text
		}
	}
	return e
}

// Text gives the record in a line for a person: its message and its fields. The
// message of an event names what it's about, so those that say it again are
// left out.
func (r Record) Text() string {
	var more []string
	for _, f := range r.Fields {
		if r.Reason == "" || f.Text != "" && new(Event).field(f.Name) == nil {
			more = append(more, f.Name+"="+quoted(f.Text))
		}
	}
	if more == nil {
		return r.Message
	}
	return r.Message + " (" + strings.Join(more, " ") + ")"
}

// quoted puts a text in quotes that would not be one word, as slog does.
func quoted(text string) string {
	plain := func(r rune) bool { return r > ' ' && r != '"' && r != '=' && unicode.IsPrint(r) }
	if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(text)
	}
	return text
}
