package pin

import (
	"bytes"
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// insertBlock adds an entry to a mapping in block style, as a line of its own:
// after a line that it reads well after; or as the first entry, behind the line
// of the key above; or after any line with a whole entry. Comments stay with
// what they stand above.
func (d *draft) insertBlock(p place, set setting, attempt int) (edit, bool) {
	first := p.mapping.Content[0]
	var lines []*yaml.Node
	for _, key := range set.after {
		if k, v := entry(p.mapping, key); k != nil && d.onOneLine(k, v) {
			lines = append(lines, k)
			break
		}
	}
	if p.above != nil && p.above.Line < first.Line {
		lines = append(lines, p.above)
	}
	for i := 0; i+1 < len(p.mapping.Content); i += 2 {
		if d.onOneLine(p.mapping.Content[i], p.mapping.Content[i+1]) {
			lines = append(lines, p.mapping.Content[i])
			break
		}
	}
	if len(lines) == 0 {
		return edit{}, false
	}
	at := d.offset(lines[min(attempt, len(lines)-1)])
	if at < 0 {
		return edit{}, false
	}
	quote := quoteOf(first)
	line := strings.Repeat(" ", columnOf(p.mapping)-1) + quote + set.key + quote + ": " + write(set.value, quote, ", ")
	end := d.lineEnd(at)
	return edit{end, end, d.eol(at) + line}, true
}

// columnOf gives the column of a block mapping's keys; of their ?, where the
// first has one.
func columnOf(m *yaml.Node) int {
	first := m.Content[0]
	if m.Line == first.Line {
		return min(m.Column, first.Column)
	}
	return first.Column
}

// onOneLine reports whether an entry is a scalar or an alias on its key's line.
func (d *draft) onOneLine(k, v *yaml.Node) bool {
	if end := d.end(v); end >= 0 && d.line(end) != k.Line {
		return false
	}
	scalar := v.Kind == yaml.ScalarNode && v.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0
	return (scalar || v.Kind == yaml.AliasNode) && v.Line == k.Line
}

var emptyList = regexp.MustCompile(`^\[[ \t\r\n]*\]`)

// replace writes a value over an empty one: nothing, null, "", 0 or [].
func (d *draft) replace(k, v *yaml.Node, set setting) (edit, bool) {
	if v.Kind == yaml.ScalarNode && v.Value == "" && quoteOf(v) == "" {
		return d.fillIn(k, v, set)
	}
	at := d.offset(v)
	if at < 0 || v.Anchor != "" {
		return edit{}, false
	}
	if v.Kind == yaml.SequenceNode && len(v.Content) == 0 {
		n := len(emptyList.Find(d.data[at:]))
		return edit{at, at + n, write(set.value, quoteOf(k), ", ")}, n > 0
	}
	end := d.end(v)
	quote := quoteOf(v)
	if quote == "" {
		quote = quoteOf(k)
	}
	return edit{at, end, write(set.value, quote, ", ")}, end >= 0
}

// fillIn writes a value where a key has none, before the comment if there is
// one.
func (d *draft) fillIn(k, v *yaml.Node, set setting) (edit, bool) {
	at := d.colon(k) + 1
	if at == 0 || v.Anchor != "" || v.Style&yaml.TaggedStyle != 0 {
		return edit{}, false
	}
	value := write(set.value, quoteOf(k), ", ")
	rest := d.data[at:d.lineEnd(at)]
	if len(rest) > 0 && len(bytes.TrimLeft(rest, " \t")) == 0 {
		return edit{at + 1, at + 1, value}, true // the blank is there
	}
	return edit{at, at, " " + value}, true
}

// addItem adds the second address to a list of one.
func (d *draft) addItem(list *yaml.Node, set setting) (edit, bool) {
	all, ok := set.value.([]string)
	item := list.Content[0]
	at, end := d.offset(item), d.end(item)
	if !ok || at < 0 || end < 0 || list.Anchor != "" {
		return edit{}, false
	}
	value := write(all[len(all)-1], quoteOf(item), "")
	before, alone := d.indent(at)
	switch {
	case list.Style&yaml.FlowStyle == 0:
		to := d.lineEnd(end)
		return edit{to, to, d.eol(at) + before + value}, strings.Trim(before, " ") == "-"
	case alone:
		return edit{end, end, "," + d.eol(at) + before + value}, true
	}
	return edit{end, end, ", " + value}, true
}
