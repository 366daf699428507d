package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// line is a command line up to the cursor.
type line struct {
	path     []string       // of the command: get endpoints
	commands []*cli.Command // that may follow
	flags    []cli.Flag     // of the command

	args    []string          // before the cursor
	given   map[string]string // the values of flags before the cursor, by the flag's first name
	literal bool              // after --, where nothing is a flag

	flag cli.DocGenerationFlag // whose value is at the cursor, or nil
	lead string                // of the word at the cursor, what stays: --output=
	word string                // the rest of it
}

// readLine reads the words after the program's name, the last of which is at the
// cursor, and may be empty.
func readLine(app *cli.App, words []string) *line {
	l := &line{commands: app.Commands, flags: app.Flags, given: map[string]string{}}
	before, word := words[:len(words)-1], words[len(words)-1]
	for len(before) > 0 {
		i := slices.IndexFunc(l.commands, func(c *cli.Command) bool { return c.HasName(before[0]) })
		if i < 0 {
			break
		}
		l.path = append(l.path, l.commands[i].Name)
		l.flags, l.commands = l.commands[i].Flags, l.commands[i].Subcommands
		before = before[1:]
	}
	for _, w := range before {
		l.pass(w)
	}
	l.reach(word)
	return l
}

// pass takes in a word before the cursor.
func (l *line) pass(word string) {
	switch name, value, complete := strings.Cut(word, "="); {
	case l.flag != nil:
		l.give(l.flag, word)
		l.flag = nil
	case l.literal || len(word) < 2 || word[0] != '-':
		l.args = append(l.args, word)
	case word == "--":
		l.literal = true
	case l.find(name) == nil:
	case complete || !l.find(name).TakesValue():
		l.give(l.find(name), value)
	default:
		l.flag = l.find(name)
	}
}

func (l *line) give(f cli.DocGenerationFlag, value string) { l.given[f.Names()[0]] = value }

// reach takes in the word at the cursor.
func (l *line) reach(word string) {
	l.word = word
	if name, value, found := strings.Cut(word, "="); found && l.flag == nil && !l.literal && strings.HasPrefix(word, "-") {
		if f := l.find(name); f != nil && f.TakesValue() {
			l.flag, l.lead, l.word = f, name+"=", value
		}
	}
}

// find gives the flag that a word names, or nil.
func (l *line) find(word string) cli.DocGenerationFlag {
	name := strings.TrimLeft(word, "-")
	for _, f := range l.flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return d
		}
	}
	return nil
}

// commandNames are those that may follow.
func (l *line) commandNames() []candidate {
	var all []candidate
	for _, c := range visible(l.commands) {
		all = append(all, candidate{c.Name, c.Usage})
	}
	return all
}

// visible are the commands that are told of. urfave/cli's own help is one more
// way to say --help.
func visible(commands []*cli.Command) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(commands), func(c *cli.Command) bool { return c.Hidden || c.Name == "help" })
}

// flagNames are the command's flags, but for those that are given and can be
// only once.
func (l *line) flagNames() []candidate {
	var all []candidate
	for _, f := range l.flags {
		d, ok := f.(cli.DocGenerationFlag)
		_, given := l.given[f.Names()[0]]
		if _, repeatable := f.(*cli.StringSliceFlag); !ok || f == cli.HelpFlag || given && !repeatable {
			continue
		}
		_, about := placeholder(d.GetUsage())
		for _, name := range f.Names() {
			all = append(all, candidate{dashed(name), about})
		}
	}
	return append(all, candidate{"--help", "show help"})
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// placeholder gives the word in a flag's usage that stands for the value, and
// the usage without the marks around it.
func placeholder(usage string) (word, plain string) {
	before, rest, found := strings.Cut(usage, "`")
	if !found {
		return "", usage
	}
	word, after, _ := strings.Cut(rest, "`")
	return word, before + word + after
}
