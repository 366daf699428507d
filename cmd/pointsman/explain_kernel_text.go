package main

import (
	"fmt"

	"pointsman/reconcile"
)

// kernel shows the elements, and before them what is wrong.
func (p *walk) kernel(k *reconcile.KernelState) {
	switch {
	case !k.Known:
		p.wrapped("kernel", "could not be asked: "+k.Error)
		return
	case k.OK():
		p.line("kernel", "table %s is as it should be", k.Table)
	default:
		p.line("kernel", "%s", p.in(inRed, "table "+k.Table+" is not as it should be"))
	}
	for _, f := range k.Faults {
		p.wrapped("", f)
	}
	for _, d := range k.Differences {
		text := fmt.Sprintf("%-8s %s", d.Kind, d.Element)
		if d.Want != "" {
			text += ", should be " + d.Want
		}
		p.line("", "%s", p.in(inRed, text))
	}
	if k.Remedy != "" {
		p.wrapped("", k.Remedy)
	}
	if k.Unsteady {
		p.wrapped("", "somebody changed the ruleset all the while: look again")
	}
	p.list("", k.Elements, maxElements)
}

// connections shows where those go that there are.
func (p *walk) connections(c *reconcile.Connections) {
	if c == nil {
		return
	}
	if c.Error != "" {
		p.wrapped("connections", "could not all be listed: "+c.Error)
		return
	}
	p.line("connections", "%d open, %d closing", c.Open, c.Closing)
	var rows [][]string
	for _, b := range c.Backends {
		rows = append(rows, []string{b.Address.String(), fmt.Sprintf("%d open", b.Open), fmt.Sprintf("%d closing", b.Closing), b.Note})
	}
	p.table("", rows[:min(len(rows), maxElements)])
	for _, l := range c.Listed {
		closing := ""
		if l.Closing {
			closing = " (closing)"
		}
		p.line("", "%s to %s, as %s%s", l.Source, l.Backend, l.Seen, closing)
	}
	if c.Unlisted > 0 {
		p.line("", "... and %d more of that client", c.Unlisted)
	}
}

// manifests shows what isn't as the files have it.
func (p *walk) manifests(m *manifestsAnswer) {
	var lines []string
	if m.Pending != "" {
		lines = append(lines, m.Pending)
	}
	for _, s := range m.Stale {
		lines = append(lines, "the last good version of "+s+" is served: what is in its file now has errors")
	}
	for _, x := range m.Mentions {
		lines = append(lines, fmt.Sprintf("%s (%s) names it: %s", x.Object, x.Source, x.Why))
	}
	for _, x := range m.Problems {
		lines = append(lines, fmt.Sprintf("%s: %s:%d: %s", x.Severity, x.File, x.Line, x.text()))
	}
	title := "manifests"
	for _, text := range lines {
		p.wrapped(title, text)
		title = ""
	}
}
