package main

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

func validateCommand() *cli.Command {
	flags := append([]cli.Flag{configFlag(), boolFlag("strict", "exit with 3 if there are warnings")}, rangeFlags()...)
	return &cli.Command{
		Name:      "validate",
		Usage:     "say what is wrong with manifests",
		ArgsUsage: "DIR...",
		Description: "Judges each directory (or file) as the agent would, and prints one line for each\n" +
			"finding: file:line: field: what is wrong. It works offline and without root. The exit\n" +
			"code is 0 if there are no errors, 1 if there are, and with --strict 3 if there are only\n" +
			"warnings.",
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
	errors, warnings := 0, 0
	for _, dir := range c.Args().Slice() {
		snapshot, err := manifest.ReadDir(dir)
		if err != nil {
			return err
		}
		r := manifest.NewLoader(cfg, "").Load(snapshot)
		for _, p := range r.Problems {
			if p.Severity == manifest.Error {
				errors++
			} else {
				warnings++
			}
			if c.NArg() > 1 {
				p.Source.File = filepath.Join(dir, p.Source.File)
			}
			fmt.Fprintln(c.App.Writer, p)
		}
		fmt.Fprintf(c.App.ErrWriter, "%s: %d files, %d services, %d endpoints\n",
			dir, len(snapshot.Files), len(r.Services), endpoints(r.Services))
	}
	return verdict(c, "errors", errors, warnings)
}

// verdict sums up what is bad, by its name, and what is a warning, and gives
// the exit code.
func verdict(c *cli.Context, name string, bad, warnings int) error {
	if bad+warnings > 0 {
		fmt.Fprintf(c.App.ErrWriter, "%d %s, %d warnings\n", bad, name, warnings)
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
