package event

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Log keeps the latest events.
type Log struct {
	node string // whom an event is about that says nothing else
	most int

	mu      sync.Mutex
	seq     uint64
	events  []*Event // by Seq
	latest  map[key]*Event
	of      map[Reason]int // how many there are
	changed chan struct{}  // closed when there's something new
}

// The bounds of a log. 1,000 events of this size are at most 1.5 MB, and as much
// again if each is a load that changed as many Services.
const (
	Most        = 1000
	maxMessage  = 1024 // bytes, as of Kubernetes' events
	maxField    = 300
	maxConcerns = 20
)

// again is the time after an event in which the same counts as a repetition, as
// in Kubernetes.
const again = 10 * time.Minute

// NewLog makes a log of at most so many events on a node.
func NewLog(node string, most int) *Log {
	return &Log{node: node, most: most, latest: map[key]*Event{}, of: map[Reason]int{}, changed: make(chan struct{})}
}

// Take adds a log record, if it's an event.
func (l *Log) Take(r Record) {
	if r.Reason != "" {
		l.Add(Of(r))
	}
}

// Add adds an event, or counts one again that was there lately. It doesn't block.
func (l *Log) Add(e Event) {
	if e.Object == "" {
		e.Object = "Node " + l.node
	}
	bound(&e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.latest[e.key()]; old != nil && e.Last.Sub(old.Last) < again {
		e.First, e.Count = old.First, old.Count+e.Count
		l.drop(old)
	}
	l.seq++
	e.Seq = l.seq
	l.events = append(l.events, &e)
	l.latest[e.key()] = &e
	l.of[e.Reason]++
	if len(l.events) > l.most {
		l.drop(l.victim())
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// victim gives the event that goes when there are too many: the oldest of the
// reason that has most. So what happens all the time never pushes out what is
// rare.
func (l *Log) victim() *Event {
	most := slices.Max(slices.Collect(maps.Values(l.of)))
	i := slices.IndexFunc(l.events, func(e *Event) bool { return l.of[e.Reason] == most })
	return l.events[i]
}

func (l *Log) drop(e *Event) {
	i, _ := slices.BinarySearchFunc(l.events, e.Seq, func(e *Event, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	l.events = slices.Delete(l.events, i, i+1)
	if l.latest[e.key()] == e {
		delete(l.latest, e.key())
	}
	if l.of[e.Reason]--; l.of[e.Reason] == 0 {
		delete(l.of, e.Reason)
	}
}

// After gives the events since one with a number, oldest first, and a channel
// that is closed when there's another.
func (l *Log) After(seq uint64) ([]Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Event
	for _, e := range l.events {
		if e.Seq > seq {
			out = append(out, *e)
		}
	}
	return out, l.changed
}

// bound makes an event a small one of one line, whatever it's about: others have
// a say in texts, and these are for terminals.
func bound(e *Event) {
	e.Message = cut(e.Message, maxMessage)
	for _, field := range []*string{&e.Object, &e.Endpoint, &e.Node, &e.File, &e.Process} {
		*field = cut(*field, maxField)
	}
	if len(e.Concerns) > maxConcerns {
		e.Concerns = Concerns{Everything}
	}
}

// cut keeps the beginning of a text, of whole characters. A copy: what is cut off
// is not to be kept.
func cut(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= most {
		return text
	}
	const dots = "..."
	end := most - len(dots)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + dots
}
