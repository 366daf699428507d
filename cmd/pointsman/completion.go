package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// The scripts only pass the line on to completeCommand. urfave/cli's own have
// the shell evaluate the line, which runs what is in it, and know no values of
// flags.
var (
	//go:embed shells/pointsman.bash
	bashScript string
	//go:embed shells/pointsman.zsh
	zshScript string
	//go:embed shells/pointsman.fish
	fishScript string
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "Completes commands, flags and their values, and the names of what the running agent knows:\n" +
			"namespaces, Services, endpoints, frontends, nodes and drains. make install puts the scripts\n" +
			"where the shells look for them; this is for a shell of your own.",
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			script, known := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Args().First()]
			if c.NArg() != 1 || !known {
				return usage("completion needs the name of a shell: bash, zsh or fish")
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

// completeCommand is what the scripts run, with the words of a command line up
// to the cursor. It prints what sort of thing is to be completed (words, files or
// directories), then the words that fit, each with a tab and what it is. Whatever
// fails, there's just nothing to offer: somebody is typing.
func completeCommand() *cli.Command {
	return &cli.Command{
		Name:   "__complete",
		Hidden: true, HideHelp: true,
		SkipFlagParsing: true,
		Flags:           []cli.Flag{configFlag(), socketFlag(), namespaceFlag()},
		Action: func(c *cli.Context) error {
			words := c.Args().Slice() // -- and the program's name come first
			if len(words) < 3 {
				return nil
			}
			l := readLine(c.App, words[2:])
			o := l.offer(func(kind string) []candidate { return agentNames(c, l, kind) })
			fmt.Fprintln(c.App.Writer, o.sort)
			for _, w := range o.words {
				if strings.HasPrefix(w.text, l.word) {
					fmt.Fprintln(c.App.Writer, strings.TrimSuffix(l.lead+w.text+"\t"+w.about, "\t"))
				}
			}
			return nil
		},
	}
}
