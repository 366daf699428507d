package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name:         "get",
		Usage:        "show what the running agent knows",
		Description:  "Asks the agent of this host on its control socket.",
		OnUsageError: usageError,
		Subcommands:  []*cli.Command{getEndpointsCommand(), getNodesCommand(), getDrainsCommand(), getProblemsCommand(), getEventsCommand()},
		Action: func(c *cli.Context) error {
			return usage("get needs to know what: %s", strings.Join(names(c.Command.Subcommands), ", "))
		},
	}
}

func names(commands []*cli.Command) []string {
	var all []string
	for _, c := range commands {
		if c.Name != "help" {
			all = append(all, c.Name)
		}
	}
	return all
}

// getFlags are those of every get command.
func getFlags() []cli.Flag {
	return []cli.Flag{configFlag(), socketFlag(), outputFlag("text", "json")}
}

func namespaceFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, EnvVars: env("namespace"), Usage: "only this `NAMESPACE`"}
}

// get asks the agent and shows its answer.
func get[T any](path string, filter func(*cli.Context, *T) error, show func(io.Writer, *T)) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Command.ArgsUsage == "" && c.NArg() > 0 || c.NArg() > 1 {
			return usage("get %s: what is %q?", c.Command.Name, c.Args().Get(c.NArg()-1))
		}
		format, err := outputOf(c, "text", "json")
		if err != nil {
			return err
		}
		answer := new(T)
		if err := ask(c.Context, c.String("socket"), path, answer); err != nil {
			return err
		}
		if filter != nil {
			if err := filter(c, answer); err != nil {
				return err
			}
		}
		if format == "json" {
			return writeJSON(c.App.Writer, answer)
		}
		w := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
		show(w, answer)
		return w.Flush()
	}
}

func getProblemsCommand() *cli.Command {
	return &cli.Command{
		Name:  "problems",
		Usage: "what is wrong with the manifests, and what of it is served all the same",
		Description: "Lists each finding about the manifests that the agent has read, the objects of which it\n" +
			"serves the last good version, since the one in the directory has errors, and the change\n" +
			"that is held, if one is.",
		Flags:        append(getFlags(), namespaceFlag()),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       get("/v1/problems", problemsOf, showProblems),
	}
}

// problemsOf leaves the problems of a namespace, and those of no object.
func problemsOf(c *cli.Context, a *problemsAnswer) error {
	ns := c.String("namespace")
	if ns == "" {
		return nil
	}
	kept := a.Problems[:0]
	for _, p := range a.Problems {
		if p.Namespace == ns || p.Namespace == "" {
			kept = append(kept, p)
		}
	}
	a.Problems = kept
	stale := a.Stale[:0]
	for _, s := range a.Stale {
		if _, name, _ := strings.Cut(s, " "); strings.HasPrefix(name, ns+"/") || !strings.Contains(name, "/") {
			stale = append(stale, s)
		}
	}
	a.Stale = stale
	return nil
}

func showProblems(w io.Writer, a *problemsAnswer) {
	if len(a.Problems) > 0 {
		fmt.Fprintln(w, "SEVERITY\tFILE\tOBJECT\tPROBLEM")
	}
	for _, p := range a.Problems {
		fmt.Fprintf(w, "%s\t%s:%d\t%s\t%s\n", p.Severity, p.File, p.Line, p.object(), p.text())
	}
	for _, s := range a.Stale {
		fmt.Fprintf(w, "stale\t\t%s\tits last good version is served\n", s)
	}
	if a.Held != nil {
		for _, l := range a.Held.lines() {
			fmt.Fprintf(w, "%s\t\t\t%s\n", l[0], l[1])
		}
	}
}

func (p *jsonProblem) object() string {
	switch {
	case p.Name == "":
		return "-"
	case p.Namespace == "":
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

func (p *jsonProblem) text() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}
