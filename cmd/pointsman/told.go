package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"pointsman/state"
	"pointsman/state/change"
	"pointsman/state/event"
	"pointsman/state/manifest"
)

// maxLogged bounds what one load logs of a sort; validate shows all of it.
const maxLogged = 20

// complaint is all that is wrong with one object, or with a file where that can't
// be told.
type complaint struct {
	about    complained
	at       state.Source
	severity manifest.Severity // the worst
	text     string
}

type complained struct {
	object manifest.Key
	file   string // where no object is meant
}

// String names the object or the file.
func (c complained) String() string {
	if c.file != "" {
		return c.file
	}
	return c.object.String()
}

// event gives an event's object, "" where none is meant.
func (c complained) event() string {
	if c.file != "" {
		return ""
	}
	return c.object.String()
}

// complaints gathers problems: errors first, each sort in its order.
func complaints(problems []manifest.Problem) []*complaint {
	const most = 3
	var all []*complaint
	of, texts := map[complained]*complaint{}, map[complained][]string{}
	for _, severity := range []manifest.Severity{manifest.Error, manifest.Warning} {
		for _, p := range problems {
			if p.Severity != severity {
				continue
			}
			about := complained{object: p.Object}
			if p.Object.Name == "" {
				about = complained{file: p.Source.File}
			}
			if of[about] == nil {
				of[about] = &complaint{about: about, at: p.Source, severity: severity}
				all = append(all, of[about])
			}
			texts[about] = append(texts[about], p.String())
		}
	}
	for _, c := range all {
		t := texts[c.about]
		if n := len(t) - most; n > 0 {
			t = append(t[:most], fmt.Sprintf("and %d more", n))
		}
		c.text = c.about.String() + ": " + strings.Join(t, "; ")
	}
	return all
}

// report logs what is wrong with the manifests and wasn't before, or is another
// thing now, and what no longer is.
func (s *source) report(r *manifest.Result) {
	s.judged.Store(r)
	now, fresh := map[complained]*complaint{}, []*complaint{}
	for _, c := range complaints(r.Problems) {
		now[c.about] = c
		if was := s.reported[c.about]; was == nil || was.text != c.text {
			fresh = append(fresh, c)
		}
	}
	for _, c := range fresh[:min(len(fresh), maxLogged)] {
		level, reason := slog.LevelWarn, event.ManifestWarning
		if c.severity == manifest.Error {
			level, reason = slog.LevelError, event.ManifestRefused
		}
		s.log.Log(context.Background(), level, c.text, "reason", reason, "object", c.about.event(), "file", c.at)
	}
	if n := len(fresh) - maxLogged; n > 0 {
		s.log.Warn("and "+plural(n, "more manifest")+" with problems; see pointsman get problems", "reason", event.ManifestWarning)
	}
	s.tellFixed(now)
	s.reported = now
}

// tellFixed logs what was refused and isn't any more.
func (s *source) tellFixed(now map[complained]*complaint) {
	var fixed []complained
	for about, was := range s.reported {
		if is := now[about]; was.severity == manifest.Error && (is == nil || is.severity != manifest.Error) {
			fixed = append(fixed, about)
		}
	}
	slices.SortFunc(fixed, func(a, b complained) int { return strings.Compare(a.String(), b.String()) })
	for _, c := range fixed[:min(len(fixed), maxLogged)] {
		s.log.Info(c.String()+" has no errors any more", "reason", event.ManifestFixed, "object", c.event(), "file", c.file)
	}
	if n := len(fixed) - maxLogged; n > 0 {
		s.log.Info("and "+plural(n, "more manifest")+" without errors now", "reason", event.ManifestFixed)
	}
}

// tellLoaded logs what is served now, and what became of what was served before,
// if anything was. That nothing did is no event.
func (s *source) tellLoaded(before *manifest.Result, files int, took time.Duration) {
	l, text := s.ledger, "manifests loaded"
	about := []any{"reason", event.ManifestsLoaded, "object", manifestsObject(l.state)}
	if before != nil {
		d := s.difference(before, l.served)
		text += ": " + changeText(d)
		about = append(about, "concerns", concernsOf(d))
		if d.Empty() {
			about = []any{"hash", l.state.Hash}
		}
	}
	s.log.Info(text, append(about, "commit", l.state.Commit, "files", files, "services", len(l.served.Services), "stale", len(l.served.Stale),
		"took", took.Round(100*time.Microsecond))...)
}

// difference compares what this host serves of two states.
func (s *source) difference(before, after *manifest.Result) *change.Diff {
	return change.Compare(servedBy(before.Services, s.nodeName), servedBy(after.Services, s.nodeName))
}

// concernsOf names the Services that come, go or change.
func concernsOf(d *change.Diff) event.Concerns {
	var names event.Concerns
	for _, s := range slices.Concat(d.Added, d.Removed) {
		names = append(names, s.ObjectName.String())
	}
	for _, p := range d.Changed {
		names = append(names, p.After.ObjectName.String())
	}
	return names
}

// manifestsObject names a state of the manifests, for its events.
func manifestsObject(s pastState) string { return "Manifests " + s.Hash }

// changeText sums a change up, with the first Services of each sort.
func changeText(d *change.Diff) string {
	const most = 5
	var parts []string
	add := func(what string, n int, name func(i int) string) {
		var first []string
		for i := range min(n, most) {
			first = append(first, name(i))
		}
		if n > most {
			first = append(first, fmt.Sprintf("%d more", n-most))
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, what, strings.Join(first, ", ")))
		}
	}
	add("added", len(d.Added), func(i int) string { return d.Added[i].ObjectName.String() })
	add("removed", len(d.Removed), func(i int) string { return d.Removed[i].ObjectName.String() })
	add("changed", len(d.Changed), func(i int) string { return d.Changed[i].After.ObjectName.String() + endpointsText(d.Changed[i]) })
	if parts == nil {
		return "no Service changed"
	}
	return "Services " + strings.Join(parts, ", ")
}

// endpointsText counts the endpoints that come and go.
func endpointsText(p change.Pair) string {
	added, removed := p.Endpoints()
	switch a, r := len(added), len(removed); {
	case a > 0 && r > 0:
		return fmt.Sprintf(" +%d -%s", a, plural(r, "endpoint"))
	case a > 0:
		return " +" + plural(a, "endpoint")
	case r > 0:
		return " -" + plural(r, "endpoint")
	}
	return ""
}

// tellKept says which Services are served by endpoints that fail.
func (s *source) tellKept(declared, effective []*state.Service) {
	began, ended := s.kept.look(declared, effective)
	for _, k := range began[:min(len(began), maxLogged)] {
		s.log.Warn(keptText(k), "reason", event.ServedAnyway, "object", "Service "+k.ObjectName.String())
	}
	if n := len(began) - maxLogged; n > 0 {
		s.log.Warn("and "+plural(n, "more Service")+" served by endpoints that fail their probes", "reason", event.ServedAnyway)
	}
	for _, name := range ended[:min(len(ended), maxLogged)] {
		s.log.Info("enough endpoints of "+name+" answer again", "reason", event.EnoughEndpoints, "object", "Service "+name)
	}
	if n := len(ended) - maxLogged; n > 0 {
		s.log.Info("and enough endpoints of "+plural(n, "more Service"), "reason", event.EnoughEndpoints)
	}
	s.health.Degraded("served by endpoints that fail their probes", shortList(s.kept.names()))
}
