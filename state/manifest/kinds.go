package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// apiVersionOf gives the apiVersion in which a kind is read.
func apiVersionOf(k Kind) (string, bool) {
	switch k {
	case KindService, KindEndpoints, KindNode:
		return "v1", true
	case KindEndpointSlice:
		return "discovery.k8s.io/v1", true
	}
	return "", false
}

// checkKind tells what is wrong with an object's kind and apiVersion. It
// comes before decoding: a kind decoded as another gives an empty object.
func checkKind(h head) []finding {
	want, known := apiVersionOf(h.Kind)
	switch {
	case h.Kind == "":
		return []finding{{rule: ruleKindRequired, field: "kind", message: "Required value: must be Service, EndpointSlice, Endpoints, Node or List"}}
	case !known:
		return []finding{{rule: ruleKindUnsupported, field: "kind", message: fmt.Sprintf("Unsupported value: %q (apiVersion %q): must be Service, EndpointSlice, Endpoints, Node or List", h.Kind, h.APIVersion)}}
	case h.APIVersion == "":
		return []finding{{rule: ruleVersionRequired, field: "apiVersion", message: fmt.Sprintf("Required value: %s needs %s", h.Kind, want)}}
	case h.APIVersion != want:
		return []finding{{rule: ruleVersionMismatch, field: "apiVersion", message: fmt.Sprintf("Unsupported value: %q: %s needs %s", h.APIVersion, h.Kind, want)}}
	}
	return nil
}

// listOf reports whether an object is a List, and the kind of its items where
// the List says it.
func listOf(h head) (Kind, bool) {
	kind, ok := strings.CutSuffix(string(h.Kind), "List")
	if !ok {
		return "", false
	}
	want, known := apiVersionOf(Kind(kind))
	if kind == "" {
		return "", h.APIVersion == "v1"
	}
	return Kind(kind), known && h.APIVersion == want
}

// list is the shape of v1 List and of the lists of every kind.
type list struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// list unrolls a List. Findings that no item can be blamed for are those of
// an object of its own; an error without a field may be any item's, and so is
// every item's.
func (d *decoding) list(it item, kind Kind, found []finding) []*Object {
	var l list
	if strict, err := strictjson.UnmarshalStrict(it.json, &l); err != nil || len(strict) > 0 {
		found = append(found, misfits(it.json, reflect.TypeFor[list]())...)
	}
	own, byItem := share(found, len(l.Items))
	var objects []*Object
	for i, js := range l.Items {
		in := item{path: fmt.Sprintf("items[%d]", i), json: js, head: headOf(js)}
		if kind != "" && in.Kind == "" && in.APIVersion == "" {
			in.Kind, in.APIVersion = kind, it.APIVersion
			in.json = withKind(js, in.head)
		}
		objects = append(objects, d.object(in, byItem[i]))
	}
	if len(own) > 0 {
		objects = append(objects, d.failed(it, own))
	}
	return objects
}

// withKind gives the item of a typed list, which says its kind for it, as an
// object that can stand alone: the last good versions are kept so.
func withKind(js []byte, h head) []byte {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(js, &fields) != nil || fields == nil {
		return js // it's no object, and will be refused
	}
	for name, value := range map[string]string{"apiVersion": h.APIVersion, "kind": string(h.Kind)} {
		fields[name] = json.RawMessage(strconv.Quote(value))
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return js
	}
	return out
}

// share tells the findings of a List from those of its items.
func share(found []finding, items int) (own []finding, byItem [][]finding) {
	byItem = make([][]finding, items)
	for _, f := range found {
		steps := steps(f.field)
		switch {
		case len(steps) == 0:
			own = append(own, f)
			for i := range byItem {
				byItem[i] = append(byItem[i], f)
			}
			continue
		case len(steps) > 1 && steps[0] == "items":
			if i, err := strconv.Atoi(steps[1]); err == nil && i >= 0 && i < items {
				byItem[i] = append(byItem[i], f)
				continue
			}
		}
		own = append(own, f)
	}
	return own, byItem
}

// guessHead tells what it can of a document that does not parse, so that the
// last good version of the object can be found: the keys of the block style
// that manifests are written in.
func guessHead(text []byte) head {
	var h head
	inMetadata, indent := false, 0
	for _, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		key, value, ok := strings.Cut(trimmed, ":")
		depth := len(line) - len(trimmed)
		if !ok || isBlank([]byte(trimmed)) {
			continue
		}
		if depth == 0 {
			inMetadata, indent = key == "metadata", 0
		} else if indent == 0 {
			indent = depth
		}
		h.guess(key, value, depth == 0, inMetadata && depth == indent)
	}
	return h
}

func (h *head) guess(key, value string, top, metadata bool) {
	value, _, _ = strings.Cut(value, " #")
	value = strings.Trim(strings.TrimSpace(value), `"'`)
	switch {
	case top && key == "apiVersion":
		h.APIVersion = value
	case top && key == "kind":
		h.Kind = Kind(value)
	case top && key == "metadata" && strings.HasPrefix(value, "{"):
		_ = yaml.Unmarshal([]byte(value), &h.Metadata) // it may be what does not parse
	case metadata && key == "name":
		h.Metadata.Name = value
	case metadata && key == "namespace":
		h.Metadata.Namespace = value
	}
}
