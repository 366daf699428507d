package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state"
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

func (c *control) endpoints(w http.ResponseWriter, _ *http.Request) {
	answer := endpointsAnswer{Endpoints: []endpointAnswer{}}
	if d := c.source.latest.Load(); d != nil {
		verdicts := c.fleet.Health().Verdicts
		for _, s := range d.Services {
			for i := range s.Ports {
				for k := range s.Ports[i].Endpoints {
					answer.Endpoints = append(answer.Endpoints, endpointOf(s, &s.Ports[i], &s.Ports[i].Endpoints[k], &verdicts))
				}
			}
		}
	}
	reply(w, answer)
}

func endpointOf(s *state.Service, p *state.Port, e *state.Endpoint, verdicts *state.Verdicts) endpointAnswer {
	a := endpointAnswer{Namespace: s.Namespace, Service: s.Name, Port: p.Name, Protocol: string(p.Protocol), Address: e.Address.String(),
		Node: e.NodeName, Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Why: whyText(e.Cause)}
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
	return &cli.Command{
		Name:      "endpoints",
		Usage:     "the endpoints of Services, with the conditions that count and the reason",
		ArgsUsage: "[SERVICE]",
		Description: "READY, SERVING and TERMINATING are the effective conditions: what the manifests declare,\n" +
			"folded with what the fleet saw and with drains. WHY says who saw what, and when.",
		Flags:        append(getFlags(), namespaceFlag()),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       get("/v1/endpoints", endpointsOf, showEndpoints),
	}
}

// endpointsOf leaves those of a namespace and a Service. One that isn't there is
// rather a typing error than nothing to show.
func endpointsOf(c *cli.Context, a *endpointsAnswer) error {
	ns, service := c.String("namespace"), c.Args().First()
	if before, after, found := strings.Cut(service, "/"); found {
		ns, service = before, after
	}
	kept := a.Endpoints[:0]
	for _, e := range a.Endpoints {
		if (ns == "" || e.Namespace == ns) && (service == "" || e.Service == service) {
			kept = append(kept, e)
		}
	}
	if a.Endpoints = kept; len(kept) > 0 || ns+service == "" {
		return nil
	}
	return fmt.Errorf("no endpoint of %s is known here", strings.TrimPrefix(ns+"/"+cmp.Or(service, "*"), "/"))
}

func showEndpoints(w io.Writer, a *endpointsAnswer) {
	if len(a.Endpoints) > 0 {
		fmt.Fprintln(w, "NAMESPACE\tSERVICE\tPORT\tENDPOINT\tNODE\tREADY\tSERVING\tTERMINATING\tWHY")
	}
	for _, e := range a.Endpoints {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%v\t%v\t%v\t%s\n", e.Namespace, e.Service, portText(e.Port, e.Protocol), e.Address, orDash(e.Node),
			e.Ready, e.Serving, e.Terminating, e.Why)
	}
}

func portText(name, protocol string) string {
	if name == "" {
		return protocol
	}
	return name + "/" + protocol
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
