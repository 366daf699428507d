package main

import (
	"fmt"
	"strings"
)

// page is a manual page in the macros of man(7).
type page struct{ strings.Builder }

// newPage begins a page. It has no date, so that the same commands always give
// the same pages.
func newPage(name, usage string) *page {
	p := &page{}
	fmt.Fprintf(p, ".TH %s 1 \"\" \"pointsman %s\" \"Pointsman Manual\"\n", strings.ToUpper(name), versionText())
	p.WriteString(".nh\n.nr HY 0\n.ad l\n") // who copies a variable's name wants it in one piece
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", escape(name), escape(usage))
	return p
}

func (p *page) section(name string) { fmt.Fprintf(p, ".SH %s\n", name) }

func (p *page) synopsis(command, arguments string) {
	fmt.Fprintf(p, "%s %s\n", bold(command), italic(arguments))
}

// item is a term and what it means, both escaped.
func (p *page) item(term, text string) { fmt.Fprintf(p, ".TP\n%s\n%s\n", term, text) }

// text writes paragraphs, with empty lines between them. Lines that begin with a
// blank are shown as they are.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		if strings.HasPrefix(paragraph, " ") {
			p.code(lines)
			continue
		}
		if i > 0 {
			p.WriteString(".PP\n")
		}
		for _, l := range lines {
			fmt.Fprintln(p, escape(l))
		}
	}
}

func (p *page) code(lines []string) {
	p.WriteString(".PP\n.RS 4\n.EX\n")
	for _, l := range lines {
		fmt.Fprintln(p, escape(strings.TrimSpace(l)))
	}
	p.WriteString(".EE\n.RE\n")
}

func bold(text string) string   { return `\fB` + escape(text) + `\fR` }
func italic(text string) string { return `\fI` + escape(text) + `\fR` }

// escape has roff take a line for text: \ is its escape, - its hyphen, and a . or
// ' in front its command. A ' elsewhere would become a curly one, which nobody
// can paste into a shell.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
