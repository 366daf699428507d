package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	strictjson "sigs.k8s.io/json"
)

// misfits finds everything in a JSON value that a Go type has no place for:
// unknown fields, fields that are there twice, and values of the wrong type.
// The decoder itself names only the first wrong type, and not the index it
// stands at. Field names are case-sensitive, as the API server reads them.
func misfits(js []byte, t reflect.Type) []finding {
	var value any
	var found []finding
	duplicates, err := strictjson.UnmarshalStrict(js, &value, strictjson.DisallowDuplicateFields)
	if err != nil {
		return []finding{{rule: ruleDocumentSyntax, message: err.Error()}}
	}
	for _, e := range duplicates {
		f := finding{rule: ruleDuplicateField, message: e.Error()}
		if at, ok := e.(strictjson.FieldError); ok {
			f.field = at.FieldPath()
		}
		found = append(found, f)
	}
	w := misfitter{found: found}
	w.value("", value, t)
	return w.found
}

type misfitter struct{ found []finding }

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (w *misfitter) value(path string, v any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v == nil || t.Kind() == reflect.Interface {
		return
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		w.custom(path, v, t)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		w.object(path, v, t)
	case reflect.Map:
		w.entries(path, v, t.Elem())
	case reflect.Slice:
		w.items(path, v, t.Elem())
	default:
		w.scalar(path, v, t)
	}
}

func (w *misfitter) object(path string, v any, t reflect.Type) {
	m, ok := v.(map[string]any)
	if !ok {
		w.misfit(path, v, "must be an object")
		return
	}
	fields := fieldsOf(t)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if ft, ok := fields[key]; ok {
			w.value(join(path, key), m[key], ft)
			continue
		}
		f := finding{rule: ruleUnknownField, field: join(path, key)}
		f.message = fmt.Sprintf("unknown field %q", f.field)
		if name := nearest(key, slices.Sorted(maps.Keys(fields))); name != "" {
			f.message += fmt.Sprintf(": did you mean %q?", name)
		}
		w.found = append(w.found, f)
	}
}

// nearest gives the name that a key most likely is a slip for: the same but for
// the case of letters, or with one letter too many, too few, wrong, or swapped
// with the next. "" if there's none.
func nearest(key string, names []string) string {
	for _, name := range names {
		if strings.EqualFold(name, key) {
			return name
		}
	}
	for _, name := range names {
		if oneSlip(strings.ToLower(key), strings.ToLower(name)) {
			return name
		}
	}
	return ""
}

// oneSlip tells whether one slip turns a into b. Short names are too near to
// each other anyway.
func oneSlip(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 3 || len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) < len(b) {
		return a[i:] == b[i+1:]
	}
	if i == len(a) || a[i+1:] == b[i+1:] {
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

func (w *misfitter) entries(path string, v any, t reflect.Type) {
	m, ok := v.(map[string]any)
	if !ok {
		w.misfit(path, v, "must be an object")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		w.value(path+"["+key+"]", m[key], t)
	}
}

func (w *misfitter) items(path string, v any, t reflect.Type) {
	s, ok := v.([]any)
	if !ok {
		w.misfit(path, v, "must be a list")
		return
	}
	for i, e := range s {
		w.value(path+"["+strconv.Itoa(i)+"]", e, t)
	}
}

// custom asks a type that decodes itself.
func (w *misfitter) custom(path string, v any, t reflect.Type) {
	js, err := json.Marshal(v)
	if err == nil {
		err = reflect.New(t).Interface().(json.Unmarshaler).UnmarshalJSON(js)
	}
	switch {
	case err == nil:
	case t == reflect.TypeFor[intstr.IntOrString]():
		w.misfit(path, v, "must be an integer or a string")
	default:
		w.misfit(path, v, err.Error())
	}
}

func (w *misfitter) scalar(path string, v any, t reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		w.text(path, v)
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			w.misfit(path, v, "must be true or false, without quotes")
		}
	case reflect.Int32, reflect.Int64, reflect.Int:
		w.integer(path, v, t)
	}
}

func (w *misfitter) text(path string, v any) {
	switch v.(type) {
	case string:
	case bool, int64, float64:
		w.misfit(path, v, "must be a string: put it in quotes, YAML reads it as something else")
	case map[string]any:
		w.misfit(path, v, "must be a string: `|` after the colon makes the lines below it one")
	default:
		w.misfit(path, v, "must be a string")
	}
}

func (w *misfitter) integer(path string, v any, t reflect.Type) {
	switch n := v.(type) {
	case int64:
		if t.Kind() == reflect.Int32 && n != int64(int32(n)) {
			w.misfit(path, v, "must be an integer of 32 bits")
		}
	case string:
		w.misfit(path, v, "must be an integer, without quotes")
	default:
		w.misfit(path, v, "must be an integer")
	}
}

func (w *misfitter) misfit(path string, v any, detail string) {
	js, err := json.Marshal(v)
	if err != nil || len(js) > 80 {
		js = []byte(fmt.Sprintf("%T", v))
	}
	w.found = append(w.found, finding{rule: ruleWrongType, field: path, message: fmt.Sprintf("Invalid value: %s: %s", js, detail)})
}

// fieldsOf gives the types of a struct's fields by their names in JSON, those
// of inlined structs among them.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(fields, fieldsOf(f.Type))
		case name == "":
			fields[f.Name] = f.Type
		case name != "-":
			fields[name] = f.Type
		}
	}
	return fields
}
