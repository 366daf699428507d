package pin

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// text is a document's bytes with what is needed to find a node in them.
type text struct {
	data   []byte
	starts []int // of the lines
}

// newText divides a text into lines as YAML 1.1 and its parser do.
func newText(data []byte) *text {
	t := &text{data: data, starts: []int{0}}
	for i := 0; i < len(data); {
		if n := breakAt(data[i:]); n > 0 {
			i += n
			t.starts = append(t.starts, i)
			continue
		}
		i++
	}
	return t
}

// breakAt is the length of the line break that a text starts with, 0 where it
// starts with none: \n, \r\n, \r, NEL, LS or PS.
func breakAt(data []byte) int {
	switch {
	case len(data) == 0:
		return 0
	case data[0] == '\n':
		return 1
	case data[0] == '\r':
		if len(data) > 1 && data[1] == '\n' {
			return 2
		}
		return 1
	case bytes.HasPrefix(data, []byte("\u0085")):
		return 2
	case bytes.HasPrefix(data, []byte("\u2028")), bytes.HasPrefix(data, []byte("\u2029")):
		return 3
	}
	return 0
}

// line gives the number of the line that an offset is in, from 1.
func (t *text) line(at int) int {
	i, exact := slices.BinarySearch(t.starts, at)
	if exact {
		return i + 1
	}
	return i
}

// offset gives where a node starts, -1 where the text has no such place.
func (t *text) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(t.starts) {
		return -1
	}
	at := t.starts[n.Line-1]
	for range n.Column - 1 {
		if at >= len(t.data) {
			return -1
		}
		_, size := utf8.DecodeRune(t.data[at:])
		at += size
	}
	return at
}

// lineStart gives where the line of an offset starts.
func (t *text) lineStart(at int) int { return t.starts[t.line(at)-1] }

// lineEnd gives where the line of an offset ends, before its break.
func (t *text) lineEnd(at int) int {
	for at < len(t.data) && breakAt(t.data[at:]) == 0 {
		at++
	}
	return at
}

// eol gives the break that ends the line of an offset, or else the one before.
func (t *text) eol(at int) string {
	end := t.lineEnd(at)
	if n := breakAt(t.data[end:]); n > 0 {
		return string(t.data[end : end+n])
	}
	if start := t.lineStart(at); start > 0 {
		for from := max(start-3, 0); from < start; from++ {
			if n := breakAt(t.data[from:start]); from+n == start && n > 0 {
				return string(t.data[from:start])
			}
		}
	}
	return "\n"
}

// indent gives the blanks before an offset, and whether there's nothing else
// before it in its line.
func (t *text) indent(at int) (string, bool) {
	before := string(t.data[t.lineStart(at):at])
	return before, strings.Trim(before, " \t") == ""
}

// end gives where a scalar that starts at an offset ends, -1 where that can't
// be told: it has an anchor or a tag, or is plain and spans lines.
func (t *text) end(n *yaml.Node) int {
	at := t.offset(n)
	if at < 0 || at > len(t.data) || n.Kind != yaml.ScalarNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return -1
	}
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return t.endQuoted(at, '"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		return t.endQuoted(at, '\'')
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && bytes.HasPrefix(t.data[at:], []byte(n.Value)):
		return at + len(n.Value)
	}
	return -1
}

func (t *text) endQuoted(at int, quote byte) int {
	if at >= len(t.data) || t.data[at] != quote {
		return -1
	}
	for i := at + 1; i < len(t.data); i++ {
		switch {
		case t.data[i] == '\\' && quote == '"':
			i++
		case t.data[i] != quote:
		case quote == '\'' && i+1 < len(t.data) && t.data[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// colon gives where the : after a key is, -1 where it isn't on its line.
func (t *text) colon(key *yaml.Node) int {
	at := t.end(key)
	if at < 0 {
		return -1
	}
	for at < len(t.data) && (t.data[at] == ' ' || t.data[at] == '\t') {
		at++
	}
	if at >= len(t.data) || t.data[at] != ':' {
		return -1
	}
	return at
}

// blank reports whether a rest of a line is nothing but blanks and a comment.
func blank(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t")
	return len(rest) == 0 || rest[0] == '#'
}
