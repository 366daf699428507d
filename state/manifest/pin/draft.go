package pin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"pointsman/state/manifest"
)

// draft is a document's text with its nodes.
type draft struct {
	*text
	doc    manifest.Document // what the text was, or still is
	root   *yaml.Node
	list   bool
	shared map[*yaml.Node]int // what an alias stands for, and the line of the first one
}

// newDraft parses the text that a document has or is to have.
func newDraft(doc manifest.Document, data []byte) (*draft, error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal(data, &parsed); err != nil || len(parsed.Content) == 0 {
		return nil, fmt.Errorf("its document can't be edited (%v): %w", err, errByHand)
	}
	d := &draft{text: newText(data), doc: doc, root: parsed.Content[0], shared: map[*yaml.Node]int{}}
	if _, kind := entry(d.root, "kind"); kind != nil {
		d.list = strings.HasSuffix(kind.Value, "List")
	}
	d.share(d.root)
	return d, nil
}

func (d *draft) share(n *yaml.Node) {
	if n.Kind == yaml.AliasNode && d.shared[n.Alias] == 0 {
		d.shared[n.Alias] = n.Line
	}
	for _, c := range n.Content {
		d.share(c)
	}
}

// way gives the way from the root to the mapping that a setting belongs in.
func (d *draft) way(s *service, set setting) []string {
	if !d.list {
		return slices.Clone(set.holder)
	}
	return append([]string{"items", strconv.Itoa(s.item)}, set.holder...)
}

// place is a mapping, and the key or the item that it's the value of.
type place struct {
	mapping *yaml.Node
	above   *yaml.Node // nil at the root, and for an item
}

// find follows a way. What stands there for several places can't be edited for
// one of them.
func (d *draft) find(way []string) (place, error) {
	p := place{mapping: d.root}
	for i, step := range way {
		next := place{}
		switch n := p.mapping; n.Kind {
		case yaml.MappingNode:
			next.above, next.mapping = entry(n, step)
		case yaml.SequenceNode:
			if at, err := strconv.Atoi(step); err == nil && at < len(n.Content) {
				next.mapping = n.Content[at]
			}
		}
		if err := d.check(fieldOf(way[:i+1]), p.mapping, next.mapping); err != nil {
			return p, err
		}
		p = next
	}
	if p.mapping.Kind != yaml.MappingNode || len(p.mapping.Content) == 0 {
		return p, fmt.Errorf("%s is no mapping", fieldOf(way))
	}
	return p, nil
}

// check finds out whether a node belongs to one place alone.
func (d *draft) check(field string, in, n *yaml.Node) error {
	switch {
	case n == nil && d.merges(in) > 0:
		return &fault{d.merges(in), field + " comes from what is merged here, which is not this Service's alone: " + byHand}
	case n == nil:
		return fmt.Errorf("%s is not there", field)
	case n.Kind == yaml.AliasNode:
		return &fault{n.Line, field + " is an alias, so it's not this Service's alone: " + byHand}
	case d.shared[n] > 0:
		return &fault{n.Line, fmt.Sprintf("%s is shared by the alias in line %d: %s", field, d.doc.Line+d.shared[n]-1, byHand)}
	}
	return nil
}

// fault is an error at a line of a document.
type fault struct {
	line int
	text string
}

func (f *fault) Error() string { return f.text }

// merges gives the line of a mapping's merge key, 0 where it has none.
func (d *draft) merges(n *yaml.Node) int {
	if k, _ := entry(n, "<<"); k != nil {
		return k.Line
	}
	return 0
}

// lineOf gives the line of a field, or of the nearest one on the way to it.
func (d *draft) lineOf(way []string) int {
	n, line := d.root, 1
	for _, step := range way {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch n.Kind {
		case yaml.MappingNode:
			k, v := entry(n, step)
			if k == nil {
				return line
			}
			n, line = v, k.Line
		case yaml.SequenceNode:
			at, err := strconv.Atoi(step)
			if err != nil || at >= len(n.Content) {
				return line
			}
			n, line = n.Content[at], n.Content[at].Line
		}
	}
	return line
}

// entry gives the key and value of a mapping, nil where it has no such key.
func entry(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// attempts is how many places are tried for a setting: three in block style,
// and the last two in flow style, the best first.
const attempts = 4

// edits gives the edits that put in a Service's settings.
func (d *draft) edits(s *service, attempt int) ([]edit, error) {
	var all []edit
	for _, set := range s.settings {
		p, err := d.find(d.way(s, set))
		if err != nil {
			return nil, err
		}
		e, ok := d.put(p, set, attempt)
		if !ok {
			line := d.lineOf(append(d.way(s, set), set.key))
			return nil, &fault{line, fmt.Sprintf("%s can't be put in here: %s", set.key, byHand)}
		}
		all = append(all, e)
	}
	return all, nil
}

// What to do where a value can't be put in.
const byHand = "write it by hand"

var errByHand = errors.New(byHand)

// put gives the edit for one setting.
func (d *draft) put(p place, set setting, attempt int) (edit, bool) {
	k, v := entry(p.mapping, set.key)
	switch {
	case k != nil && v.Kind == yaml.SequenceNode && len(v.Content) == 1:
		return d.addItem(v, set)
	case k != nil:
		return d.replace(k, v, set)
	case p.mapping.Style&yaml.FlowStyle != 0:
		return d.insertFlow(p.mapping, set, attempt)
	}
	return d.insertBlock(p, set, attempt)
}

// quoteOf gives the quote that a node is written with.
func quoteOf(n *yaml.Node) string {
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return `"`
	case n.Style&yaml.SingleQuotedStyle != 0:
		return "'"
	}
	return ""
}

// write gives a value as text. Without a quote an IPv4 address is written
// plain, and an IPv6 address in quotes, for its colons.
func write(value any, quote, comma string) string {
	switch v := value.(type) {
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = write(item, quote, comma)
		}
		return "[" + strings.Join(items, comma) + "]"
	case string:
		if quote == "" && strings.Contains(v, ":") {
			quote = `"`
		}
		return quote + v + quote
	default:
		return fmt.Sprint(v)
	}
}
