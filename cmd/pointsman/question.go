package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"net/http"
	"runtime"
	"strings"
	"time"
	"weak"

	"pointsman/state"
)

// wanted is what of a kind of thing is asked for; all of it where it's empty.
type wanted struct {
	namespace, name string
	objects         bool // in the form of Kubernetes objects
}

func wantedOf(r *http.Request) wanted {
	q := r.URL.Query()
	return wanted{q.Get("namespace"), q.Get("name"), q.Get("form") == "objects"}
}

func (q wanted) has(n state.ObjectName) bool {
	return (q.namespace == "" || q.namespace == n.Namespace) && (q.name == "" || q.name == n.Name)
}

// missing gives what is to be said if nothing is there of a name that was asked
// for: that is rather a typing error than an empty list. A namespace may be empty.
func (q wanted) missing(found bool, kind string) string {
	if found || q.name == "" {
		return ""
	}
	return fmt.Sprintf("no %s %s is known here", kind, strings.TrimPrefix(q.namespace+"/"+q.name, "/"))
}

// answer is one that is ready to be written: it's of one moment.
type answer struct {
	starting bool                  // the agent doesn't know yet
	missing  string                // why there's nothing; empty if there is
	write    func(io.Writer) error // nil where there's nothing whatever
}

// answerOf is an answer that is small enough to be made as a whole.
func answerOf(v any) answer {
	return answer{write: func(w io.Writer) error { return json.NewEncoder(w).Encode(v) }}
}

// listOf is an answer that is written piece by piece: a hundred thousand
// endpoints are not to be in memory once more. Open is the JSON before the list.
func listOf[T any](open string, items iter.Seq[T]) answer {
	return answer{write: func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 64<<10)
		b.WriteString(open + "[")
		enc, separator := json.NewEncoder(b), ""
		for item := range items {
			b.WriteString(separator)
			if err := enc.Encode(item); err != nil {
				return err
			}
			separator = ","
		}
		b.WriteString("]}\n")
		return b.Flush()
	}}
}

// openList begins a List of Kubernetes objects.
const openList = `{"apiVersion":"v1","kind":"List","items":`

// told is an answer as it's sent. All whom it's an answer to share it: hundreds who
// watch 100,000 endpoints, or ask and never read, need the memory of one.
type told struct {
	began    time.Time // when it was last looked for; it's whose turn it is that knows
	starting bool
	missing  string
	text     []byte
	tag      string // names the text
}

func (a answer) told(began time.Time) *told {
	if a.write == nil {
		return &told{began: began, starting: a.starting, missing: a.missing}
	}
	var b bytes.Buffer
	if err := a.write(&b); err != nil { // which no value of ours gives rise to
		return &told{began: began, missing: err.Error()}
	}
	sum := fnv.New64a()
	sum.Write(b.Bytes())
	return &told{began, a.starting, a.missing, bytes.Clone(b.Bytes()), fmt.Sprintf(`"%016x"`, sum.Sum64())}
}

func (t *told) says(o *told) bool {
	return t.tag == o.tag && t.missing == o.missing && t.starting == o.starting
}

// question answers what is asked again and again by those who watch.
type question struct {
	look  func(wanted) answer
	news  *bell // rings when look may give something else
	turns turnstile

	// recent is what was answered last, as long as somebody is being told it. Who
	// has the turn may use it.
	recent map[wanted]weak.Pointer[told]
}

// maxRecent bounds the answers that are remembered: few questions are asked by many.
const maxRecent = 64

// now answers, or gives nil if ctx ends before it's its turn. All who asked while
// somebody else had the turn get one answer: it was looked for after they asked.
func (q *question) now(ctx context.Context, what wanted) *told {
	asked := time.Now()
	if !q.turns.take(ctx) {
		return nil
	}
	defer q.turns.end()
	began := time.Now()
	last := q.recent[what].Value()
	if last != nil && !last.began.Before(asked) {
		return last
	}
	now := q.look(what).told(began)
	if last != nil && last.says(now) {
		last.began = began
		return last
	}
	if q.recent == nil || len(q.recent) >= maxRecent {
		q.recent = map[wanted]weak.Pointer[told]{}
	}
	q.recent[what] = weak.Make(now)
	return now
}

// maxWait bounds how long an asker is made to wait for something new.
const maxWait = 30 * time.Second

// ServeHTTP answers at once; or, if the asker is willing to wait, as soon as the
// answer is another one than it has seen (ETag and If-None-Match), which it is
// told by 304 Not Modified otherwise. The tag is a hash of the answer, so it
// means the same after the agent has been restarted.
func (q *question) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait, err := time.ParseDuration("0" + r.URL.Query().Get("wait")) // without it: 0
	if err != nil {
		http.Error(w, "wait: not a time such as 20s", http.StatusBadRequest)
		return
	}
	seen := r.Header.Get("If-None-Match")
	var a *told
	if wait == 0 {
		a = q.now(r.Context(), wantedOf(r))
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
		defer cancel()
		a = q.await(ctx, wantedOf(r), seen)
	}
	switch {
	case a == nil:
		w.WriteHeader(http.StatusNotModified)
		return
	case a.missing != "" && seen == "":
		http.Error(w, a.missing, http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", a.tag)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.text) // that the asker has gone is nobody's concern
	runtime.KeepAlive(a)   // as long as it's being told, others get the same
}

// settle is the least time between two looks: a burst is one change.
const settle = 100 * time.Millisecond

// await gives the answer as soon as it isn't the one that was seen; nil if it's
// that until ctx ends. While an agent starts, what was seen before still holds.
func (q *question) await(ctx context.Context, what wanted, seen string) *told {
	for {
		rung, began := q.news.next(), time.Now()
		now := q.now(ctx, what)
		if now == nil || now.tag != seen && (seen == "" || !now.starting) {
			return now
		}
		// Who watches everything has no more than a fifth of a processor.
		pause := max(settle, 4*time.Since(began))
		if !waitFor(ctx, rung) || !waitFor(ctx, time.After(pause)) {
			return nil
		}
	}
}

// waitFor waits for a signal, and reports whether it came before ctx ended.
func waitFor[T any](ctx context.Context, signal <-chan T) bool {
	select {
	case <-signal:
		return true
	case <-ctx.Done():
		return false
	}
}
