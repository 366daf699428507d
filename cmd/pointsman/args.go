package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// interspersed gives a command line with the flags of its command before the
// arguments: urfave/cli takes a flag that comes later for an argument, and
// people write them in any order, and TYPE/NAME as for kubectl. What follows -- is left alone. Beside --help the
// arguments go: it would look for a command of their name (drain node --help).
func interspersed(app *cli.App, args []string) []string {
	commands, at := app.Commands, 1
	var command *cli.Command
	for at < len(args) {
		i := commandAt(commands, args[at])
		if kind, name, isPair := strings.Cut(args[at], "/"); i < 0 && isPair && command != nil && commandAt(commands, kind) >= 0 {
			args = slices.Concat(args[:at], []string{kind, name}, args[at+1:])
			continue
		}
		if i < 0 {
			break
		}
		command, commands = commands[i], commands[i].Subcommands
		at++
		args = slices.Concat(args[:at], nameFirst(commands, args[at:]))
	}
	if command == nil {
		return args
	}
	flags, rest := slices.Clone(args[:at]), []string(nil)
	for i := at; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return slices.Concat(flags, args[i:i+1], rest, args[i+1:])
		case arg == "--help" || arg == "-h":
			return append(args[:at:at], arg)
		case len(arg) < 2 || arg[0] != '-':
			rest = append(rest, arg)
		case takesValue(command, arg) && i+1 < len(args):
			flags = append(flags, arg, args[i+1])
			i++
		default:
			flags = append(flags, arg)
		}
	}
	return append(flags, rest...)
}

// nameFirst gives arguments with the first word, which may be one of commands,
// before the flags: get -o wide services.
func nameFirst(commands []*cli.Command, args []string) []string {
	if len(commands) == 0 {
		return args
	}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		switch arg := args[i]; {
		case len(arg) < 2 || arg[0] != '-':
			return slices.Concat(args[i:i+1], args[:i], args[i+1:])
		case slices.ContainsFunc(commands, func(c *cli.Command) bool { return takesValue(c, arg) }):
			i++
		}
	}
	return args
}

// takesValue reports whether the argument after a flag is its value.
func takesValue(c *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			d, ok := f.(cli.DocGenerationFlag)
			return ok && d.TakesValue()
		}
	}
	return false
}
