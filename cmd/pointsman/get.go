package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name:  "get",
		Usage: "show what the running agent knows",
		Description: "Asks the agent of this host on its control socket. As tables, with -o wide of more columns; as\n" +
			"JSON or YAML; and with --watch again for each row that changes. Names may have a namespace before\n" +
			"them, as in shop/web. What is asked for by name and isn't there is an error.",
		OnUsageError: usageError,
		Subcommands:  []*cli.Command{getServicesCommand(), getEndpointsCommand(), getNodesCommand(), getDrainsCommand(), getProblemsCommand(), getEventsCommand()},
		Action: func(c *cli.Context) error {
			all := strings.Join(names(c.Command.Subcommands), ", ")
			if c.NArg() > 0 {
				return usage("get: %q is none of %s%s", c.Args().First(), all, meant(c.Args().First(), names(c.Command.Subcommands)))
			}
			return usage("get needs to know what: %s", all)
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

// getFormats are those of every get command.
var getFormats = []string{"text", "wide", "json", "yaml"}

// getFlags are those of every get command.
func getFlags() []cli.Flag {
	watch, headless := boolFlag("watch", "then show what changes, until it's interrupted"), boolFlag("no-headers", "leave the table's first line out")
	watch.Aliases = []string{"w"}
	return []cli.Flag{configFlag(), socketFlag(), outputFlag(getFormats...), watch, headless}
}

func namespaceFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, EnvVars: env("namespace"), Usage: "only this `NAMESPACE`"}
}

// namespaceFlags choose among objects that have a namespace.
func namespaceFlags() []cli.Flag {
	all := boolFlag("all-namespaces", "of all namespaces, as without -n")
	all.Aliases = []string{"A"}
	return []cli.Flag{namespaceFlag(), all}
}

// lister makes the command of a resource.
func lister(c *cli.Command, action cli.ActionFunc, flags ...cli.Flag) *cli.Command {
	c.Flags = slices.Concat(getFlags(), flags)
	c.Before, c.OnUsageError, c.Action = loadConfig, usageError, action
	return c
}
