package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

// approval asks that a held change be let through.
type approval struct {
	name string     // the hash or the commit of what is held
	done chan error // capacity 1
}

// approveRequest is the body of POST /v1/approve.
type approveRequest struct {
	Name string `json:"name"`
}

func (c *control) approve(w http.ResponseWriter, r *http.Request) {
	q := &approveRequest{}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(q)
	if err == nil {
		a := approval{q.Name, make(chan error, 1)}
		select {
		case c.source.approvals <- a:
			err = <-a.done
		case <-r.Context().Done():
			return
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, struct{}{})
}

// heldAnswer is a change that is held.
type heldAnswer struct {
	From      string     `json:"from"` // the hash of what is served
	To        string     `json:"to"`   // the hash of what isn't
	Commit    string     `json:"commit,omitempty"`
	Since     string     `json:"since,omitempty"`
	Reasons   []string   `json:"reasons"`
	Services  lossAnswer `json:"services"`
	Endpoints lossAnswer `json:"endpoints"`
	Frontends lossAnswer `json:"frontends"` // of Services that stay
	Release   string     `json:"release"`   // how to let it through
}

// lossAnswer is what would go of a kind.
type lossAnswer struct {
	Gone   int      `json:"gone"`
	Before int      `json:"before"`
	First  []string `json:"first,omitempty"`
}

func heldOf(h *heldChange) *heldAnswer {
	if h == nil {
		return nil
	}
	v := h.verdict
	return &heldAnswer{From: h.from.Hash, To: h.to.Hash, Commit: h.to.Commit, Since: timeText(h.since), Reasons: v.Reasons, Release: h.release(),
		Services:  lossAnswer{v.Services.Gone, v.Services.Before, v.Services.First},
		Endpoints: lossAnswer{v.Endpoints.Gone, v.Endpoints.Before, v.Endpoints.First},
		Frontends: lossAnswer{v.Frontends.Gone, v.Frontends.Before, v.Frontends.First}}
}

// lines tell it to a person, each with the word that goes before it.
func (h *heldAnswer) lines() [][2]string {
	to := h.To
	if h.Commit != "" {
		to += " (commit " + h.Commit + ")"
	}
	if h.Since != "" {
		to += " since " + h.Since
	}
	lines := [][2]string{{"held", "the change to " + to}}
	for _, r := range h.Reasons {
		lines = append(lines, [2]string{"reason", r})
	}
	lines = append(lines, h.Services.lines("Services")...)
	lines = append(lines, h.Endpoints.lines("endpoints")...)
	lines = append(lines, h.Frontends.lines("frontends")...)
	return append(lines, [2]string{"let through", h.Release})
}

func (l lossAnswer) lines(kind string) [][2]string {
	if l.Gone == 0 {
		return nil
	}
	return [][2]string{{"would go", goneText(kind, l.Gone, l.Before, l.First)}}
}

func approveCommand() *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "let a change through on this host that is held for what it would take away",
		ArgsUsage: "COMMIT|HASH",
		Description: "Names what is held, as pointsman status shows it, by its hash, or by its commit or the first\n" +
			"digits of that. It lets that through and nothing else, once. For a whole fleet put a file " + manifest.ApprovalFile + "\n" +
			"at the top of the manifests directory instead:\n\n" +
			"   from: HASH-OR-COMMIT    # that the hosts serve now\n" +
			"   to: HASH                # that they are to serve (optional; pointsman plan shows it)\n\n" +
			"At least one of the two must be there. It lets the one change through that is from the one and\n" +
			"to the other. After a change that was made while it's there it's spent, so that a forgotten file\n" +
			"approves nothing.",
		Flags:        []cli.Flag{configFlag(), socketFlag()},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("approve needs the commit or the hash of what is held; see pointsman status")
			}
			q := approveRequest{Name: c.Args().First()}
			return call(c.Context, c.String("socket"), http.MethodPost, "/v1/approve", q, &struct{}{})
		},
	}
}

// goneText says how much of a kind goes, and names the first.
func goneText(kind string, gone, before int, first []string) string {
	text := fmt.Sprintf("%d of %d %s: %s", gone, before, kind, strings.Join(first, ", "))
	if more := gone - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
