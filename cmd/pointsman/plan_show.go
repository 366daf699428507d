package main

import (
	"fmt"
	"io"
	"strings"
)

// writePlan writes a plan in a format.
func writePlan(w io.Writer, format string, p *planAnswer) error {
	switch format {
	case "json":
		return writeJSON(w, p)
	case "markdown":
		_, err := io.WriteString(w, p.markdown())
		return err
	}
	_, err := io.WriteString(w, p.text())
	return err
}

// marks stand for what becomes of a Service, in text.
var marks = map[string]string{"added": "+", "removed": "-", "changed": "~"}

// text is for a terminal.
func (p *planAnswer) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "on %s: from %s to %s\n", p.Node, stateText(p.From), stateText(p.To))
	for _, s := range p.Services {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s Service %s %s", marks[s.Change], s.Name, strings.Join(s.Addresses, ", "))))
		for _, d := range s.details() {
			fmt.Fprintf(&b, "    %s\n", d)
		}
	}
	fmt.Fprintln(&b, p.summary())
	for _, l := range p.findings() {
		fmt.Fprintln(&b, l)
	}
	for _, l := range p.fate() {
		fmt.Fprintf(&b, "%s: %s\n", l[0], l[1])
	}
	return b.String()
}

func stateText(s pastState) string { return strings.TrimSpace(s.Hash + " " + shortCommit(s.Commit)) }

// details tell what differs of a Service, line by line.
func (s *serviceChange) details() []string {
	var lines []string
	for _, f := range s.Fields {
		if f.Before == "" {
			lines = append(lines, f.Field+": "+f.After)
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s -> %s", f.Field, f.Before, orDash(f.After)))
	}
	if len(s.EndpointsAdded) > 0 {
		lines = append(lines, "endpoints that come: "+shortList(s.EndpointsAdded))
	}
	if len(s.EndpointsRemoved) > 0 {
		lines = append(lines, "endpoints that go: "+shortList(s.EndpointsRemoved))
	}
	return lines
}

// summary counts what changes.
func (p *planAnswer) summary() string {
	if !p.Changes {
		return "nothing changes"
	}
	n := map[string]int{}
	for _, s := range p.Services {
		n[s.Change]++
	}
	return fmt.Sprintf("Services: %d added, %d removed, %d changed; endpoints: %d added, %d removed; nftables elements: %d added, %d removed",
		n["added"], n["removed"], n["changed"], p.Endpoints.Added, p.Endpoints.Removed, p.Elements.Added, p.Elements.Removed)
}

// findings tell what is wrong with the manifests, and what is served all the
// same.
func (p *planAnswer) findings() []string {
	var lines []string
	for i := range p.Problems {
		f := &p.Problems[i]
		lines = append(lines, fmt.Sprintf("%s: %s:%d: %s", f.Severity, f.File, f.Line, f.text()))
	}
	for _, s := range p.Stale {
		lines = append(lines, "stale: "+s+" stays as it is served now")
	}
	return lines
}

// fate tells whether the change would be held, and why.
func (p *planAnswer) fate() [][2]string {
	switch {
	case p.Approved:
		return [][2]string{{"approved", "it would be held but for approve.yaml"}}
	case p.Held != nil:
		return p.Held.lines()
	}
	return nil
}

// markdown is for a pull request.
func (p *planAnswer) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### pointsman plan for %s\n\n%s (`%s` to `%s`)\n", p.Node, cell(p.summary()), stateText(p.From), stateText(p.To))
	if len(p.Services) > 0 {
		b.WriteString("\n| | Service | what changes |\n|---|---|---|\n")
	}
	for _, s := range p.Services {
		details := s.details()
		if len(s.Addresses) > 0 {
			details = append([]string{strings.Join(s.Addresses, ", ")}, details...)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Change, cell(s.Name), cell(strings.Join(details, "\n")))
	}
	for i, l := range p.findings() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", cell(l))
	}
	for i, l := range p.fate() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "> **%s** %s\n", l[0], cell(l[1]))
	}
	return b.String()
}

// cell keeps text from being markup: what manifests say is anybody's.
func cell(text string) string {
	return strings.NewReplacer("\n", "<br>", "&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "@", "&#64;").Replace(text)
}
