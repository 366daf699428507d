package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutboxNeverWaits: a log that nobody reads costs records, not time; how many
// is said once somebody does, and the program's end doesn't wait for it for long.
func TestOutboxNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		o := newOutbox(func(lost uint64) { fmt.Fprintln(write, lost, "lost") })
		defer close(o.queue)
		w := outboxWriter{o, write}
		began, line := time.Now(), []byte("hello\n")
		for range 2 * maxQueued {
			_, _ = w.Write(line)
		}
		copy(line, "xxxxx") // slog writes the next one there
		if took := time.Since(began); took != 0 {
			t.Errorf("records take %s", took)
		}
		if o.flush(); time.Since(began) != flushTime {
			t.Errorf("the end takes %s", time.Since(began))
		}
		var all []byte
		go func() { all, _ = io.ReadAll(read) }()
		synctest.Wait()
		_, _ = io.WriteString(w, "bye\n")
		o.flush()
		write.Close()
		synctest.Wait()
		text, lost := string(all), 0
		said := strings.Count(text, "hello\n")
		if _, err := fmt.Sscan(strings.TrimLeft(text, "helo\n"), &lost); err != nil || said+lost != 2*maxQueued || lost == 0 || !strings.HasSuffix(text, "\nbye\n") {
			t.Errorf("%d are said and %d lost, at the end of %q", said, lost, text[max(0, len(text)-80):])
		}
	})
}
