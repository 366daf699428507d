package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"pointsman/state/manifest"
)

// writeExplained writes an answer in a format.
func writeExplained(w io.Writer, format string, answer any, text func(*walk)) error {
	switch format {
	case "json":
		return writeJSON(w, answer)
	case "yaml":
		out, err := manifest.YAML(answer)
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	}
	p := &walk{colour: onScreen(w) && os.Getenv("NO_COLOR") == ""}
	text(p)
	_, err := w.Write(p.Bytes())
	return err
}

// onScreen reports whether somebody looks at what is written.
func onScreen(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// walk is a text in the making: sections with a title at the margin.
type walk struct {
	bytes.Buffer
	colour bool
}

// The colours that conclusions have.
const (
	inRed   = "31"
	inGreen = "32"
	inBold  = "1"
)

func (p *walk) in(colour, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// conclusion is the first line.
func (p *walk) conclusion(ok bool, text string) {
	colour := inRed
	if ok {
		colour = inGreen
	}
	fmt.Fprintln(p, p.in(inBold+";"+colour, text))
}

// marginWidth is where a section's text begins.
const marginWidth = 13

// line adds a line to a section; the first has the title.
func (p *walk) line(title, format string, args ...any) {
	fmt.Fprintf(p, "%s%s%s\n", p.in(inBold, title), strings.Repeat(" ", max(1, marginWidth-len(title))), fmt.Sprintf(format, args...))
}

// table adds rows to a section, aligned. The last column of a row is wrapped.
func (p *walk) table(title string, rows [][]string) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush()
	for text := range strings.Lines(b.String()) {
		p.line(title, "%s", strings.TrimRight(text, " \n"))
		title = ""
	}
}

// list adds lines to a section, no more than most.
func (p *walk) list(title string, lines []string, most int) {
	for i, text := range lines {
		if i == most && len(lines) > most+1 {
			p.line("", "... and %d more (-o json has all)", len(lines)-most)
			return
		}
		p.line(title, "%s", text)
		title = ""
	}
}

// The widths and lengths that are still easy to read.
const (
	pageWidth    = 100
	maxElements  = 24
	maxEndpoints = 40
)

// wrapped adds a text to a section, broken at spaces.
func (p *walk) wrapped(title, text string) {
	for len(text) > pageWidth-marginWidth {
		cut := strings.LastIndexByte(text[:pageWidth-marginWidth], ' ')
		if cut <= 0 {
			break
		}
		p.line(title, "%s", text[:cut])
		title, text = "", text[cut+1:]
	}
	p.line(title, "%s", text)
}
