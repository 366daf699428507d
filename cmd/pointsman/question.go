package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

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

// missing gives what is to be said if nothing is there that was asked for: that
// is rather a typing error than an empty list.
func (q wanted) missing(found bool, kind string) string {
	if found || q.namespace+q.name == "" {
		return ""
	}
	name := q.name
	if name == "" {
		name = "*"
	}
	return fmt.Sprintf("no %s %s is known here", kind, strings.TrimPrefix(q.namespace+"/"+name, "/"))
}

// answer is one that is ready to be written, more than once if need be: it's of
// one moment.
type answer struct {
	starting bool   // the agent doesn't know yet
	missing  string // why there's nothing; empty if there is
	write    func(io.Writer) error
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

// tag names what an answer says.
func (a answer) tag() string {
	sum := fnv.New64a()
	if err := a.write(sum); err != nil {
		return ""
	}
	return fmt.Sprintf(`"%016x"`, sum.Sum64())
}

// question answers what is asked again and again by those who watch.
type question struct {
	look func(wanted) answer
	news *bell // rings when look may give something else
}

// watched answers what is asked about the manifests and what they became.
func (s *source) watched(look func(wanted) answer) http.HandlerFunc {
	return (&question{look, &s.news}).ServeHTTP
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
	var a answer
	if wait == 0 {
		a = q.look(wantedOf(r))
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
		defer cancel()
		fresh, tag := q.await(ctx, wantedOf(r), r.Header.Get("If-None-Match"))
		if fresh == nil {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		a = *fresh
		w.Header().Set("ETag", tag)
	}
	if a.missing != "" && r.Header.Get("If-None-Match") == "" {
		http.Error(w, a.missing, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = a.write(w) // that the asker has gone is nobody's concern
}

// settle is the least time between two looks: a burst is one change.
const settle = 100 * time.Millisecond

// await gives the answer as soon as it isn't the one that was seen; nil if it's
// that until ctx ends. While an agent starts, what was seen before still holds.
func (q *question) await(ctx context.Context, what wanted, seen string) (a *answer, tag string) {
	for {
		rung, began := q.news.next(), time.Now()
		now := q.look(what)
		if seen == "" || !now.starting {
			if tag := now.tag(); tag != seen {
				return &now, tag
			}
		}
		// Who watches everything has no more than a fifth of a processor.
		pause := max(settle, 4*time.Since(began))
		if !waitFor(ctx, rung) || !waitFor(ctx, time.After(pause)) {
			return nil, ""
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
