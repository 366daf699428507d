package pin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pointsman/state"
	"pointsman/state/manifest"
)

// edit replaces the bytes from at to to.
type edit struct {
	at, to int
	text   string
}

// apply makes the edits of one text; those at the same place in their order.
func apply(data []byte, edits []edit) ([]byte, error) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	done := 0
	for _, e := range edits {
		if e.at < done || e.to < e.at || e.to > len(data) {
			return nil, errors.New("two values belong in the same place")
		}
		out = append(append(out, data[done:e.at]...), e.text...)
		done = e.to
	}
	return append(out, data[done:]...), nil
}

// edit puts the settings of a file's Services into it, and notes the result.
// That a value makes two documents of one, or one of two, is looked for here.
func (p *Plan) edit(f *file, cfg manifest.Config) {
	var after []byte
	var texts [][]byte
	done := 0
	values := make([][]Value, len(f.docs))
	for i, d := range f.docs {
		text, found := d.edit(cfg, p.refuse)
		after = append(append(after, f.Data[done:d.Offset]...), text...)
		done = d.Offset + len(d.Text)
		texts, values[i] = append(texts, text), found
	}
	after = append(after, f.Data[done:]...)
	if bytes.Equal(after, f.Data) {
		return
	}
	docs := manifest.Documents(after)
	if !slices.EqualFunc(docs, texts, isText) {
		p.Refusals = append(p.Refusals, Refusal{state.Source{File: f.Path, Line: 1}, "the values would change what the file's documents are: " + byHand})
		return
	}
	for i, found := range values {
		for _, v := range found {
			v.Written.Line += docs[i].Line - 1
			p.Values = append(p.Values, v)
		}
	}
	p.Files = append(p.Files, File{Path: f.Path, Before: f.Data, After: after})
}

// isText compares a document with a text, but for blanks at its ends: what
// becomes JSON by a value instead of a ~ ends with its last brace.
func isText(d manifest.Document, text []byte) bool {
	return bytes.Equal(bytes.TrimSpace(d.Text), bytes.TrimSpace(text))
}

// edit gives the document with the settings of its Services, and the values,
// whose Written lines count from the document's first. A Service whose
// settings can't be put in is refused.
func (d *document) edit(cfg manifest.Config, refuse func(*service, error)) ([]byte, []Value) {
	lacking := slices.DeleteFunc(slices.Clone(d.services), func(s *service) bool { return len(s.settings) == 0 })
	if len(lacking) == 0 {
		return d.Text, nil
	}
	before, err := newDraft(d.Document, d.Text)
	if err != nil {
		for _, s := range lacking {
			refuse(s, err)
		}
		return d.Text, nil
	}
	var done []*service
	after := before.withEach(lacking, cfg, func(s *service, why error) {
		if why != nil {
			refuse(s, why)
			return
		}
		done = append(done, s)
	})
	return after.data, values(d, before, after, done)
}

// withEach gives the draft with the settings of all those Services for which
// there's a way, and tells of each what came of it. All at once will do as a
// rule. If not, halves are tried, so that a List of thousands with one odd
// Service isn't parsed thousands of times.
func (d *draft) withEach(services []*service, cfg manifest.Config, tell func(*service, error)) *draft {
	next, err := d.with(services, 0, cfg)
	if half := len(services) / 2; err != nil && half > 0 {
		return d.withEach(services[:half], cfg, tell).withEach(services[half:], cfg, tell)
	}
	for attempt := 1; attempt < attempts && err != nil; attempt++ {
		next, err = d.with(services, attempt, cfg)
	}
	for _, s := range services {
		tell(s, err)
	}
	if err != nil {
		return d
	}
	return next
}

// with gives the draft with the settings of some Services, or an error where
// it would then not mean just that.
func (d *draft) with(services []*service, attempt int, cfg manifest.Config) (*draft, error) {
	var all []edit
	for _, s := range services {
		edits, err := d.edits(s, attempt)
		if err != nil {
			return nil, err
		}
		all = append(all, edits...)
	}
	data, err := apply(d.data, all)
	if err != nil {
		return nil, err
	}
	if err := d.verify(data, services, cfg); err != nil {
		return nil, err
	}
	return newDraft(d.doc, data)
}

// values tells of the settings where they were missing, and where they are.
func values(d *document, before, after *draft, services []*service) []Value {
	var out []Value
	for _, s := range services {
		for _, set := range s.settings {
			way := append(before.way(s, set), set.key)
			v := Value{
				Service: s.name(), Field: fieldOf(way), Text: fmt.Sprint(set.value),
				Missing: state.Source{File: d.file.Path, Line: d.Line + before.lineOf(way) - 1},
				Written: state.Source{File: d.file.Path, Line: after.lineOf(way)},
			}
			if list, ok := set.value.([]string); ok {
				v.Text = strings.Join(list, ",")
			}
			out = append(out, v)
		}
	}
	return out
}

// fieldOf writes a way as a field path.
func fieldOf(way []string) string {
	var b strings.Builder
	for i, step := range way {
		switch {
		case step[0] >= '0' && step[0] <= '9':
			b.WriteString("[" + step + "]")
		case i > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return b.String()
}
