package main

import (
	"slices"
	"testing"

	"pointsman/state"
)

func TestServedBy(t *testing.T) {
	service := func(name string, nodes []string) *state.Service {
		return &state.Service{ObjectName: state.ObjectName{Name: name}, Nodes: nodes}
	}
	all := []*state.Service{
		service("all", nil), service("none", []string{}), service("one", []string{"n1"}), service("two", []string{"n0", "n2"}), service("three", []string{"n0", "n1", "n2"}),
	}
	before := slices.Clone(all)
	for node, want := range map[string][]string{"n0": {"all", "two", "three"}, "n1": {"all", "one", "three"}, "n": {"all"}, "": {"all"}} {
		var got []string
		for _, s := range servedBy(all, node) {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q serves %v, want %v", node, got, want)
		}
	}
	if !slices.Equal(all, before) {
		t.Error("the list was changed in place")
	}
}
