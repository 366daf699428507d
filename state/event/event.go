package event

import (
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The names of the attributes that say what an event is about. Of all others the
// message tells.
const (
	ObjectKey   = "object"   // such as Service shop/web, or Node n2
	EndpointKey = "endpoint" // address:port
	NodeKey     = "node"     // the endpoint's, or whose doing it was
	FileKey     = "file"     // with its line
	ProcessKey  = "process"  // of this host, that did it
)

// Event is something that happened once, or several times.
type Event struct {
	Seq      uint64    `json:"seq"`  // grows with each happening
	Type     string    `json:"type"` // Normal or Warning
	Reason   Reason    `json:"reason"`
	Object   string    `json:"object"` // kind and name
	Endpoint string    `json:"endpoint,omitempty"`
	Node     string    `json:"node,omitempty"`
	File     string    `json:"file,omitempty"`
	Process  string    `json:"process,omitempty"`
	Message  string    `json:"message"` // of the last time
	Count    int       `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

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

// field gives the place of an attribute in an event, nil if there's none.
func (e *Event) field(name string) *string {
	switch name {
	case ObjectKey:
		return &e.Object
	case EndpointKey:
		return &e.Endpoint
	case NodeKey:
		return &e.Node
	case FileKey:
		return &e.File
	case ProcessKey:
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

// Of gives the event that a log record is; false for one that is none.
func Of(r Record) (e Event, ok bool) {
	if e.Reason, ok = r.Reason(); !ok {
		return e, false
	}
	e.Type, e.Message, e.Count, e.First, e.Last = Normal, r.Text(), 1, r.Time, r.Time
	if r.Level >= slog.LevelWarn {
		e.Type = Warning
	}
	for _, a := range r.Attrs {
		if field := e.field(a.Key); field != nil {
			*field = text(a.Value)
		}
	}
	return e, true
}

// Reason gives that of a record which is an event. It's known by its type: other
// records may have attributes of that name.
func (r Record) Reason() (reason Reason, ok bool) {
	for _, a := range r.Attrs {
		if is, found := a.Value.Any().(Reason); found {
			reason, ok = is, true
		}
	}
	return reason, ok
}

// Text gives the record in a line for a person: its message and its attributes.
// The message of an event names what it's about, so those that say it again are
// left out.
func (r Record) Text() string {
	var b strings.Builder
	b.WriteString(r.Message)
	_, event := r.Reason()
	separator := ": "
	for _, a := range r.Attrs {
		if _, reason := a.Value.Any().(Reason); reason || event && new(Event).field(a.Key) != nil {
			continue
		}
		b.WriteString(separator + a.Key + "=" + quoted(text(a.Value)))
		separator = " "
	}
	return b.String()
}

// text gives a value in one word or several.
func text(v slog.Value) string {
	if v.Kind() == slog.KindTime {
		return v.Time().UTC().Format(time.RFC3339)
	}
	return v.String()
}

// quoted puts a text in quotes that would not be one word, as slog does.
func quoted(text string) string {
	plain := func(r rune) bool { return r > ' ' && r != '"' && r != '=' && unicode.IsPrint(r) }
	if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(text)
	}
	return text
}
