package main

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/state"
)

func TestKeptWatch(t *testing.T) {
	service := func(name string, causes ...*state.Cause) *state.Service {
		s := &state.Service{ObjectName: state.ObjectName{Namespace: "shop", Name: name}, Ports: []state.Port{{}}}
		for _, c := range causes {
			s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, state.Endpoint{Cause: c})
		}
		return s
	}
	w := newKeptWatch(prometheus.NewRegistry())
	a, b := service("a"), service("b")
	kept := service("b", nil, &state.Cause{Kind: state.KeptAnyway})
	down := service("b", &state.Cause{Kind: state.SeenDown})
	for i, step := range []struct {
		effective    *state.Service
		began, ended []string
	}{
		{b, nil, nil}, {down, nil, nil}, {kept, []string{"shop/b"}, nil}, {kept, nil, nil}, {down, nil, []string{"shop/b"}}, {b, nil, nil},
	} {
		began, ended := w.look([]*state.Service{a, b}, []*state.Service{a, step.effective})
		var names []string
		for _, s := range began {
			names = append(names, s.ObjectName.String())
		}
		if !slices.Equal(names, step.began) || !slices.Equal(ended, step.ended) {
			t.Errorf("step %d: began %v, ended %v", i, began, ended)
		}
	}
}
