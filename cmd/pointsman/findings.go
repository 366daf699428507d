package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

// outputFlag chooses among formats, the first of which is the default.
func outputFlag(formats ...string) *choiceFlag {
	return &choiceFlag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, EnvVars: env("output"), Value: formats[0],
		Usage: "`FORMAT`: " + strings.Join(formats, ", ")}, formats}
}

// outputOf gives the format that was chosen.
func outputOf(c *cli.Context, formats ...string) (string, error) {
	chosen := c.String("output")
	for _, f := range formats {
		if f == chosen {
			return f, nil
		}
	}
	return "", usage("--output: %q is none of %s", chosen, strings.Join(formats, ", "))
}

// findingFormats are the formats of findings about manifests.
var findingFormats = []string{"text", "json", "sarif", "github"}

// writeProblems writes findings in a format. All but text name files as seen
// from the working directory, since whoever reads them has only that.
func writeProblems(w io.Writer, format string, problems []manifest.Problem) error {
	switch format {
	case "json":
		return writeJSON(w, problemList(problems))
	case "sarif":
		return writeJSON(w, sarifOf(problems))
	case "github":
		return writeAnnotations(w, problems)
	}
	for _, p := range problems {
		if _, err := fmt.Fprintln(w, p); err != nil {
			return err
		}
	}
	return nil
}

// jsonProblem is one finding as JSON.
type jsonProblem struct {
	Severity  string `json:"severity"` // error or warning
	Rule      string `json:"rule"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Document  int    `json:"document,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Field     string `json:"field,omitempty"`
	Message   string `json:"message"`
}

type jsonProblems struct {
	Problems []jsonProblem `json:"problems"`
}

func problemList(problems []manifest.Problem) jsonProblems {
	list := jsonProblems{Problems: []jsonProblem{}}
	for _, p := range problems {
		list.Problems = append(list.Problems, jsonProblem{
			Severity: p.Severity.String(), Rule: string(p.Rule), File: p.Source.File, Line: p.Source.Line, Document: p.Document,
			Kind: string(p.Object.Kind), Namespace: p.Object.Namespace, Name: p.Object.Name, Field: p.Field, Message: p.Message,
		})
	}
	return list
}

// writeJSON writes a value as indented JSON, as it is: nobody reads it as HTML.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeAnnotations writes workflow commands of GitHub Actions, which show each
// finding at its line of a pull request.
func writeAnnotations(w io.Writer, problems []manifest.Problem) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, p := range problems {
		_, err := fmt.Fprintf(w, "::%s file=%s,line=%d,title=%s::%s\n", p.Severity,
			property.Replace(filepath.ToSlash(p.Source.File)), p.Source.Line, property.Replace(string(p.Rule)), data.Replace(fieldAndMessage(p)))
		if err != nil {
			return err
		}
	}
	return nil
}

func fieldAndMessage(p manifest.Problem) string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}
