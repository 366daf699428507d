package main

import "sync"

// bell tells all who wait for it that something is new. The zero value is ready.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

// next gives a channel that is closed when the bell rings the next time.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
