package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"pointsman/reconcile/nft"
)

// activityAfter is how long something may take before anything is said of it.
const activityAfter = time.Second

// activity is the last line of a terminal, which says what takes so long. What
// is written through it comes above. The libraries for that take the terminal for
// themselves, and draw bars on it; here a log goes on beside it. A nil activity
// says nothing.
type activity struct {
	terminal io.Writer
	width    func() int

	mu    sync.Mutex
	text  string // empty where nothing goes on
	shown bool
	timer *time.Timer
}

// newActivity gives nil where nobody looks: standard error is no terminal, or
// what goes there is for a machine. A service of systemd has none.
func newActivity(c *cli.Context) *activity {
	f, ok := c.App.ErrWriter.(*os.File)
	if !ok || !isTerminal(f) || os.Getenv("TERM") == "dumb" || c.String("log-format") == "json" {
		return nil
	}
	return &activity{terminal: f, width: func() int { return widthOf(f) }}
}

// widthOf gives a terminal's columns, 80 where they can't be known.
func widthOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return 80
}

// fitting cuts a text that is one line of a terminal. The last column stays free, for
// some terminals go on to the next line once it's filled.
func fitting(text string, width int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), max(width-1, 0))])
}

// aside has a terminal that waits (after Ctrl-S, or behind a connection that
// hangs) keep nobody waiting: what it isn't shown in time is lost. It's to be called
// before anything is said, and what it gives at the end.
func (a *activity) aside() (flush func()) {
	if a == nil {
		return func() {}
	}
	to := a.terminal
	o := newOutbox(func(uint64) { fmt.Fprintln(to, "pointsman:", lostText) })
	a.terminal = outboxWriter{o, to}
	return o.flush
}

// say tells what goes on from now.
func (a *activity) say(format string, values ...any) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text = fmt.Sprintf(format, values...)
	switch {
	case a.shown:
		a.draw()
	case a.timer == nil:
		a.timer = time.AfterFunc(activityAfter, a.late)
	}
}

// late is called when what goes on does so for long.
func (a *activity) late() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.draw()
	}
}

// done says that nothing goes on any more.
func (a *activity) done() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.erase()
	a.text, a.timer = "", nil
}

// programming says how far a change to a family's table is.
func (a *activity) programming(f nft.Family, done, total int) {
	family := "IPv4"
	if f == nft.IPv6 {
		family = "IPv6"
	}
	if done == total {
		a.done()
		return
	}
	a.say("programming %s: %s of %s elements", family, grouped(done), grouped(total))
}

// above gives a writer to use instead of the terminal.
func (a *activity) above(w io.Writer) io.Writer {
	if a == nil {
		return w
	}
	return a
}

// Write writes above the line.
func (a *activity) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.shown
	a.erase()
	n, err := a.terminal.Write(b)
	if again {
		a.draw()
	}
	return n, err
}

func (a *activity) draw() {
	fmt.Fprintf(a.terminal, "\r\x1b[K%s", fitting(a.text, a.width()))
	a.shown = true
}

func (a *activity) erase() {
	if a.shown {
		fmt.Fprint(a.terminal, "\r\x1b[K")
		a.shown = false
	}
}

// grouped writes a number as people read it: 110,000.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
