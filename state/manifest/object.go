package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"pointsman/state"
)

// decoding is one document on its way to objects.
type decoding struct {
	file string
	doc  document
	cfg  Config

	root   *yamlv3.Node // by tree
	parsed bool
}

// head is what has to be known of an object before it is decoded.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       Kind   `json:"kind"`
	Metadata   struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
}

// backed tells which Service of its namespace an object holds endpoints for: a
// slice says it by label, Endpoints by their name.
func (h head) backed() string {
	switch h.Kind {
	case KindEndpointSlice:
		return h.Metadata.Labels[discoveryv1.LabelServiceName]
	case KindEndpoints:
		return h.Metadata.Name
	}
	return ""
}

// key gives the Key that a head means.
func (h head) key() Key {
	k := Key{Kind: h.Kind, ObjectName: state.ObjectName{Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}}
	if k.Name != "" && k.Namespace == "" && k.Kind != KindNode {
		k.Namespace = metav1.NamespaceDefault
	}
	return k
}

// item is an object of a document: the document itself, or an item of a List.
type item struct {
	head
	path string // of the object in the document: empty, or items[2]
	json []byte
}

// decodeDocument gives the objects of a document.
func decodeDocument(file string, doc document, cfg Config) []*Object {
	doc.text = bytes.Clone(doc.text) // the objects outlive the file
	d := &decoding{file: file, doc: doc, cfg: cfg}
	js, findings := d.toJSON()
	if js == nil {
		return []*Object{d.failed(item{head: guessHead(doc.text)}, findings)}
	}
	findings = append(findings, d.leadingZeros()...)
	if js[0] != '{' {
		return []*Object{d.failed(item{}, append(findings, finding{rule: ruleNotAnObject, message: "must be an object with apiVersion and kind"}))}
	}
	it := item{head: headOf(js), json: js}
	if kind, ok := listOf(it.head); ok {
		return d.list(it, kind, findings)
	}
	o := d.object(it, findings)
	o.Raw = d.doc.text
	return []*Object{o}
}

func headOf(js []byte) head {
	var h head
	_ = json.UnmarshalCaseSensitivePreserveInts(js, &h) // wrong types are found when the whole is decoded
	return h
}

// object decodes, defaults and validates one object. Findings are those made
// on the way.
func (d *decoding) object(it item, findings []finding) *Object {
	o := &Object{Key: it.key(), Raw: it.json, doc: &d.doc, backed: it.backed()}
	o.Source = state.Source{File: d.file, Line: d.doc.line + max(d.line(it.path), 1) - 1}
	findings = append(findings, d.fill(o, it)...)
	o.Problems = d.problems(o.Key, findings)
	if o.Failed() {
		o.Service, o.EndpointSlice, o.Endpoints, o.Node = nil, nil, nil, nil
	}
	return o
}

// failed gives the object of what cannot be decoded.
func (d *decoding) failed(it item, findings []finding) *Object {
	return &Object{
		Key: it.key(), Raw: d.doc.text, doc: &d.doc,
		Source:   state.Source{File: d.file, Line: d.doc.line},
		Problems: d.problems(it.key(), findings),
	}
}

// fill sets the field of the object's kind.
func (d *decoding) fill(o *Object, it item) []finding {
	if f := checkKind(it.head); f != nil {
		return within(it.path, f)
	}
	if len(it.json) > maxObject {
		return within(it.path, []finding{{rule: ruleDocumentSize, message: fmt.Sprintf("is %d bytes long as JSON: must not be longer than %d", len(it.json), maxObject)}})
	}
	var found []finding
	switch it.Kind {
	case KindService:
		o.Service = new(corev1.Service)
		found = decodeInto(it.json, o.Service, func() []finding { return readService(o.Service, d.cfg) })
	case KindEndpointSlice:
		o.EndpointSlice = new(discoveryv1.EndpointSlice)
		found = decodeInto(it.json, o.EndpointSlice, func() []finding { return readSlice(o.EndpointSlice, d.cfg) })
	case KindEndpoints:
		//lint:ignore SA1019 legacy manifests carry them
		o.Endpoints = new(corev1.Endpoints)
		found = decodeInto(it.json, o.Endpoints, func() []finding { return readEndpoints(o.Endpoints, d.cfg) })
	case KindNode:
		n := new(nodeManifest)
		found = tolerateNode(decodeInto(it.json, n, func() []finding { return readNode(n.node()) }))
		o.Node = n.node()
	}
	return within(it.path, found)
}

// decodeInto decodes strictly, and reads (defaults and validates) what was
// decoded. Where values have the wrong type, nothing is said of what may
// follow from it: it would be about values that nobody wrote.
func decodeInto(js []byte, into any, read func() []finding) []finding {
	strict, err := json.UnmarshalStrict(js, into)
	if err == nil && len(strict) == 0 {
		return read()
	}
	found := misfits(js, reflect.TypeOf(into).Elem())
	if !hasErrors(found) {
		return []finding{{rule: ruleWrongType, message: errors.Join(append(strict, err)...).Error()}}
	}
	for _, f := range read() {
		if !followsMisfit(f, found) {
			found = append(found, f)
		}
	}
	return found
}

// followsMisfit reports whether a finding is about a value of the wrong type,
// or about a field of the same object; or about anything at all, where the
// type of the Service or a field of the document itself is wrong.
func followsMisfit(f finding, found []finding) bool {
	for _, m := range found {
		if m.rule != ruleWrongType {
			continue
		}
		object := holderOf(m.field)
		if object == "" || m.field == "spec.type" || holderOf(f.field) == object || f.field == object || isWithin(f.field, m.field) {
			return true
		}
	}
	return false
}

// nodeManifest is a v1 Node, but for its quantities: nothing reads them, and
// the digits of one can take minutes.
type nodeManifest struct {
	corev1.Node `json:",inline"`
	Status      struct {
		corev1.NodeStatus `json:",inline"`
		Capacity          map[string]any `json:"capacity"`
		Allocatable       map[string]any `json:"allocatable"`
	} `json:"status"`
}

// node keeps of a Node what is read: the rest is long, and changes.
func (n *nodeManifest) node() *corev1.Node {
	out := &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: n.ObjectMeta, Status: corev1.NodeStatus{Addresses: n.Status.Addresses}}
	out.ManagedFields = nil
	return out
}

// tolerateNode makes warnings of the fields of a Node that this version does
// not know, in the parts of which nothing is read: nodes are exported from
// clusters of any age.
func tolerateNode(found []finding) []finding {
	for i, f := range found {
		read := strings.HasPrefix(f.field, "status.addresses")
		if f.rule == ruleUnknownField && !read && (strings.HasPrefix(f.field, "spec.") || strings.HasPrefix(f.field, "status.")) {
			found[i].rule = ruleUnknownNodeField
		}
	}
	return found
}

// tree gives the document's nodes, nil where it has none.
func (d *decoding) tree() *yamlv3.Node {
	if !d.parsed {
		d.parsed = true
		d.root, _ = parseTree(d.doc.text)
	}
	return d.root
}

// line gives the line in the document of a field.
func (d *decoding) line(path string) int {
	if path == "" {
		return 0
	}
	return lineOf(d.tree(), path)
}

// problems turns findings into Problems of an object.
func (d *decoding) problems(key Key, findings []finding) []Problem {
	var ps []Problem
	for _, f := range capped(findings) {
		if f.line == 0 {
			f.line = d.line(f.field)
		}
		ps = append(ps, Problem{
			Rule: f.rule, Severity: f.severity(), Object: key, Document: d.doc.number, Field: f.field, Message: f.message,
			Source: state.Source{File: d.file, Line: d.doc.line + max(f.line, 1) - 1},
		})
	}
	return ps
}
