package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestListAsYAML: a List that is written object by object is what it would be as
// a whole.
func TestListAsYAML(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"List","items":[]}`,
		`{"apiVersion":"v1","kind":"List","items":[{"a":[{"b":"one\n\n  two: three\n"},{"c":"- d"}]},{"e":{"f":"\n","g":" "}}]}`,
	} {
		var l objectList
		var want, got any
		var b strings.Builder
		for _, err := range []error{json.Unmarshal([]byte(text), &l), json.Unmarshal([]byte(text), &want), writeAs("yaml", &b, &l), yaml.Unmarshal([]byte(b.String()), &got)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became\n%s", text, b.String())
		}
	}
}
