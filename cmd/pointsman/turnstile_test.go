package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnstile: one answer at a time is made, and none for those who have gone. Who
// doesn't read has had his turn.
func TestTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, made atomic.Int64
		answer := newTurnstile().each(func(w http.ResponseWriter, _ *http.Request) {
			if busy.Add(1) > 1 {
				t.Error("two at the same time")
			}
			time.Sleep(time.Second)
			made.Add(1)
			http.Error(w, "no", http.StatusTeapot)
			busy.Add(-1)
		})
		ask := func(ctx context.Context, w http.ResponseWriter) {
			answer(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		}
		reading := make(chan struct{})
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, leave)
		var asking sync.WaitGroup
		asking.Go(func() { ask(t.Context(), &deaf{httptest.NewRecorder(), reading}) })
		for range 4 {
			asking.Go(func() {
				time.Sleep(time.Millisecond)
				w := httptest.NewRecorder()
				if ask(t.Context(), w); w.Code != http.StatusTeapot || w.Body.String() != "no\n" || w.Header().Get("Content-Type") == "" {
					t.Errorf("%d %q", w.Code, w.Body)
				}
			})
		}
		asking.Go(func() {
			time.Sleep(2 * time.Millisecond)
			ask(gone, httptest.NewRecorder())
		})
		time.Sleep(time.Minute)
		if n := made.Load(); n != 5 {
			t.Errorf("%d answers were made", n)
		}
		close(reading)
		asking.Wait()
	})
}

// deaf doesn't read an answer for a while.
type deaf struct {
	http.ResponseWriter
	reading chan struct{}
}

func (d *deaf) Write(text []byte) (int, error) {
	<-d.reading
	return d.ResponseWriter.Write(text)
}
