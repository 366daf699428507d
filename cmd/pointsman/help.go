package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// helped gives a command line that asks for help in words (help get events, get
// help events) as one that does by a flag: get events --help. urfave/cli looks at
// the first word alone, and takes one that is no command for no error.
func helped(app *cli.App, args []string) ([]string, error) {
	commands, at := app.Commands, 1
	for at < len(args) && !isHelp(args[at]) {
		i := commandAt(commands, args[at])
		if i < 0 || len(commands[i].Subcommands) == 0 {
			return args, nil
		}
		commands = commands[i].Subcommands
		at++
	}
	if at == len(args) {
		return args, nil
	}
	words := args[at+1:]
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			words = words[:i]
			break
		}
		if isHelp(word) || len(commands) == 0 { // help help; help drain node
			continue
		}
		n := commandAt(commands, word)
		if n < 0 {
			return nil, noCommand(strings.Join(append(args[1:at:at], words[:i+1]...), " "), word, commands)
		}
		commands = commands[n].Subcommands
	}
	words = slices.DeleteFunc(slices.Clone(words), isHelp)
	return append(slices.Concat(args[:at], words), "--help"), nil
}

func isHelp(word string) bool { return word == "help" || word == "h" }

func commandAt(commands []*cli.Command, name string) int {
	return slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
}

// noCommand says that there's no command of a name, whose last word is none of
// some commands.
func noCommand(name, word string, commands []*cli.Command) error {
	return usage("no command %q%s; see pointsman --help", name, meant(word, names(commands)))
}

// meant asks whether one of some names was meant by a word: the nearest, if that's
// one slip away, or two in a long word.
func meant(word string, names []string) string {
	best, least := "", 2
	if len(word) > 5 {
		least = 3
	}
	for _, n := range names {
		if d := distance(word, n); d < min(least, len(n)) {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return " (" + best + "?)"
}

// distance is Levenshtein's: how many letters are missing, too much, or others.
// Two that changed places count as one, as that's how people type.
func distance(a, b string) int {
	const most = 40 // no name of ours is longer
	if len(a) > most || len(b) > most {
		return most
	}
	var d [most + 1][most + 1]int
	for i := range len(a) + 1 {
		for k := range len(b) + 1 {
			switch {
			case i == 0 || k == 0:
				d[i][k] = i + k
				continue
			case a[i-1] == b[k-1]:
				d[i][k] = d[i-1][k-1]
			default:
				d[i][k] = 1 + min(d[i-1][k-1], d[i-1][k], d[i][k-1])
			}
			if i > 1 && k > 1 && a[i-1] == b[k-2] && a[i-2] == b[k-1] {
				d[i][k] = min(d[i][k], d[i-2][k-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
