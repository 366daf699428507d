package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/state"
)

// said is what a saying answers.
type said struct {
	text, missing string
	starting      bool
}

// saying is a question whose answer can be changed.
type saying struct {
	question
	words atomic.Pointer[said]
	looks atomic.Int64
}

func newSaying(text string) *saying {
	s := &saying{}
	s.news, s.turns = &bell{}, newTurnstile()
	s.look = func(wanted) answer {
		s.looks.Add(1)
		now := s.words.Load()
		a := answerOf(now.text)
		a.starting, a.missing = now.starting, now.missing
		return a
	}
	s.say(said{text: text})
	return s
}

func (s *saying) say(now said) {
	s.words.Store(&now)
	s.news.ring()
}

// ask gives the answer: its code, its text, and its tag.
func (s *saying) ask(ctx context.Context, query, seen string) (got, tag string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/?"+query, nil)
	if seen != "" {
		r.Header.Set("If-None-Match", seen)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return fmt.Sprintf("%d %s", w.Code, w.Body), w.Header().Get("ETag")
}

// TestQuestion: who has seen an answer is told of another one at once, and after
// the time that it's willing to wait that there's none.
func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSaying("a")
		got, tag := s.ask(t.Context(), "", "")
		if got != "200 \"a\"\n" || tag == "" {
			t.Errorf("without waiting: %q, tag %q", got, tag)
		}
		if got, first := s.ask(t.Context(), "wait=10s", ""); got != "200 \"a\"\n" || first != tag {
			t.Errorf("at first: %q, tag %q", got, first)
		}
		began := time.Now()
		if got, _ := s.ask(t.Context(), "wait=10s", tag); got != "304 " || time.Since(began) != 10*time.Second {
			t.Errorf("with nothing new: %q after %v", got, time.Since(began))
		}
		began = time.Now()
		if got, _ := s.ask(t.Context(), "wait=1h", tag); got != "304 " || time.Since(began) != maxWait {
			t.Errorf("who waits too long: %q after %v", got, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(time.Second, func() { s.say(said{text: "a"}) }) // that is nothing new
		time.AfterFunc(3*time.Second, func() { s.say(said{text: "b"}) })
		if got, _ := s.ask(t.Context(), "wait=10s", tag); got != "200 \"b\"\n" || time.Since(began) > 3*time.Second+settle {
			t.Errorf("when it's said: %q after %v", got, time.Since(began))
		}
		if got, _ := s.ask(t.Context(), "wait=10s", tag); got != "200 \"b\"\n" {
			t.Errorf("what was said meanwhile: %q", got)
		}
		for _, wait := range []string{"wait=soon", "wait=-1s"} {
			if got, _ := s.ask(t.Context(), wait, ""); got[:3] != "400" {
				t.Errorf("%s: %q", wait, got)
			}
		}
	})
}

// TestQuestionBurst: a burst is looked at once, and not a hundred times.
func TestQuestionBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSaying("a")
		_, tag := s.ask(t.Context(), "wait=1s", "")
		go func() {
			for range 100 {
				time.Sleep(time.Millisecond)
				s.say(said{text: "a"})
			}
			s.say(said{text: "b"})
		}()
		if got, _ := s.ask(t.Context(), "wait=10s", tag); got != "200 \"b\"\n" || s.looks.Load() > 5 {
			t.Errorf("%q after %d looks", got, s.looks.Load())
		}
	})
}

// TestQuestionUnanswered: what isn't there is an error, but not to who watches
// it go; while an agent starts, all is as it was; and who has gone isn't waited for.
func TestQuestionUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSaying("a")
		_, tag := s.ask(t.Context(), "wait=1s", "")
		s.say(said{text: "nothing", starting: true})
		time.AfterFunc(2*time.Second, func() { s.say(said{text: "a"}) })
		if got, _ := s.ask(t.Context(), "wait=10s", tag); got != "304 " {
			t.Errorf("while it starts: %q", got)
		}
		s.say(said{text: "none", missing: "no Service web is known here"})
		for _, query := range []string{"name=web", "name=web&wait=10s"} {
			if got, _ := s.ask(t.Context(), query, ""); got != "404 no Service web is known here\n" {
				t.Errorf("%s: %q", query, got)
			}
		}
		if got, _ := s.ask(t.Context(), "name=web&wait=10s", tag); got != "200 \"none\"\n" {
			t.Errorf("watched: %q", got)
		}
		_, tag = s.ask(t.Context(), "name=web&wait=10s", tag)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if s.ask(ctx, "wait=10s", tag); time.Since(began) != time.Second {
			t.Errorf("who has gone was kept for %v", time.Since(began))
		}
	})
}

func TestWanted(t *testing.T) {
	web := state.ObjectName{Namespace: "shop", Name: "web"}
	for query, want := range map[string]struct {
		has     bool
		missing string
	}{
		"":                           {true, ""},
		"namespace=shop":             {true, ""},
		"name=web":                   {true, "no Service web is known here"},
		"namespace=shop&name=web":    {true, "no Service shop/web is known here"},
		"namespace=default&name=web": {false, "no Service default/web is known here"},
		"name=we":                    {false, "no Service we is known here"},
	} {
		q := wantedOf(httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		if got := q.has(web); got != want.has {
			t.Errorf("%q has shop/web: %v", query, got)
		}
		if got := q.missing(false, "Service"); got != want.missing {
			t.Errorf("%q: %q", query, got)
		}
		if got := q.missing(true, "Service"); got != "" {
			t.Errorf("%q, and it's there: %q", query, got)
		}
	}
}

// TestQuestionOfMany: a crowd that asks the same is answered by two looks: the one
// that was going on, and one that began after all had asked. They share the
// answer, which is told until its last reader is done.
func TestQuestionOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSaying("a")
		look := s.look
		s.look = func(q wanted) answer {
			time.Sleep(time.Second)
			return look(q)
		}
		var asking sync.WaitGroup
		for i := range 300 {
			asking.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if got, _ := s.ask(t.Context(), "", ""); got != "200 \"a\"\n" {
					t.Errorf("%q", got)
				}
			})
		}
		asking.Wait()
		if n := s.looks.Load(); n != 2 {
			t.Errorf("%d looks", n)
		}
		first := s.now(t.Context(), wanted{})
		runtime.GC()
		if again := s.now(t.Context(), wanted{}); first != again {
			t.Error("the same answer is there twice")
		}
		s.say(said{text: "b"})
		if now := s.now(t.Context(), wanted{}); now == first || string(first.text) != "\"a\"\n" {
			t.Error("the answer that is being told has changed")
		}
		for i := range 3 * maxRecent {
			s.now(t.Context(), wanted{name: fmt.Sprint(i)})
		}
		if n := len(s.recent); n > maxRecent {
			t.Errorf("%d answers are remembered", n)
		}
	})
}
