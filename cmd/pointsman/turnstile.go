package main

import (
	"bytes"
	"context"
	"net/http"
)

// turnstile has those who ask answered one after the other. However many they are,
// the reconcile loop and gossip have most of the processors: a hundred who ask for
// 40,000 Services again and again would else keep any change from being programmed.
type turnstile chan struct{}

func newTurnstile() turnstile { return make(turnstile, 1) }

// take waits for a turn, and reports whether it came before ctx ended.
func (t turnstile) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turnstile) end() { <-t }

// each has a handler whose answers are small answer in turn. They are written
// afterwards: who doesn't read them holds nobody up.
func (t turnstile) each(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !t.take(r.Context()) {
			return
		}
		a := &unsent{header: w.Header(), code: http.StatusOK}
		func() {
			defer t.end() // whatever becomes of it
			answer(a, r)
		}()
		w.WriteHeader(a.code)
		_, _ = w.Write(a.text.Bytes()) // that the asker has gone is nobody's concern
	}
}

// unsent is an answer that is kept back.
type unsent struct {
	header http.Header
	code   int
	text   bytes.Buffer
}

func (a *unsent) Header() http.Header                  { return a.header }
func (a *unsent) WriteHeader(code int)                 { a.code = code }
func (a *unsent) Write(text []byte) (n int, err error) { return a.text.Write(text) }
