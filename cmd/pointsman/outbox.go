package main

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// outbox hands on what the log says in a goroutine of its own, and loses records
// rather than wait: a journald that hangs, or a pipe that nobody reads, must not
// keep the kernel from being programmed.
type outbox struct {
	queue chan func()
	lost  atomic.Uint64
	tell  func(lost uint64)
}

// The bounds of an outbox. flushTime is how long the end of the program waits
// for it.
const (
	maxQueued = 4096
	flushTime = time.Second
)

// newOutbox makes one that tells how many records were lost, once it can.
func newOutbox(tell func(lost uint64)) *outbox {
	o := &outbox{queue: make(chan func(), maxQueued), tell: tell}
	go o.run()
	return o
}

// put has something done after all that was put before, and doesn't wait.
func (o *outbox) put(do func()) {
	select {
	case o.queue <- do:
	default:
		o.lost.Add(1)
	}
}

// flush waits until what was put has been done, for a while.
func (o *outbox) flush() {
	timeout := time.NewTimer(flushTime)
	defer timeout.Stop()
	done := make(chan struct{})
	select {
	case o.queue <- func() { close(done) }:
	case <-timeout.C:
		return
	}
	select {
	case <-done:
	case <-timeout.C:
	}
}

// run does what is put, to the end of the program.
func (o *outbox) run() {
	for do := range o.queue {
		if n := o.lost.Swap(0); n > 0 {
			o.tell(n)
		}
		do()
	}
}

// outboxWriter writes by way of an outbox, each Write a record.
type outboxWriter struct {
	*outbox
	to io.Writer
}

// Write always succeeds.
func (w outboxWriter) Write(record []byte) (int, error) {
	record = bytes.Clone(record)
	w.put(func() { _, _ = w.to.Write(record) })
	return len(record), nil
}
