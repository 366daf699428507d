package manifest

import (
	"fmt"
	"slices"
	"strconv"

	yamlv3 "go.yaml.in/yaml/v3"

	"pointsman/state"
)

// newProblem makes a problem that is about no field.
func newProblem(rule Rule, at state.Source, format string, args ...any) Problem {
	return Problem{Rule: rule, Severity: severityOf(rule), Source: at, Message: fmt.Sprintf(format, args...)}
}

// problem makes a finding about a field of a good document, at the field's
// line. That means parsing the document again, which is why such findings are
// kept rather than made anew.
func (o *Object) problem(rule Rule, field, format string, args ...any) Problem {
	p := newProblem(rule, o.Source, format, args...)
	p.Object, p.Field = o.Key, field
	if o.doc == nil {
		return p
	}
	p.Document = o.doc.number
	if field != "" {
		p.Field, p.Source = o.locate(field)
	}
	return p
}

// lineOf gives the place of a field of the object.
func (o *Object) lineOf(field string) state.Source {
	if o.doc == nil {
		return o.Source
	}
	_, source := o.locate(field)
	return source
}

// locate gives a field's path in its document, and its place.
func (o *Object) locate(field string) (string, state.Source) {
	root, err := parseTree(o.doc.text)
	if err != nil {
		return field, o.Source
	}
	path := join(o.pathIn(root), field)
	at := o.Source
	at.Line = max(o.Source.Line, o.doc.line+lineOf(root, path)-1)
	return path, at
}

// pathIn gives the path of the object in its document: items[2] in a List,
// else nothing.
func (o *Object) pathIn(root *yamlv3.Node) string {
	items, _ := child(root, "items")
	if _, isList := listOf(headOfNode(root)); !isList || items == nil {
		return ""
	}
	for i, item := range items.Content {
		h := headOfNode(item)
		sameName := h.Metadata.Name == o.Key.Name && h.key().Namespace == o.Key.Namespace
		if sameName && (h.Kind == "" || h.Kind == o.Key.Kind) && o.doc.line+item.Line-1 == o.Source.Line {
			return "items[" + strconv.Itoa(i) + "]"
		}
	}
	return ""
}

func headOfNode(n *yamlv3.Node) head {
	var h head
	text := func(n *yamlv3.Node, key string) string {
		if v, _ := child(n, key); v != nil {
			return v.Value
		}
		return ""
	}
	h.APIVersion, h.Kind = text(n, "apiVersion"), Kind(text(n, "kind"))
	meta, _ := child(n, "metadata")
	h.Metadata.Name, h.Metadata.Namespace = text(meta, "name"), text(meta, "namespace")
	return h
}

// sortProblems sorts problems and leaves out repeats, such as one finding
// about each port of a Service.
func sortProblems(ps []Problem) []Problem {
	if !slices.IsSortedFunc(ps, Problem.Compare) {
		slices.SortStableFunc(ps, Problem.Compare)
	}
	return slices.Compact(ps)
}
