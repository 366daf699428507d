package main

import (
	"slices"
	"strings"
)

// candidate is a word that may stand at the cursor.
type candidate struct{ text, about string }

func candidates(texts ...string) []candidate {
	var all []candidate
	for _, t := range texts {
		all = append(all, candidate{text: t})
	}
	return all
}

// offer is what may stand at the cursor: one of the words, or a file or
// directory, which shells know best.
type offer struct {
	sort  string // words, files or directories
	words []candidate
}

func someOf(all []candidate) offer { return offer{"words", all} }

var (
	someFile      = offer{sort: "files"}
	someDirectory = offer{sort: "directories"}
)

// namer gives the names of a kind that the agent knows.
type namer func(kind string) []candidate

// offer finds what may stand at the cursor.
func (l *line) offer(names namer) offer {
	switch {
	case l.flag != nil:
		return flagValues(l.flag, names)
	case strings.HasPrefix(l.word, "-") && !l.literal:
		return someOf(l.flagNames())
	}
	next := arguments[strings.Join(l.path, " ")]
	switch {
	case next != nil:
		return next(l.args, names)
	case len(l.args) == 0:
		return someOf(l.commandNames())
	}
	return someOf(nil)
}

// arguments says what the next argument of a command may be, after those that
// are there.
var arguments = map[string]func(before []string, names namer) offer{
	"validate":      func([]string, namer) offer { return someFile },
	"render":        func(before []string, _ namer) offer { return first(before, someDirectory) },
	"plan":          func(before []string, _ namer) offer { return first(before, someDirectory) },
	"pin":           func(before []string, _ namer) offer { return first(before, someDirectory) },
	"completion":    func(before []string, _ namer) offer { return first(before, someOf(candidates("bash", "zsh", "fish"))) },
	"approve":       func(before []string, names namer) offer { return first(before, someOf(names("held"))) },
	"get services":  serviceArgument,
	"get endpoints": serviceArgument,
	"get events":    serviceArgument,
	"get problems":  serviceArgument,
	"get nodes":     func(before []string, names namer) offer { return first(before, someOf(names("nodes"))) },
	"explain":       explainArgument,
	"drain":         func(before []string, names namer) offer { return drainArgument(before, names, "") },
	"undrain":       func(before []string, names namer) offer { return drainArgument(before, names, "drained-") },
}

// first is an offer for the first argument, if that's what is next.
func first(before []string, o offer) offer {
	if len(before) > 0 {
		return someOf(nil)
	}
	return o
}

// serviceArgument is a Service with its namespace, or, where the namespace is
// given or nothing fits, without.
func serviceArgument(before []string, names namer) offer {
	return first(before, someOf(names("services-or-names")))
}

func explainArgument(before []string, names namer) offer {
	switch {
	case len(before) == 0:
		return someOf(append(candidates("endpoint"), names("frontends")...))
	case len(before) == 1 && before[0] == "endpoint":
		return someOf(names("endpoints"))
	}
	return someOf(nil)
}

func drainArgument(before []string, names namer, state string) offer {
	kinds := []string{"node", "endpoint", "service"}
	switch {
	case len(before) == 0:
		return someOf(candidates(kinds...))
	case len(before) == 1 && slices.Contains(kinds, before[0]):
		return someOf(names(state + before[0] + "s"))
	}
	return someOf(nil)
}
