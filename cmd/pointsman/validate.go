package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

func validateCommand() *cli.Command {
	flags := append([]cli.Flag{
		configFlag(), outputFlag(findingFormats...), boolFlag("strict", "exit with 3 if there are warnings"),
	}, rangeFlags()...)
	return &cli.Command{
		Name:      "validate",
		Usage:     "say what is wrong with manifests",
		ArgsUsage: "DIR...",
		Description: "Judges each directory (or file) as the agent would, and prints one line for each\n" +
			"finding: file:line: field: what is wrong. It works offline and without root. The exit\n" +
			"code is 0 if there are no errors, 1 if there are, and with --strict 3 if there are only\n" +
			"warnings.\n\n" +
			"-o json, sarif (for code scanners) and github (annotations of a workflow) name the rule\n" +
			"of each finding as well, and the file as seen from the working directory.",
		Flags:        flags,
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       validate,
	}
}

func validate(c *cli.Context) error {
	if c.NArg() == 0 {
		return usage("validate needs a directory; see pointsman validate --help")
	}
	cfg, err := manifestConfig(c)
	if err != nil {
		return err
	}
	format, err := outputOf(c, findingFormats...)
	if err != nil {
		return err
	}
	var all []manifest.Problem
	hollow := 0
	busy := newActivity(c)
	defer busy.done()
	counts := busy.above(c.App.ErrWriter)
	for _, dir := range c.Args().Slice() {
		busy.say("reading %s", dir)
		snapshot, err := manifest.ReadDir(dir)
		if err != nil {
			return err
		}
		busy.say("judging %s: %s files", dir, grouped(len(snapshot.Files)))
		r := manifest.NewLoader(cfg, "").Load(snapshot)
		for _, p := range r.Problems {
			if c.NArg() > 1 || format != "text" {
				p.Source.File = filepath.Join(base(dir), p.Source.File)
			}
			all = append(all, p)
		}
		fmt.Fprintf(counts, "%s: %s, %s, %s\n",
			dir, plural(len(snapshot.Files), "file"), plural(len(r.Services), "Service"), plural(endpoints(r.Services), "endpoint"))
		if len(r.Services) == 0 && !manifest.HasErrors(r.Problems) {
			hollow++
			fmt.Fprintf(counts, "%s: warning: there is no Service, so a host would keep what it serves\n", dir)
		}
	}
	busy.done()
	if err := writeProblems(c.App.Writer, format, all); err != nil {
		return err
	}
	errors := len(manifest.Errors(all))
	return verdict(c, "error", errors, len(all)-errors+hollow)
}

// base is the directory that an argument of validate means: the one of a file,
// where that is what it names.
func base(arg string) string {
	if info, err := os.Stat(arg); err == nil && !info.IsDir() {
		return filepath.Dir(arg)
	}
	return arg
}

// verdict sums up what is bad, by the name of one, and what is a warning, and gives
// the exit code.
func verdict(c *cli.Context, name string, bad, warnings int) error {
	if bad+warnings > 0 {
		fmt.Fprintf(c.App.ErrWriter, "%s, %s\n", plural(bad, name), plural(warnings, "warning"))
	}
	switch {
	case bad > 0:
		return cli.Exit("", exitError)
	case warnings > 0 && c.Bool("strict"):
		return cli.Exit("", exitWarnings)
	}
	return nil
}

// manifestConfig is what manifests are judged by.
func manifestConfig(c *cli.Context) (manifest.Config, error) {
	var cfg manifest.Config
	var err error
	if cfg.NodePortFirst, cfg.NodePortLast, err = portRange(c.String("node-port-range")); err != nil {
		return cfg, err
	}
	cfg.ServiceCIDRs, err = prefixes(c, "service-cidr")
	return cfg, err
}

func lastGoodPath(c *cli.Context) string { return filepath.Join(c.String("state-dir"), lastGoodFile) }
