package pin

import (
	"bytes"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// insertFlow adds an entry to a mapping in flow style, which JSON's objects
// are: after an entry that it reads well after, else as the first. Where the
// neighbour has a line of its own, so has the new one.
func (d *draft) insertFlow(m *yaml.Node, set setting, attempt int) (edit, bool) {
	for _, key := range set.after {
		if k, v := entry(m, key); k != nil && attempt < attempts-1 {
			if e, ok := d.insertAfter(k, v, set); ok {
				return e, true
			}
		}
	}
	return d.insertBefore(m.Content[0], m.Content[1], set)
}

// insertAfter adds an entry behind another one. Should that be the last on its
// own line, the new one goes on a line above it: no comma has to be added to a
// line that is there.
func (d *draft) insertAfter(k, v *yaml.Node, set setting) (edit, bool) {
	at, end := d.offset(k), d.end(v)
	if at < 0 || end < 0 {
		return edit{}, false
	}
	before, alone := d.indent(at)
	rest := d.data[end:d.lineEnd(end)]
	last := blank(rest)
	followed := strings.HasPrefix(strings.TrimLeft(string(rest), " \t"), ",")
	switch {
	case alone && last:
		return d.insertBefore(k, v, set)
	case alone && followed && blank(bytes.TrimLeft(rest, " \t,")):
		to := d.lineEnd(end)
		return edit{to, to, d.eol(at) + before + d.entryText(k, v, set) + ","}, true
	}
	return edit{end, end, d.comma(k, v) + d.entryText(k, v, set)}, true
}

// insertBefore adds an entry before another one.
func (d *draft) insertBefore(k, v *yaml.Node, set setting) (edit, bool) {
	at := d.offset(k)
	if at < 0 {
		return edit{}, false
	}
	text := d.entryText(k, v, set)
	if before, alone := d.indent(at); alone {
		return edit{at, at, text + "," + d.eol(at) + before}, true
	}
	return edit{at, at, text + d.comma(k, v)}, true
}

// entryText writes an entry as its neighbour is written.
func (d *draft) entryText(k, v *yaml.Node, set setting) string {
	quote := quoteOf(k)
	return quote + set.key + quote + d.between(k, v) + write(set.value, quote, d.comma(k, v))
}

// between gives what stands between a key and its value: a colon, and most
// often a blank.
func (d *draft) between(k, v *yaml.Node) string {
	from, to := d.end(k), d.offset(v)
	if from < 0 || to < from || quoteOf(k) == "" {
		return ": "
	}
	if s := string(d.data[from:to]); strings.Trim(s, " \t") == ":" {
		return s
	}
	return ": "
}

// comma is tight where the colon is.
func (d *draft) comma(k, v *yaml.Node) string {
	if d.between(k, v) == ":" {
		return ","
	}
	return ", "
}
