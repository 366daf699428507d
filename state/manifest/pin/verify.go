package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"pointsman/state/manifest"
)

// verify reports whether new bytes mean what the draft does with the settings
// of some Services, nothing else, and whether the Services are still without
// an error.
func (d *draft) verify(data []byte, services []*service, cfg manifest.Config) error {
	want, err := read(manifest.Document{Text: d.data, JSON: d.doc.JSON})
	if err != nil {
		return err
	}
	got, err := read(manifest.Document{Text: data, JSON: d.doc.JSON})
	if err != nil {
		return fmt.Errorf("what it gets would break the document (%w): %w", err, errByHand)
	}
	for _, s := range services {
		for _, set := range s.settings {
			want = with(want, append(d.way(s, set), set.key), plain(set.value))
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("what it gets can't be put in without changing something else: %w", errByHand)
	}
	objects := manifest.Decode(&manifest.File{Data: data}, cfg)
	for _, s := range services {
		if s.item >= len(objects) || objects[s.item].Failed() {
			return fmt.Errorf("what it gets would make it invalid: %w", errByHand)
		}
	}
	return nil
}

// read gives a document as JSON's values, as the decoder reads it.
func read(d manifest.Document) (any, error) {
	js, err := d.ToJSON()
	if err != nil {
		return nil, err
	}
	var value any
	dec := json.NewDecoder(bytes.NewReader(js))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("there is text after the end of the document")
	}
	return value, nil
}

// plain gives a setting's value as read would.
func plain(value any) any {
	switch v := value.(type) {
	case []string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list
	case uint16:
		return json.Number(strconv.Itoa(int(v)))
	default:
		return v
	}
}

// with gives a value with another one at the end of a way; it changes root.
// What isn't there is not made, so that it's missed when the two are compared.
func with(root any, way []string, value any) any {
	if len(way) == 0 {
		return value
	}
	switch v := root.(type) {
	case map[string]any:
		v[way[0]] = with(v[way[0]], way[1:], value)
	case []any:
		if i, err := strconv.Atoi(way[0]); err == nil && i >= 0 && i < len(v) {
			v[i] = with(v[i], way[1:], value)
		}
	}
	return root
}
