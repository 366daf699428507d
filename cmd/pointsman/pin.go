package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
	"pointsman/state/manifest/pin"
)

const lastCommit = "HEAD"

func pinCommand() *cli.Command {
	flags := []cli.Flag{
		configFlag(),
		boolFlag("check", "write nothing; exit with 1 if a value is missing"),
		stringFlag("since", lastCommit, "the git `COMMIT` whose values are not given to other Services, should the files no longer have them (\"\": none)"),
	}
	return &cli.Command{
		Name:      "pin",
		Usage:     "write missing clusterIPs, nodePorts and healthCheckNodePorts into manifests",
		ArgsUsage: "DIR",
		Description: "Writes the values that an API server would allocate into the files, and changes nothing\n" +
			"else of them. What anything in DIR names is in use. Each value depends on the Service's name\n" +
			"and on what is in use; who runs it where doesn't matter. Give it the ranges of the hosts.\n\n" +
			"A Service whose document has an error, or whose values aliases would share, is named and left\n" +
			"alone; the others are pinned. The exit code is then 1.",
		Flags:        append(flags, rangeFlags()...),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       pinDir,
	}
}

func pinDir(c *cli.Context) error {
	dir := c.Args().First()
	if c.NArg() != 1 {
		return usage("pin needs one directory; see pointsman pin --help")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usage("pin needs the directory that %s is in: the other files tell what is in use", dir)
	}
	plan, err := pinPlan(c, dir)
	switch {
	case errors.Is(err, pin.ErrNoServiceCIDR):
		return usage("%v: give --service-cidr, the hosts' own", err)
	case err != nil:
		return err
	}
	for _, r := range plan.Refusals {
		fmt.Fprintln(c.App.ErrWriter, r)
	}
	if c.Bool("check") {
		return checkPinned(c, dir, plan)
	}
	return writePinned(c, dir, plan)
}

func pinPlan(c *cli.Context, dir string) (*pin.Plan, error) {
	cfg, err := manifestConfig(c)
	if err != nil {
		return nil, err
	}
	busy := newActivity(c)
	defer busy.done()
	busy.say("reading %s", dir)
	now, err := manifest.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	former, err := committed(c.Context, dir, c.String("since"))
	switch {
	case err == nil:
	case c.IsSet("since"):
		return nil, fmt.Errorf("--since: %w", err)
	case !isNoRepository(err):
		fmt.Fprintf(c.App.ErrWriter, "warning: values that were freed since the last commit may be given out: %v\n", err)
	}
	return pin.New(now, former, cfg)
}

// checkPinned says what is missing, in the form of validate's findings.
func checkPinned(c *cli.Context, dir string, plan *pin.Plan) error {
	slices.SortStableFunc(plan.Values, func(a, b pin.Value) int {
		return cmp.Or(cmp.Compare(a.Missing.File, b.Missing.File), cmp.Compare(a.Missing.Line, b.Missing.Line))
	})
	for _, v := range plan.Values {
		fmt.Fprintf(c.App.Writer, "%s: %s: Required value: pointsman pin would write %s (%s)\n", v.Missing, v.Field, v.Text, v.Service)
	}
	if len(plan.Values) > 0 {
		fmt.Fprintf(c.App.ErrWriter, "%s missing in %s: pointsman pin %s\n", plural(len(plan.Values), "value"), plural(len(plan.Files), "file"), dir)
	}
	if len(plan.Values)+len(plan.Refusals) > 0 {
		return cli.Exit("", exitError)
	}
	return nil
}

// writePinned writes the files, and says which values are in which. One that
// can't be written keeps no other from it.
func writePinned(c *cli.Context, dir string, plan *pin.Plan) error {
	written := map[string]bool{}
	values := 0
	for _, f := range plan.Files {
		if err := f.Write(dir); err != nil {
			fmt.Fprintln(c.App.ErrWriter, "pointsman:", err)
			continue
		}
		written[f.Path] = true
	}
	for _, v := range plan.Values {
		if written[v.Written.File] {
			values++
			fmt.Fprintf(c.App.Writer, "%s: %s: %s (%s)\n", v.Written, v.Field, v.Text, v.Service)
		}
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s to %s\n", plural(values, "value"), plural(len(written), "file"))
	if len(written) < len(plan.Files) || len(plan.Refusals) > 0 {
		return cli.Exit("", exitError)
	}
	return nil
}
