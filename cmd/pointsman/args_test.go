package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestInterspersed(t *testing.T) {
	for line, want := range map[string]string{
		"pointsman":                                   "pointsman",
		"pointsman --version":                         "pointsman --version",
		"pointsman nothing --strict":                  "pointsman nothing --strict",
		"pointsman validate dir --strict":             "pointsman validate --strict dir",
		"pointsman validate a -o json b --strict":     "pointsman validate -o json --strict a b",
		"pointsman validate a --output=json b":        "pointsman validate --output=json a b",
		"pointsman validate dir --unknown value":      "pointsman validate --unknown dir value",
		"pointsman validate dir -o":                   "pointsman validate -o dir",
		"pointsman validate -- --strict":              "pointsman validate -- --strict",
		"pointsman validate a --strict -- -b":         "pointsman validate --strict -- a -b",
		"pointsman validate -":                        "pointsman validate -",
		"pointsman get problems -n shop -o json":      "pointsman get problems -n shop -o json",
		"pointsman get -n services -w endpoints web":  "pointsman get endpoints -n services -w web",
		"pointsman get -o wide":                       "pointsman get -o wide",
		"pointsman get nothing --output=wide":         "pointsman get --output=wide nothing",
		"pointsman drain endpoint 10.0.0.1 --for 1h":  "pointsman drain --for 1h endpoint 10.0.0.1",
		"pointsman drain node --reason tea --for=1h ": "pointsman drain --reason tea --for=1h node",
		"pointsman drain node n2 --help":              "pointsman drain --help",
		"pointsman get nodes -o json n2 -h":           "pointsman get nodes -h",
		"pointsman drain -- node --help":              "pointsman drain -- node --help",
	} {
		if got := interspersed(app(io.Discard, io.Discard), strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s\n got %s\nwant %s", line, strings.Join(got, " "), want)
		}
	}
}
