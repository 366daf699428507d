package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

func getNodesCommand() *cli.Command {
	return &cli.Command{
		Name:  "nodes",
		Usage: "the hosts of the fleet, and what each of them does",
		Description: "STATE is what this host thinks of the others. SERVES is a hash of the manifests that are\n" +
			"served: hosts that differ serve different ones. COMMIT is theirs, where a host knows it. CHECKS\n" +
			"is how many probes a host is asked for. Of a host that serves what this one did before, NOTES\n" +
			"say that it's behind, and of one that serves something else, that it differs.",
		Flags:        getFlags(),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       get("/v1/nodes", nil, showNodes),
	}
}

func showNodes(w io.Writer, a *nodesAnswer) {
	fmt.Fprintln(w, "NODE\tADDRESS\tSTATE\tSINCE\tSERVES\tCOMMIT\tCHECKS\tNOTES")
	for _, n := range a.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", n.Name, orDash(n.Address), n.State, orDash(timeText(n.Since)), orDash(n.Serves),
			orDash(shortCommit(n.Commit)), n.Checks, strings.Join(n.notes(a), ", "))
	}
	if a.Isolated != "" {
		fmt.Fprintf(w, "this host is isolated and judges by itself: %s\n", a.Isolated)
	}
	for _, t := range a.Troubles {
		fmt.Fprintf(w, "trouble: %s (%d times since %s): %s\n", strings.TrimSpace(t.Kind+" "+t.Member), t.Count, timeText(t.Since), t.Detail)
	}
}

// shortCommit cuts a commit to the digits that git shows at most.
func shortCommit(commit string) string { return commit[:min(len(commit), 12)] }

func (n *nodeAnswer) notes(a *nodesAnswer) []string {
	var notes []string
	for _, note := range []struct {
		holds bool
		text  string
	}{{n.Name == a.Self, "this host"}, {n.Name == a.Self && a.Alone, "alone"}, {n.Drained, "drained"}, {n.Isolated, "isolated"},
		{n.Compared != "", n.Compared}, {n.Held, "holds a change"}, {n.Kept, "keeps a last state"}} {
		if note.holds {
			notes = append(notes, note.text)
		}
	}
	return notes
}

func getDrainsCommand() *cli.Command {
	return &cli.Command{
		Name:         "drains",
		Usage:        "what is drained, by whom and until when",
		Flags:        getFlags(),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       get("/v1/drains", nil, showDrains),
	}
}

func showDrains(w io.Writer, a *drainsAnswer) {
	if len(a.Drains) > 0 {
		fmt.Fprintln(w, "TARGET\tBY\tSINCE\tUNTIL\tREASON")
	}
	for _, d := range a.Drains {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Target, d.By, timeText(d.Since), timeText(d.Until), d.Reason)
	}
}

// timeText writes a time as the agent's log does, to the second; nothing for
// none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
