package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pointsman/state"
	"pointsman/state/change"
	"pointsman/state/manifest"
)

func TestChangeText(t *testing.T) {
	service := func(name string, addresses ...string) *state.Service {
		s := &state.Service{ObjectName: state.ObjectName{Namespace: "shop", Name: name}, Ports: []state.Port{{}}}
		for _, a := range addresses {
			s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, state.Endpoint{Address: netip.MustParseAddrPort(a), Ready: true})
		}
		return s
	}
	var many []*state.Service
	for i := range 8 {
		many = append(many, service(fmt.Sprint("m", i)))
	}
	for _, c := range []struct {
		before, after []*state.Service
		want          string
	}{
		{many, many, "no Service changed"},
		{nil, many, "Services 8 added (shop/m0, shop/m1, shop/m2, shop/m3, shop/m4, 3 more)"},
		{
			[]*state.Service{service("a", "10.0.0.1:80", "10.0.0.2:80"), service("b"), service("c"), service("d", "10.0.0.1:80"), service("e")},
			[]*state.Service{service("a", "10.0.0.1:80", "10.0.0.3:80"), service("b", "10.0.0.1:80"), service("d"), service("f")},
			"Services 1 added (shop/f), 2 removed (shop/c, shop/e), 3 changed (shop/a +1 -1 endpoint, shop/b +1 endpoint, shop/d -1 endpoint)",
		},
	} {
		d := change.Compare(c.before, c.after)
		if got := changeText(d); got != c.want {
			t.Errorf("%s\nnot %s", got, c.want)
		}
		if got := concernsOf(d); len(got) != len(d.Added)+len(d.Removed)+len(d.Changed) || !slices.ContainsFunc(got, func(n string) bool { return strings.Contains(c.want, n) }) && !d.Empty() {
			t.Errorf("it concerns %s", got)
		}
	}
}

// problem is one of an object, or of a file if that has no name.
func problem(severity manifest.Severity, file, name, message string) manifest.Problem {
	p := manifest.Problem{Severity: severity, Source: state.Source{File: file, Line: 1}, Message: message}
	p.Object.Kind = manifest.KindService // which may be all that can be told
	if name != "" {
		p.Object.ObjectName = state.ObjectName{Namespace: "shop", Name: name}
	}
	return p
}

// TestReport: each object that is wrong is told of once, again when something
// else is wrong with it, and when nothing is any more.
func TestReport(t *testing.T) {
	var log bytes.Buffer
	s := &source{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "object" && a.Value.String() == "" {
			return slog.Attr{}
		}
		return a
	}}))}
	bad, warned := manifest.Error, manifest.Warning
	one, two, odd := problem(bad, "a.yaml", "a", "one"), problem(bad, "a.yaml", "a", "two"), problem(warned, "a.yaml", "a", "odd")
	refused := func(text string) string {
		return `level=ERROR msg="Service shop/a: ` + text + `" reason=ManifestRefused object="Service shop/a" file=a.yaml:1` + "\n"
	}
	for i, step := range []struct {
		problems []manifest.Problem
		want     string
	}{
		{nil, ""},
		{[]manifest.Problem{odd, one, two}, refused("a.yaml:1: one; a.yaml:1: two; a.yaml:1: warning: odd")},
		{[]manifest.Problem{odd, one, two}, ""},
		{[]manifest.Problem{one}, refused("a.yaml:1: one")},
		{[]manifest.Problem{one, two, two, two, two, problem(bad, "b.yaml", "", "no YAML")}, refused("a.yaml:1: one; a.yaml:1: two; a.yaml:1: two; and 2 more") +
			`level=ERROR msg="b.yaml: b.yaml:1: no YAML" reason=ManifestRefused file=b.yaml:1` + "\n"},
		{[]manifest.Problem{odd}, `level=WARN msg="Service shop/a: a.yaml:1: warning: odd" reason=ManifestWarning object="Service shop/a" file=a.yaml:1` + "\n" +
			`level=INFO msg="Service shop/a has no errors any more" reason=ManifestFixed object="Service shop/a" file=""` + "\n" +
			`level=INFO msg="b.yaml has no errors any more" reason=ManifestFixed file=b.yaml` + "\n"},
		{nil, ""},
	} {
		log.Reset()
		s.report(&manifest.Result{Problems: step.problems})
		if got := log.String(); got != step.want {
			t.Errorf("step %d:\n%s\nnot\n%s", i, got, step.want)
		}
	}
}

// TestReportIsBounded: a push that breaks everything doesn't fill the log.
func TestReportIsBounded(t *testing.T) {
	var log bytes.Buffer
	s := &source{log: slog.New(slog.NewTextHandler(&log, nil))}
	r := &manifest.Result{}
	for i := range 1000 {
		r.Problems = append(r.Problems, problem(manifest.Error, "a.yaml", fmt.Sprint("s", i), "bad"))
	}
	for _, want := range []string{"and 980 more manifests with problems", "and 980 more manifests without errors now"} {
		log.Reset()
		s.report(r)
		if n := strings.Count(log.String(), "\n"); n != maxLogged+1 || !strings.Contains(log.String(), want) {
			t.Errorf("%d lines, and no %q", n, want)
		}
		r = &manifest.Result{}
	}
}
