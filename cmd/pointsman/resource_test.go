package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"pointsman/state"
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

// TestWatchedProblem: who watches problems as JSON is told what they are.
func TestWatchedProblem(t *testing.T) {
	t.Parallel()
	a := &problemsAnswer{jsonProblems: jsonProblems{Problems: []jsonProblem{{Severity: "error", File: "web.yaml", Line: 3, Kind: "Service", Namespace: "shop", Name: "web", Field: "spec", Message: "no"}}}}
	row := problemRows(a)[0]
	text := string(must[[]byte](t)(lineOf(&row)))
	if want := `{"severity":"error","file":"web.yaml:3","object":"Service shop/web","problem":"spec: no"}` + "\n"; text != want {
		t.Errorf("got %s, not %s", text, want)
	}
}

// TestServicesOfTwoMoments: what is served is known a moment before what is declared,
// or after it; that is no reason to fail.
func TestServicesOfTwoMoments(t *testing.T) {
	t.Parallel()
	name := state.ObjectName{Namespace: "shop", Name: "web"}
	r := place{}.load(map[string][]string{"web.yaml": {service("shop/web", "clusterIP: 10.96.0.20, ports: [{name: a, port: 80}, {name: b, port: 81}]")}})
	before := &state.Service{ObjectName: name, Ports: []state.Port{{Name: "a", Protocol: state.TCP}}}
	l := &lookout{declared: r.Declarations(nil), served: map[state.ObjectName]*state.Service{name: r.Services[0]}, here: map[state.ObjectName]*state.Service{name: before}}
	if rows := l.rows(); len(rows) != 1 || fmt.Sprint(rows[0].Ports) != "[80/TCP 81/TCP]" {
		t.Errorf("rows %+v", rows)
	}
	if n := len(slices.Collect(l.effective())); n != 0 {
		t.Errorf("%d objects", n)
	}
}
