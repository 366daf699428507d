package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/journal"

	"pointsman/state/event"
)

// journal writes log records to systemd's journal, each attribute as a field
// that can be asked for. It has a goroutine of its own, and loses records rather
// than wait: a journald that hangs must not keep the kernel from being
// programmed.
type journal struct {
	send   func(message string, p sd.Priority, fields map[string]string) error
	stderr io.Writer // for what can't be sent
	queue  chan entry
	lost   atomic.Uint64
}

// entry is a record, or the wish to hear when all before it have been sent.
type entry struct {
	record event.Record
	done   chan struct{}
}

// The bounds of the journal's queue. flushTime is how long the end of the program
// waits for it.
const (
	maxQueued = 4096
	flushTime = time.Second
)

func newJournal(stderr io.Writer) *journal {
	j := &journal{send: sd.Send, stderr: stderr, queue: make(chan entry, maxQueued)}
	go j.run()
	return j
}

// take takes a record, at once.
func (j *journal) take(r event.Record) {
	select {
	case j.queue <- entry{record: r}:
	default:
		j.lost.Add(1)
	}
}

// flush waits until what was taken has been sent, for a while.
func (j *journal) flush() {
	timeout := time.NewTimer(flushTime)
	defer timeout.Stop()
	done := make(chan struct{})
	select {
	case j.queue <- entry{done: done}:
	case <-timeout.C:
		return
	}
	select {
	case <-done:
	case <-timeout.C:
	}
}

// run sends what is taken, to the end of the program.
func (j *journal) run() {
	for e := range j.queue {
		if n := j.lost.Swap(0); n > 0 {
			j.deliver(event.Record{Level: slog.LevelWarn, Message: fmt.Sprintf("%d log records were lost: the journal didn't take them in time", n)})
		}
		if e.done != nil {
			close(e.done)
			continue
		}
		j.deliver(e.record)
	}
}

// deliver sends a record. Where the journal isn't, or not any more, there's still
// its stream, which is standard error.
func (j *journal) deliver(r event.Record) {
	if err := j.send(r.Text(), priority(r.Level), journalFields(r)); err != nil {
		fmt.Fprintf(j.stderr, "<%d>%s\n", priority(r.Level), strings.ReplaceAll(r.Text(), "\n", " "))
	}
}

func priority(l slog.Level) sd.Priority {
	switch {
	case l >= slog.LevelError:
		return sd.PriErr
	case l >= slog.LevelWarn:
		return sd.PriWarning
	case l >= slog.LevelInfo:
		return sd.PriInfo
	}
	return sd.PriDebug
}

// journalFields gives a record's fields under the names that the journal takes.
// An empty one says nothing.
func journalFields(r event.Record) map[string]string {
	fields := map[string]string{"SYSLOG_IDENTIFIER": "pointsman"}
	if r.Reason != "" {
		fields[journalField("reason")] = string(r.Reason)
	}
	for _, f := range r.Fields {
		if f.Text != "" {
			fields[journalField(f.Name)] = f.Text
		}
	}
	return fields
}

// maxFieldName is the journal's bound: it drops fields with longer names.
const maxFieldName = 64

// journalField makes a field's name: the journal takes capital letters, digits
// and underscores.
func journalField(name string) string {
	name = "POINTSMAN_" + strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return '_'
	}, name)
	return name[:min(len(name), maxFieldName)]
}
