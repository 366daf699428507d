package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"pointsman/state"
	"pointsman/state/event"
)

// flip is an endpoint that came into use or went out of it by what the fleet saw,
// or by a drain.
type flip struct {
	service  *state.Service
	endpoint *state.Endpoint
	reason   event.Reason
}

// flips compares the effective Services before and after a change, each sorted by
// namespace and name; a Service that stayed the same is the same pointer in
// both. What the manifests add or take away is no flip.
func flips(before, after []*state.Service) []flip {
	var all []flip
	for _, s := range after {
		for len(before) > 0 && before[0] != s && before[0].ObjectName.Compare(s.ObjectName) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0] != s && before[0].ObjectName == s.ObjectName {
			all = append(all, serviceFlips(before[0], s)...)
		}
	}
	return all
}

// serviceFlips gives those of one Service. An endpoint behind several ports of it
// flips once.
func serviceFlips(before, after *state.Service) []flip {
	var all []flip
	for i := range after.Ports {
		p := &after.Ports[i]
		was := portOf(before, p)
		for k := range p.Endpoints {
			e := &p.Endpoints[k]
			for len(was) > 0 && was[0].Address.Compare(e.Address) < 0 {
				was = was[1:]
			}
			if len(was) == 0 || was[0].Address != e.Address {
				continue
			}
			reason := flipped(causeOf(&was[0]), causeOf(e))
			if reason != "" && !slices.ContainsFunc(all, func(f flip) bool { return f.endpoint.Address == e.Address }) {
				all = append(all, flip{after, e, reason})
			}
		}
	}
	return all
}

// portOf gives the endpoints of the same port, by address.
func portOf(s *state.Service, p *state.Port) []state.Endpoint {
	for i := range s.Ports {
		if o := &s.Ports[i]; o.Name == p.Name && o.Protocol == p.Protocol {
			return o.Endpoints
		}
	}
	return nil
}

// causeOf gives the kind of an endpoint's cause, 0 for one that is as declared.
func causeOf(e *state.Endpoint) state.CauseKind {
	if e.Cause == nil {
		return 0
	}
	return e.Cause.Kind
}

// flipped names what happened to an endpoint between two causes, "" if nothing
// did that counts: that endpoints fail and are served all the same is told of
// the Service.
func flipped(was, is state.CauseKind) event.Reason {
	switch {
	case was == is:
		return ""
	case is == state.SeenDown:
		return event.EndpointDown
	case is == state.Drained:
		return event.EndpointDrained
	case was == state.Drained:
		return event.EndpointUndrained
	case is == 0:
		return event.EndpointUp
	}
	return ""
}

// text says in one line what happened, and by whose word.
func (f flip) text(verdicts *state.Verdicts) string {
	is := "no longer drained"
	switch f.reason {
	case event.EndpointDown, event.EndpointDrained:
		is = whyText(f.endpoint.Cause)
	case event.EndpointUp:
		is = "up: nobody says otherwise"
		if c := f.endpoint.Check; c != nil {
			if j := verdicts.Get(c.Key); j != nil && len(j.Votes) > 0 {
				is = "up: " + sawText(j)
			}
		}
	}
	return fmt.Sprintf("%s of %s is %s", f.endpoint.Address, f.service.ObjectName, is)
}

// maxFlips bounds how many flips at once are told each by itself: a rack that
// dies must not fill the log.
const maxFlips = 50

// tellFlips logs what flipped.
func tellFlips(log *slog.Logger, all []flip, verdicts *state.Verdicts) {
	for _, f := range all[:min(len(all), maxFlips)] {
		log.Log(context.Background(), flipLevel(f.reason), f.text(verdicts), "reason", f.reason,
			"object", "Service "+f.service.ObjectName.String(), "endpoint", f.endpoint.Address, "node", f.endpoint.NodeName)
	}
	if len(all) <= maxFlips {
		return
	}
	for _, reason := range []event.Reason{event.EndpointDown, event.EndpointUp, event.EndpointDrained, event.EndpointUndrained} {
		if text := sumFlips(all[maxFlips:], reason); text != "" {
			log.Log(context.Background(), flipLevel(reason), text, "reason", reason)
		}
	}
}

func flipLevel(r event.Reason) slog.Level {
	if r == event.EndpointDown {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// sumFlips counts the flips of a reason by Service, "" if there are none.
func sumFlips(all []flip, reason event.Reason) string {
	var services []string
	sum, of := 0, 0
	for i, f := range all {
		if f.reason == reason {
			sum, of = sum+1, of+1
		}
		if last := i == len(all)-1 || all[i+1].service != f.service; last && of > 0 {
			services, of = append(services, fmt.Sprintf("%s (%d)", f.service.ObjectName, of)), 0
		}
	}
	if sum == 0 {
		return ""
	}
	is := map[event.Reason]string{event.EndpointDown: "down", event.EndpointUp: "up", event.EndpointDrained: "drained", event.EndpointUndrained: "no longer drained"}
	return fmt.Sprintf("and %s %s, of %s: %s", plural(sum, "more endpoint"), is[reason], plural(len(services), "Service"), shortList(services))
}

// keptText says which endpoints of a Service fail and are served all the same.
func keptText(s *state.Service) string {
	const most = 3
	var fail []string
	n := 0
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			e := &s.Ports[i].Endpoints[k]
			if causeOf(e) != state.KeptAnyway {
				continue
			}
			if n++; n <= most {
				fail = append(fail, fmt.Sprintf("%s: %s", e.Address, sawText(e.Cause.Judgement)))
			}
		}
	}
	if n > most {
		fail = append(fail, fmt.Sprintf("%d more", n-most))
	}
	return fmt.Sprintf("%s is served by endpoints that fail their probes, since too few would be left: %s", s.ObjectName, strings.Join(fail, "; "))
}
