package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // line: text
	}{
		{"nothing", "", nil},
		{"blanks and comments", "\n  # a\n---\n# b\n--- # c\n...\n", nil},
		{"one", "a: 1\n", []string{"1: a: 1\n"}},
		{"two", "a: 1\n---\nb: 2", []string{"1: a: 1\n", "3: b: 2"}},
		{"a header, then a marker", "# Copyright\n\n---\n\n# Web.\na: 1\n", []string{"6: a: 1\n"}},
		{"the marker has a comment", "--- # first\na: 1\n---\t# second\nb: 2\n", []string{"2: a: 1\n", "4: b: 2\n"}},
		{"the marker has content", "--- {a: 1}\n--- !!map\nb: 2\n", []string{"1: --- {a: 1}\n", "2: --- !!map\nb: 2\n"}},
		{"no marker", "a: 1\n----\n---b\n ---\n", []string{"1: a: 1\n----\n---b\n ---\n"}},
		{"in a block scalar, indented", "a: |\n  x\n  ---\n  y\n", []string{"1: a: |\n  x\n  ---\n  y\n"}},
		{"in a block scalar, at its left", "a: |\n  x\n---\nb: 2\n", []string{"1: a: |\n  x\n", "4: b: 2\n"}},
		{"the end marker", "a: 1\n...\n# c\n...\nb: 2\n", []string{"1: a: 1\n", "5: b: 2\n"}},
		{"the end marker has content", "a: 1\n... b: 2\n", []string{"1: a: 1\n", "2:  b: 2\n"}},
		{"directives", "%YAML 1.1\n# c\n---\na: 1\n", []string{"4: a: 1\n"}},
		{"directives without a document", "%YAML 1.1\n", []string{"1: %YAML 1.1\n"}},
		{"CRLF", "a: 1\r\n---\r\nb: 2\r\n", []string{"1: a: 1\r\n", "3: b: 2\r\n"}},
		{"CR alone", "a: 1\r---\rb: 2\r", []string{"1: a: 1\r", "3: b: 2\r"}},
		{"a Unicode line separator", "a: 1\u2028---\u2028b: 2", []string{"1: a: 1\u2028", "3: b: 2"}},
		{"a byte order mark", "\ufeff---\na: 1\n", []string{"2: a: 1\n"}},
		{"a byte order mark for each", "\ufeffa: 1\n---\n\ufeff# b\n\ufeffb: 2\n...\n\ufeff--- {c: 3}\n---\n\ufeff", []string{"1: a: 1\n", "4: b: 2\n", "6: --- {c: 3}\n"}},
		{"a byte order mark in a document", "a: \ufeff\n\ufeffb: 2\n", []string{"1: a: \ufeff\n\ufeffb: 2\n"}},
		{"JSON", "{\n\"a\": 1\n}\n", []string{"1: {\n\"a\": 1\n}"}},
		{"JSON objects in a row", "{\"a\": 1}\n\n{\"b\": 2} {\"c\": 3}", []string{`1: {"a": 1}`, `3: {"b": 2}`, `3: {"c": 3}`}},
		{"JSON and more", "{\"a\": 1}\nb: 2\n", []string{"1: {\"a\": 1}\nb: 2\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for i, d := range split([]byte(tt.text)) {
				got = append(got, fmt.Sprintf("%d: %s", d.line, d.text))
				if d.number != i+1 {
					t.Errorf("number %d of document %d", d.number, i+1)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("\n got %q\nwant %q", got, tt.want)
			}
			for i, d := range Documents([]byte(tt.text)) {
				if at := tt.text[d.Offset:]; fmt.Sprintf("%d: %s", d.Line, at[:len(d.Text)]) != tt.want[i] {
					t.Errorf("document %d is not at offset %d", i+1, d.Offset)
				}
			}
		})
	}
}

// Whatever the parser takes for a stream of documents is split where the
// parser does.
func TestSplitAgreesWithTheParser(t *testing.T) {
	parts := []string{
		"---", "...", "--- ", "--- # c", " ---", "a: 1", "a:", "  b: |", "    text", "    ---", "- x", "# c", "",
		"\"q", "q\"", "'", "{", "}", "? x", ": y", "--- |", "--- a", "\t",
	}
	breaks := []string{"\n", "\n", "\n", "\r\n", "\r", "\u0085", "\u2028"}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			b.WriteString(rapid.SampledFrom(parts).Draw(t, "line"))
			b.WriteString(rapid.SampledFrom(breaks).Draw(t, "break"))
		}
		want, ok := parseStream(b.String())
		if !ok {
			return
		}
		var got []string
		for _, d := range split([]byte(b.String())) {
			docs, ok := parseStream(string(d.text))
			if !ok || len(docs) > 1 {
				t.Fatalf("%q: piece %q is no document", b.String(), d.text)
			}
			got = append(got, docs...)
		}
		if got, want := clean(got), clean(want); !slices.Equal(got, want) {
			t.Fatalf("%q:\n got %q\nwant %q", b.String(), got, want)
		}
	})
}

// parseStream gives the documents of a stream in a spelling of their own.
func parseStream(text string) ([]string, bool) {
	var docs []string
	dec := yamlv3.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var n yamlv3.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, true
		}
		if err != nil {
			return nil, false
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, false
		}
		docs = append(docs, fmt.Sprintf("%#v", v))
	}
}

// clean leaves out empty documents.
func clean(docs []string) []string {
	return slices.DeleteFunc(slices.Clone(docs), func(d string) bool { return d == "<nil>" })
}
