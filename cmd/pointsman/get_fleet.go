package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

func getNodesCommand() *cli.Command {
	return lister(&cli.Command{
		Name:      "nodes",
		Aliases:   []string{"node", "no"},
		Usage:     "the hosts of the fleet, and what each of them does",
		ArgsUsage: "[NODE]",
		Description: "STATE is what this host thinks of the others. SERVES is a hash of the manifests that are\n" +
			"served: hosts that differ serve different ones. COMMIT is theirs, where a host knows it. CHECKS\n" +
			"is how many probes a host is asked for. Of a host that serves what this one did before, NOTES\n" +
			"say that it's behind, and of one that serves something else, that it differs. What is wrong with\n" +
			"the fleet follows the table.",
	}, resource[nodesAnswer, nodeRow]{
		name: "nodes", path: "/v1/nodes",
		rows: nodeRows,
		key:  func(n *nodeRow) string { return n.Name },
		columns: []column[nodeRow]{
			{head: "NODE", text: func(n *nodeRow) string { return n.Name }},
			{head: "ADDRESS", text: func(n *nodeRow) string { return orDash(n.Address) }},
			{head: "STATE", text: func(n *nodeRow) string { return n.State }},
			{head: "SINCE", text: func(n *nodeRow) string { return orDash(timeText(n.Since)) }},
			{head: "SERVES", text: func(n *nodeRow) string { return orDash(n.Serves) }},
			{head: "COMMIT", text: func(n *nodeRow) string { return orDash(shortCommit(n.Commit)) }},
			{head: "CHECKS", text: func(n *nodeRow) string { return strconv.Itoa(n.Checks) }},
			{head: "RELEASE", wide: true, text: func(n *nodeRow) string { return orDash(n.Release) }},
			{head: "NOTES", text: func(n *nodeRow) string { return strings.Join(n.notes(), ", ") }},
		},
		below: nodesBelow,
	}.action)
}

// nodeRow is a node, as seen from this one.
type nodeRow struct {
	nodeAnswer
	self, alone bool
}

func nodeRows(a *nodesAnswer) []nodeRow {
	var rows []nodeRow
	for _, n := range a.Nodes {
		rows = append(rows, nodeRow{n, n.Name == a.Self, n.Name == a.Self && a.Alone})
	}
	return rows
}

func nodesBelow(a *nodesAnswer) []string {
	var lines []string
	if a.Isolated != "" {
		lines = append(lines, "this host is isolated and judges by itself: "+a.Isolated)
	}
	for _, t := range a.Troubles {
		often := fmt.Sprintf("%d times since %s", t.Count, timeText(t.Since))
		if t.Count == 1 {
			often = "at " + timeText(t.Since)
		}
		lines = append(lines, fmt.Sprintf("trouble: %s (%s): %s", strings.TrimSpace(t.Kind+" "+t.Member), often, t.Detail))
	}
	return lines
}

// shortCommit cuts a commit to the digits that git shows at most.
func shortCommit(commit string) string { return commit[:min(len(commit), 12)] }

func (n *nodeRow) notes() []string {
	var notes []string
	for _, note := range []struct {
		holds bool
		text  string
	}{{n.self, "this host"}, {n.alone, "alone"}, {n.Drained, "drained"}, {n.Isolated, "isolated"},
		{n.Compared != "", n.Compared}, {n.Held, "holds a change"}, {n.Kept, "keeps a last state"}} {
		if note.holds {
			notes = append(notes, note.text)
		}
	}
	return notes
}

func getDrainsCommand() *cli.Command {
	return lister(&cli.Command{
		Name:        "drains",
		Aliases:     []string{"drain"},
		Usage:       "what is drained, by whom and until when",
		Description: "They are the fleet's: every host knows them, and pointsman undrain ends one on any host.",
	}, resource[drainsAnswer, drainAnswer]{
		name: "drains", path: "/v1/drains",
		rows: func(a *drainsAnswer) []drainAnswer { return a.Drains },
		key:  func(d *drainAnswer) string { return d.Target },
		columns: []column[drainAnswer]{
			{head: "TARGET", text: func(d *drainAnswer) string { return d.Target }},
			{head: "BY", text: (*drainAnswer).setBy},
			{head: "SINCE", text: func(d *drainAnswer) string { return timeText(d.Since) }},
			{head: "UNTIL", text: func(d *drainAnswer) string { return timeText(d.Until) }},
			{head: "REASON", text: func(d *drainAnswer) string { return d.Reason }},
		},
	}.action)
}

// timeText writes a time as the agent's log does, to the second; nothing for
// none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
