package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// The colours of a terminal that wants them.
const (
	bold  = "1"
	dim   = "2"
	green = "32"
	red   = "31"
	cyan  = "36"
)

// screen is what the demo is printed on.
type screen struct {
	out    io.Writer
	colour bool
	number int // of the last heading
}

// newScreen colours what a terminal shows, and nothing where NO_COLOR is set
// (no-color.org).
func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if f, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		info, err := f.Stat()
		s.colour = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

func (s *screen) paint(colour, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// title prints the first line and what the lab looks like.
func (s *screen) title(text, picture string) {
	fmt.Fprintf(s.out, "%s\n\n%s\n", s.paint(bold, text), s.paint(dim, picture))
}

// heading begins a step.
func (s *screen) heading(text string) {
	s.number++
	fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, fmt.Sprintf("%d  %s", s.number, text)))
}

// command prints what one would type, and where.
func (s *screen) command(host, text string) {
	fmt.Fprintf(s.out, "   %s %s\n", s.paint(cyan, fmt.Sprintf("%2s$", host)), text)
}

// edited prints what a file lost and got.
func (s *screen) edited(file string, edits []edit) {
	fmt.Fprintf(s.out, "      %s\n", s.paint(dim, file))
	for _, e := range edits {
		s.lines("-", red, e.before)
		s.lines("+", green, e.after)
	}
}

func (s *screen) lines(sign, colour, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(s.out, "      %s\n", s.paint(colour, sign+" "+strings.TrimRight(line, "\n")))
	}
}

// bars prints how many connections each backend got.
func (s *screen) bars(names []string, counts map[string]int) {
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	const width = 40
	for _, name := range names {
		bar := strings.Repeat("█", counts[name]*width/most)
		fmt.Fprintf(s.out, "      %-3s %s %d\n", name, s.paint(cyan, bar), counts[name])
	}
}

// result prints what has been found to be true.
func (s *screen) result(format string, args ...any) {
	fmt.Fprintf(s.out, "   %s %s\n", s.paint(green, "✓"), fmt.Sprintf(format, args...))
}

// log prints the end of a program's output.
func (s *screen) log(name, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	const most = 30
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	fmt.Fprintf(s.out, "\n   %s\n", s.paint(red, name))
	for _, line := range lines {
		fmt.Fprintf(s.out, "      %s\n", line)
	}
}

// quote prints what a command has printed.
func (s *screen) quote(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(s.out, "      %s\n", s.paint(dim, strings.TrimRight(line, "\n")))
	}
}
