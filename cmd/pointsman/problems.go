package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

// problemsAnswer is everything that is wrong with the manifests, and with this host.
type problemsAnswer struct {
	jsonProblems
	Stale   []string    `json:"stale"` // objects whose last good version is served: kind namespace/name
	Held    *heldAnswer `json:"held,omitempty"`
	Trouble []string    `json:"trouble"` // what else /healthz names, and the sync's
}

// problems gives those of the objects that are asked for, and those of no object.
func (c *control) problems(q wanted) answer {
	a := problemsAnswer{Stale: []string{}, Trouble: []string{}}
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
	f := c.source.inForce.Load()
	if f != nil {
		a.Held = heldOf(f.held)
	}
	if q.name == "" {
		a.Trouble = append(a.Trouble, c.troubles(f)...)
	}
	out := answerOf(a)
	out.starting = r == nil
	return out
}

// troubles gives what is wrong with this host, as /healthz has it, but for what is
// told of the objects that are stale, and of the change that is held.
func (c *control) troubles(f *inForce) []string {
	all := slices.DeleteFunc(c.health.Status(time.Now()).Degraded, func(text string) bool {
		return strings.HasPrefix(text, staleManifests+": ") || f != nil && f.held != nil && strings.HasPrefix(text, "manifests: "+f.held.String())
	})
	if text := syncText(syncStatus(c.source.dir)); text != "" {
		all = append(all, "sync: "+text)
	}
	return all
}

// problemRow is a line of what is wrong.
type problemRow struct {
	Severity string `json:"severity"`
	File     string `json:"file,omitempty"` // file:line
	Object   string `json:"object,omitempty"`
	Text     string `json:"problem"`

	subject string // by which those who watch know it again, if it isn't the text
}

func problemRows(a *problemsAnswer) []problemRow {
	var rows []problemRow
	for _, p := range a.Problems {
		rows = append(rows, problemRow{Severity: p.Severity, File: fmt.Sprintf("%s:%d", p.File, p.Line), Object: p.object(), Text: p.text()})
	}
	for _, s := range a.Stale {
		rows = append(rows, problemRow{Severity: "stale", Object: s, Text: "its last good version is served"})
	}
	if a.Held != nil {
		for _, l := range a.Held.lines() {
			rows = append(rows, problemRow{Severity: l[0], Text: l[1]})
		}
	}
	return append(rows, troubleRows(a.Trouble)...)
}

// troubleRows are those of what is wrong with this host: "what: why", of which the
// why may be another at each try.
func troubleRows(texts []string) []problemRow {
	var rows []problemRow
	told := map[string]int{}
	for _, text := range texts {
		what, _, _ := strings.Cut(text, ": ")
		told[what]++
		rows = append(rows, problemRow{Severity: "trouble", Text: text, subject: fmt.Sprint(what, " ", told[what])})
	}
	return rows
}

func getProblemsCommand() *cli.Command {
	return lister(&cli.Command{
		Name:      "problems",
		Aliases:   []string{"problem"},
		Usage:     "what is wrong with the manifests and this host, and what is served all the same",
		ArgsUsage: "[OBJECT]",
		Description: "Lists each finding about the manifests that the agent has read, the objects of which it\n" +
			"serves the last good version, since the one in the directory has errors, the change that is\n" +
			"held, if one is, and what else keeps this host from being as it should: all that /healthz names.",
	}, resource[problemsAnswer, problemRow]{
		name: "problems", path: "/v1/problems",
		rows: problemRows,
		key:  func(r *problemRow) string { return r.Severity + r.File + r.Object + cmp.Or(r.subject, r.Text) },
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
