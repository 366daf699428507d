// Command pointsman gives bare-metal hosts Kubernetes Services without a
// Kubernetes API. This package is wiring: what it wires is under state and
// reconcile.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who doesn't listen to a signal is ended by the second
	os.Exit(Main(ctx, os.Args, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitError    = 1
	exitUsage    = 2
	exitChanges  = 2 // of plan: something would change
	exitWarnings = 3
)

// Main runs the command line and gives the exit code: 0 well, 1 error, 2
// usage (or, of plan, changes), 3 warnings where they count.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := app(stdout, stderr)
	args, err := helped(a, args)
	if err == nil {
		err = a.RunContext(ctx, interspersed(a, args))
	}
	if err == nil {
		return 0
	}
	// Not errors.As: an exec.ExitError that is wrapped in err, nft's, has an exit
	// code, too.
	if coded, ok := err.(cli.ExitCoder); ok {
		if msg := coded.Error(); msg != "" {
			fmt.Fprintln(stderr, "pointsman:", msg)
		}
		return coded.ExitCode()
	}
	fmt.Fprintln(stderr, "pointsman:", err)
	return exitError
}

func app(stdout, stderr io.Writer) *cli.App {
	return withExamples(&cli.App{
		Name:                   "pointsman",
		Usage:                  "Kubernetes Services for bare-metal hosts, without a Kubernetes API",
		Writer:                 stdout,
		ErrWriter:              stderr,
		HideVersion:            true,
		Suggest:                true,
		UseShortOptionHandling: true,
		ExitErrHandler:         func(*cli.Context, error) {}, // Main does it
		OnUsageError:           usageError,
		Flags:                  []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version"}},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() > 0:
				return noCommand(c.Args().First(), c.Args().First(), c.App.VisibleCommands())
			case c.Bool("version"):
				return printVersion(c)
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{runCommand(), validateCommand(), renderCommand(), planCommand(), pinCommand(), getCommand(), explainCommand(), statusCommand(), drainCommand(), undrainCommand(), approveCommand(), reloadCommand(), syncCommand(), keygenCommand(), doctorCommand(), cleanupCommand(), versionCommand(), completionCommand(), completeCommand(), manCommand()},
	})
}

func usage(format string, args ...any) error {
	return cli.Exit(fmt.Sprintf(format, args...), exitUsage)
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "pointsman"
	if c.Command != nil && c.Command.HelpName != "" {
		name = c.Command.HelpName
	}
	text := err.Error()
	// The flag package says no more; of our flags only durations can be such values.
	if strings.HasPrefix(text, "invalid value ") {
		text = strings.Replace(text, ": parse error", ": not a time such as 30s, 15m or 24h", 1)
	}
	if flag, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown && c.Command != nil {
		text += meant(strings.TrimLeft(flag, "-"), settings(c.Command.Flags))
	}
	return usage("%s; see %s --help", text, name)
}
