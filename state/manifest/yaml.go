package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// The bounds of what is read. A List may be larger than another object: all
// the Services of a cluster, exported, are one.
const (
	maxDocument = 16 << 20 // bytes; parsing takes 50 times as much memory for a while, of junk even 200
	maxObject   = 3 << 20  // bytes, as text and as JSON: what the API server takes (MaxRequestBodyBytes)
	maxNesting  = 1000     // levels, where aliases multiply them; the parser itself stops at 10000
)

// toJSON gives a document as JSON, and what is wrong with it as YAML. The
// JSON is nil where it could not be made.
//
// YAML is read as the API server reads it, with YAML 1.1's scalars (no is
// false); what does not fit a field's type is an error later on.
func (d *decoding) toJSON() ([]byte, []finding) {
	limit := maxObject
	if bytes.Contains(d.doc.text, []byte("List")) {
		limit = maxDocument
	}
	switch {
	case len(d.doc.text) > limit:
		return nil, []finding{{rule: ruleDocumentSize, message: fmt.Sprintf("is %d bytes long: must not be longer than %d", len(d.doc.text), limit)}}
	case !utf8.Valid(d.doc.text):
		return nil, []finding{{rule: ruleDocumentEncoding, message: "is not UTF-8 text"}}
	case d.doc.json:
		return d.doc.text, nil
	}
	if f := d.guard(); f != nil {
		return nil, []finding{*f}
	}
	js, err := yaml.YAMLToJSONStrict(d.doc.text)
	if err == nil {
		return js, nil
	}
	js, lax := yaml.YAMLToJSON(d.doc.text)
	if lax != nil {
		if found := d.notFinite(); found != nil {
			return nil, found
		}
		return nil, []finding{d.parseError(lax)}
	}
	return js, d.duplicates(err)
}

// guard refuses what the parser would accept and must not: text after the
// document's end, which it leaves unread (only a block mapping at column 0
// cannot have any), and aliases that multiply.
func (d *decoding) guard() *finding {
	text := d.doc.text
	if c := text[0] | 0x20; c < 'a' || c > 'z' {
		var first, second yamlv3.Node
		dec := yamlv3.NewDecoder(bytes.NewReader(text))
		if err := dec.Decode(&first); err != nil {
			f := d.parseError(err)
			return &f
		}
		if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
			return &finding{rule: ruleDocumentEnd, message: "there is text after the end of the document: separate documents by a line ---"}
		}
	}
	if bytes.IndexByte(text, '*') < 0 || bytes.IndexByte(text, '&') < 0 {
		return nil
	}
	w := weigher{}
	if size := w.weigh(d.tree()); size.bytes > maxDocument || size.levels > maxNesting {
		return &finding{rule: ruleAliases, message: "YAML aliases multiply to more than can be read"}
	}
	return nil
}

var parseLine = regexp.MustCompile(`^(?:unmarshal errors: )?line (\d+): (.*)$`)

// parseError turns an error of the YAML parser into a finding at its line.
func (d *decoding) parseError(err error) finding {
	// The third version of the parser counts lines better than the second.
	if _, better := parseTree(d.doc.text); better != nil {
		err = better
	}
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ") // it may span lines
	if m := parseLine.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return finding{rule: ruleDocumentSyntax, line: n, message: "is not YAML: " + m[2] + hint(m[2])}
	}
	return finding{rule: ruleDocumentSyntax, message: "is not YAML: " + text}
}

// hint says what the parser's words most often mean.
func hint(text string) string {
	switch text {
	case "found character that cannot start any token":
		return " (a tab? YAML is indented with spaces)"
	case "mapping values are not allowed in this context":
		return " (wrong indentation, or a value with \": \" in it and no quotes?)"
	}
	return ""
}

// duplicates finds the keys that a document has twice. err is what the
// parser said of them, for those that are not found (overridden merge keys).
func (d *decoding) duplicates(err error) []finding {
	var found []finding
	visit(d.tree(), "", func(n *yamlv3.Node, path string) {
		if n.Kind != yamlv3.MappingNode || len(found) > maxFindings {
			return
		}
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if seen[key] {
				field := join(path, key)
				found = append(found, finding{
					rule: ruleDuplicateField, line: n.Content[i].Line, field: field,
					message: fmt.Sprintf("duplicate field %q", field),
				})
			}
			seen[key] = true
		}
	})
	if found == nil {
		found = append(found, d.parseError(err))
	}
	return found
}

// notFinite finds the numbers that YAML has and JSON has not. What makes the JSON
// tells of one of them, and neither its line nor its field.
func (d *decoding) notFinite() []finding {
	var found []finding
	visit(d.tree(), "", func(n *yamlv3.Node, path string) {
		var x float64
		if len(found) > maxFindings || n.Kind != yamlv3.ScalarNode || n.ShortTag() != "!!float" || n.Decode(&x) != nil {
			return
		}
		if math.IsInf(x, 0) || math.IsNaN(x) {
			found = append(found, finding{
				rule: ruleDocumentSyntax, line: n.Line, field: path,
				message: fmt.Sprintf("%s is no number that JSON has: a text needs quotes", n.Value),
			})
		}
	})
	return found
}

// leadingZeros warns of integers that YAML 1.1 reads as octal, or would if
// their digits were.
func (d *decoding) leadingZeros() []finding {
	if d.doc.json || !hasLeadingZero(d.doc.text) {
		return nil
	}
	var found []finding
	visit(d.tree(), "", func(n *yamlv3.Node, path string) {
		if len(found) > maxFindings || n.Kind != yamlv3.ScalarNode || n.Style != 0 || !leadingZero.MatchString(n.Value) {
			return
		}
		var read any
		if yaml.Unmarshal([]byte(n.Value), &read) == nil {
			found = append(found, finding{
				rule: ruleLeadingZero, line: n.Line, field: path,
				message: fmt.Sprintf("%s is read as %v: write it without leading zeros", n.Value, read),
			})
		}
	})
	return found
}

var leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]*[0-9]$`)

// hasLeadingZero reports whether there may be a plain integer with a leading
// zero, without parsing.
func hasLeadingZero(text []byte) bool {
	for i := 1; i < len(text)-1; i++ {
		n := bytes.IndexByte(text[i:len(text)-1], '0')
		if n < 0 {
			return false
		}
		i += n
		if next := text[i+1]; (next == '_' || '0' <= next && next <= '9') && strings.IndexByte(" \t[,", text[i-1]) >= 0 {
			return true
		}
	}
	return false
}

// weight is what a node comes to when its aliases are expanded.
type weight struct{ bytes, levels int }

// weigher adds up a tree, each anchor once.
type weigher map[*yamlv3.Node]weight

func (w weigher) weigh(n *yamlv3.Node) weight {
	if n == nil {
		return weight{}
	}
	if n.Kind == yamlv3.AliasNode {
		return w.weigh(n.Alias)
	}
	if known, ok := w[n]; ok {
		return known
	}
	w[n] = weight{} // an anchor that holds itself: the parser refuses it
	sum := weight{bytes: len(n.Value) + 4}
	for _, c := range n.Content {
		inner := w.weigh(c)
		sum.bytes = min(sum.bytes+inner.bytes, math.MaxInt32)
		sum.levels = max(sum.levels, inner.levels+1)
	}
	w[n] = sum
	return sum
}
