package main

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state"
	"pointsman/state/manifest"
)

// endpointsAnswer lists the endpoints that this host serves, or would.
type endpointsAnswer struct {
	Endpoints []endpointAnswer `json:"endpoints"`
}

// endpointAnswer is an endpoint of a Service port, with its effective
// conditions.
type endpointAnswer struct {
	Namespace   string       `json:"namespace"`
	Service     string       `json:"service"`
	Port        string       `json:"port"` // name, or nothing where there's one port without
	Protocol    string       `json:"protocol"`
	Address     string       `json:"address"`
	Node        string       `json:"node,omitempty"`
	Zone        string       `json:"zone,omitempty"`
	Ready       bool         `json:"ready"`
	Serving     bool         `json:"serving"`
	Terminating bool         `json:"terminating"`
	Why         string       `json:"why,omitempty"` // of conditions that aren't the declared ones
	Votes       []voteAnswer `json:"votes,omitempty"`
}

// voteAnswer is what an observer says of an endpoint.
type voteAnswer struct {
	Observer string `json:"observer"`
	Verdict  string `json:"verdict"`
	Saw      string `json:"saw,omitempty"`
	Since    string `json:"since"`
}

// endpoints gives the endpoints of the Services that are asked for.
func (c *control) endpoints(q wanted) answer {
	d := c.source.latest.Load()
	var services []*state.Service
	if d != nil {
		services = slices.DeleteFunc(slices.Clone(d.Services), func(s *state.Service) bool { return !q.has(s.ObjectName) })
	}
	var a answer
	if q.objects {
		a = listOf(openList, slicesOf(services))
	} else {
		a = listOf(`{"endpoints":`, endpointsOf(services, &c.fleet.Health().Verdicts))
	}
	a.starting, a.missing = d == nil, q.missing(len(services) > 0, "endpoint of")
	return a
}

func endpointsOf(services []*state.Service, verdicts *state.Verdicts) iter.Seq[endpointAnswer] {
	return func(yield func(endpointAnswer) bool) {
		for _, s := range services {
			for i := range s.Ports {
				for k := range s.Ports[i].Endpoints {
					if !yield(endpointOf(s, &s.Ports[i], &s.Ports[i].Endpoints[k], verdicts)) {
						return
					}
				}
			}
		}
	}
}

// slicesOf gives them as EndpointSlices.
func slicesOf(services []*state.Service) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, s := range services {
			for slice := range manifest.EndpointSlices(s, func(e *state.Endpoint) string { return whyText(e.Cause) }) {
				if !yield(slice) {
					return
				}
			}
		}
	}
}

func endpointOf(s *state.Service, p *state.Port, e *state.Endpoint, verdicts *state.Verdicts) endpointAnswer {
	a := endpointAnswer{Namespace: s.Namespace, Service: s.Name, Port: p.Name, Protocol: string(p.Protocol), Address: e.Address.String(),
		Node: e.NodeName, Zone: e.Zone, Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Why: whyText(e.Cause)}
	if e.Check == nil {
		return a
	}
	if j := verdicts.Get(e.Check.Key); j != nil {
		for _, v := range j.Votes {
			vote := voteAnswer{Observer: v.Observer, Verdict: v.Verdict.String(), Since: timeText(v.Since)}
			if v.Verdict == state.Down {
				vote.Saw = v.Failure.String()
			}
			a.Votes = append(a.Votes, vote)
		}
	}
	return a
}

// whyText says, in one line, why an endpoint's conditions are what they are.
func whyText(c *state.Cause) string {
	if c == nil {
		return ""
	}
	switch c.Kind {
	case state.SeenDown:
		return "down: " + sawText(c.Judgement)
	case state.Untried:
		return "not probed yet, and others are up"
	case state.Drained:
		text := fmt.Sprintf("drained by %s until %s", c.Drain.By, timeText(c.Drain.Until))
		if c.Drain.File {
			text = fmt.Sprintf("drained by a file on %s", c.Drain.By)
		}
		if c.Drain.Reason != "" {
			text += ": " + c.Drain.Reason
		}
		return text
	case state.KeptAnyway:
		return "kept, since too few would be left: " + sawText(c.Judgement)
	}
	return ""
}

// sawText says who saw what, and since when.
func sawText(j *state.Judgement) string {
	if j == nil {
		return "nobody has a word yet"
	}
	var saw []string
	for _, v := range j.Votes {
		switch v.Verdict {
		case state.Down:
			saw = append(saw, v.Observer+": "+v.Failure.String())
		case state.Up:
			saw = append(saw, v.Observer+": answers")
		}
	}
	text := strings.Join(saw, ", ")
	switch {
	case j.Unconfirmed:
		text = "as known before the restart"
	case j.Held:
		text = "as last known; nobody has a fresh word"
	}
	return text + " (since " + timeText(j.Since) + ")"
}

func getEndpointsCommand() *cli.Command {
	return lister(&cli.Command{
		Name:      "endpoints",
		Aliases:   []string{"endpoint", "ep"},
		Usage:     "the endpoints of Services, with the conditions that count and the reason",
		ArgsUsage: "[SERVICE]",
		Description: "READY, SERVING and TERMINATING are the effective conditions: what the manifests declare,\n" +
			"folded with what the fleet saw and with drains. WHY says who saw what, and when. With -o wide\n" +
			"there are the votes of each observer. JSON and YAML are EndpointSlices with the effective\n" +
			"conditions, the reasons in the annotation pointsman/reasons; they can be read as manifests.",
	}, resource[endpointsAnswer, endpointAnswer]{
		name: "endpoints", path: "/v1/endpoints", objects: true,
		rows: func(a *endpointsAnswer) []endpointAnswer { return a.Endpoints },
		key: func(e *endpointAnswer) string {
			return strings.Join([]string{e.Namespace, e.Service, e.Port, e.Protocol, e.Address}, " ")
		},
		columns: []column[endpointAnswer]{
			{head: "NAMESPACE", text: func(e *endpointAnswer) string { return e.Namespace }},
			{head: "SERVICE", text: func(e *endpointAnswer) string { return e.Service }},
			{head: "PORT", text: func(e *endpointAnswer) string { return portText(e.Port, e.Protocol) }},
			{head: "ENDPOINT", text: func(e *endpointAnswer) string { return e.Address }},
			{head: "NODE", text: func(e *endpointAnswer) string { return orDash(e.Node) }},
			{head: "ZONE", wide: true, text: func(e *endpointAnswer) string { return orDash(e.Zone) }},
			{head: "READY", text: func(e *endpointAnswer) string { return strconv.FormatBool(e.Ready) }},
			{head: "SERVING", text: func(e *endpointAnswer) string { return strconv.FormatBool(e.Serving) }},
			{head: "TERMINATING", text: func(e *endpointAnswer) string { return strconv.FormatBool(e.Terminating) }},
			{head: "VOTES", wide: true, text: votesText},
			{head: "WHY", text: func(e *endpointAnswer) string { return e.Why }},
		},
	}.action, namespaceFlags()...)
}

// votesText tells what each observer says.
func votesText(e *endpointAnswer) string {
	var votes []string
	for _, v := range e.Votes {
		text := v.Observer + ":" + v.Verdict
		if v.Saw != "" {
			text += "(" + v.Saw + ")"
		}
		votes = append(votes, text)
	}
	return listText(votes)
}

func portText(name, protocol string) string {
	if name == "" {
		return protocol
	}
	return name + "/" + protocol
}
