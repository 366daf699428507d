package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

// problemsAnswer is everything that is wrong with the manifests.
type problemsAnswer struct {
	jsonProblems
	Stale []string    `json:"stale"` // objects whose last good version is served: kind namespace/name
	Held  *heldAnswer `json:"held,omitempty"`
}

// problems gives those of the objects that are asked for, and those of no object.
func (c *control) problems(q wanted) answer {
	a := problemsAnswer{Stale: []string{}}
	asked := func(k manifest.Key) bool { return q.has(k.ObjectName) || k.Namespace == "" && q.name == "" }
	var problems []manifest.Problem
	r := c.source.judged.Load()
	if r != nil {
		for _, p := range r.Problems {
			if asked(p.Object) {
				problems = append(problems, p)
			}
		}
		for _, k := range r.Stale {
			if asked(k) {
				a.Stale = append(a.Stale, k.String())
			}
		}
	}
	a.jsonProblems = problemList(problems)
	if f := c.source.inForce.Load(); f != nil {
		a.Held = heldOf(f.held)
	}
	out := answerOf(a)
	out.starting = r == nil
	return out
}

// problemRow is a line of what is wrong.
type problemRow struct {
	Severity string `json:"severity"`
	File     string `json:"file,omitempty"` // file:line
	Object   string `json:"object,omitempty"`
	Text     string `json:"problem"`
}

func problemRows(a *problemsAnswer) []problemRow {
	var rows []problemRow
	for _, p := range a.Problems {
		rows = append(rows, problemRow{p.Severity, fmt.Sprintf("%s:%d", p.File, p.Line), p.object(), p.text()})
	}
	for _, s := range a.Stale {
		rows = append(rows, problemRow{"stale", "", s, "its last good version is served"})
	}
	if a.Held != nil {
		for _, l := range a.Held.lines() {
			rows = append(rows, problemRow{l[0], "", "", l[1]})
		}
	}
	return rows
}

func getProblemsCommand() *cli.Command {
	return lister(&cli.Command{
		Name:      "problems",
		Aliases:   []string{"problem"},
		Usage:     "what is wrong with the manifests, and what of it is served all the same",
		ArgsUsage: "[OBJECT]",
		Description: "Lists each finding about the manifests that the agent has read, the objects of which it\n" +
			"serves the last good version, since the one in the directory has errors, and the change\n" +
			"that is held, if one is.",
	}, resource[problemsAnswer, problemRow]{
		name: "problems", path: "/v1/problems",
		rows: problemRows,
		key:  func(r *problemRow) string { return r.Severity + r.File + r.Object + r.Text },
		columns: []column[problemRow]{
			{head: "SEVERITY", text: func(r *problemRow) string { return r.Severity }},
			{head: "FILE", text: func(r *problemRow) string { return r.File }},
			{head: "OBJECT", text: func(r *problemRow) string { return r.Object }},
			{head: "PROBLEM", text: func(r *problemRow) string { return r.Text }},
		},
	}.action, namespaceFlags()...)
}

func (p *jsonProblem) object() string {
	switch {
	case p.Name == "":
		return "-"
	case p.Namespace == "":
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

func (p *jsonProblem) text() string { return strings.TrimPrefix(p.Field+": "+p.Message, ": ") }
