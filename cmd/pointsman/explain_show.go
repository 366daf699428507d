package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

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
	p := &walk{colour: isTerminal(w) && os.Getenv("NO_COLOR") == ""}
	text(p)
	_, err := w.Write(p.Bytes())
	return err
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

// table adds rows to a section, aligned. The last column is wrapped.
func (p *walk) table(title string, rows [][]string) {
	var widths []int
	for _, r := range rows {
		for i, text := range r[:len(r)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, r := range rows {
		head := ""
		for i, text := range r[:len(r)-1] {
			head += fmt.Sprintf("%-*s  ", widths[i], text)
		}
		for _, text := range wrap(r[len(r)-1], pageWidth-marginWidth-len(head)) {
			p.line(title, "%s", strings.TrimRight(head+text, " "))
			title, head = "", strings.Repeat(" ", len(head))
		}
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
	for _, line := range wrap(text, pageWidth-marginWidth) {
		p.line(title, "%s", line)
		title = ""
	}
}

// minWidth is what a text is given however little room there is.
const minWidth = 30

// wrap breaks a text at spaces, where it has any.
func wrap(text string, width int) (lines []string) {
	width = max(width, minWidth)
	for len(text) > width {
		cut := strings.LastIndexByte(text[:width+1], ' ')
		if cut <= 0 {
			if cut = strings.IndexByte(text, ' '); cut < 0 {
				break
			}
		}
		lines = append(lines, text[:cut])
		text = text[cut+1:]
	}
	return append(lines, text)
}
