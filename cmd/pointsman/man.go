package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// manCommand writes the manual pages: make install runs it. urfave/cli would
// make one long page of all commands.
func manCommand() *cli.Command {
	return &cli.Command{
		Name:         "man",
		Usage:        "write the manual pages into a directory",
		ArgsUsage:    "DIR",
		Hidden:       true,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("man needs one directory")
			}
			dir := c.Args().First()
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			for name, page := range manPages(app(c.App.Writer, c.App.ErrWriter)) {
				if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(page), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// manPages gives the pages, one for each command that is told of, by name.
func manPages(a *cli.App) map[string]string {
	pages := map[string]string{a.Name: mainPage(a)}
	eachCommand(a.Commands, "", func(path string, c *cli.Command) {
		pages[pageName(path)] = commandPage(path, c)
	})
	return pages
}

// pageName gives pointsman-get-endpoints for get endpoints.
func pageName(path string) string {
	return strings.ReplaceAll(strings.TrimSpace("pointsman "+path), " ", "-")
}

func mainPage(a *cli.App) string {
	p := newPage(a.Name, a.Usage)
	p.section("SYNOPSIS")
	p.synopsis("pointsman", "COMMAND [OPTIONS] [ARGUMENTS]")
	p.section("DESCRIPTION")
	p.text("An agent on each host watches a directory of Service and EndpointSlice manifests, usually a git checkout, and keeps the host's " +
		"nftables equal to what they mean. The kernel moves the packets: stop the agent, kill it, upgrade it, and no connection notices.\n\n" +
		"Each command has a page of its own.")
	p.section("COMMANDS")
	p.commands(a.Commands, "")
	p.section("ENVIRONMENT")
	p.text("Every flag has an environment variable: --service-cidr is POINTSMAN_SERVICE_CIDR. What says how the agent runs may stand in the " +
		"configuration file under its own name, too; the flag wins over the variable, and that over the file.")
	p.files(append(runCommand().Flags, syncCommand().Flags...))
	p.exitStatus("", nil)
	p.examples("")
	p.section("SEE ALSO")
	p.text("nft(8), https://kubernetes.io/docs/reference/networking/virtual-ips/")
	return p.String()
}

func commandPage(path string, c *cli.Command) string {
	p := newPage(pageName(path), c.Usage)
	p.section("SYNOPSIS")
	arguments := c.ArgsUsage
	if len(c.Subcommands) > 0 {
		arguments = "COMMAND"
	}
	p.synopsis("pointsman "+path, strings.TrimSpace("[OPTIONS] "+arguments))
	p.section("DESCRIPTION")
	p.text(sentence(c.Usage) + "\n\n" + c.Description)
	if len(c.Subcommands) > 0 {
		p.section("COMMANDS")
		p.commands(c.Subcommands, path)
	}
	if flags := c.VisibleFlags(); len(flags) > 0 {
		p.section("OPTIONS")
		p.options(flags)
	}
	p.files(c.Flags)
	p.exitStatus(path, c.Flags)
	p.examples(path)
	p.seeAlso(path)
	return p.String()
}

// sentence makes one of a command's usage.
func sentence(usage string) string { return strings.ToUpper(usage[:1]) + usage[1:] + "." }

func (p *page) commands(commands []*cli.Command, under string) {
	for _, c := range visible(commands) {
		p.item(bold(pageName(strings.TrimSpace(under+" "+c.Name)))+"(1)", escape(sentence(c.Usage)))
	}
}

func (p *page) options(flags []cli.Flag) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		value, usage := placeholder(d.GetUsage())
		var names []string
		for _, name := range f.Names() {
			names = append(names, bold(dashed(name)))
		}
		head := strings.Join(names, ", ")
		if d.TakesValue() {
			head += " " + italic(value)
		}
		p.item(head, escape(usage+details(d)))
	}
}

// details are a flag's default and variable, as --help has them.
func details(d cli.DocGenerationFlag) string {
	text := ""
	if value := d.GetDefaultText(); d.TakesValue() && value != "" {
		text = " (default: " + value + ")"
	}
	for _, name := range d.GetEnvVars() {
		text += " [$" + name + "]"
	}
	return text
}

// files are those that flags name where nothing else is said.
func (p *page) files(flags []cli.Flag) {
	about := [][3]string{
		{"config", defaultConfig, "The configuration, a YAML file whose keys are the flags of pointsman-run(1) and pointsman-sync(1)."},
		{"manifests", defaultManifests, "The manifests that are served."},
		{"state-dir", defaultStateDir, "What outlives a restart: the last good manifests, and what was served."},
		{"socket", defaultSocket, "Where the commands ask the agent."},
		{"dest", defaultDest, "What was fetched and published."},
	}
	begun := false
	for _, f := range about {
		if !hasFlag(flags, f[0]) {
			continue
		}
		if !begun {
			p.section("FILES")
			begun = true
		}
		p.item(italic(f[1]), escape(f[2]))
	}
}

func hasFlag(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

func (p *page) exitStatus(path string, flags []cli.Flag) {
	p.section("EXIT STATUS")
	p.item(bold("0"), "All is well.")
	p.item(bold("1"), escape("Something is wrong, or didn't work."))
	switch two := "The command line can't be meant."; path {
	case "plan":
		p.item(bold("2"), escape(two+" Or: something would change."))
	case "":
		p.item(bold("2"), escape(two+" Or, of pointsman-plan(1): something would change."))
	default:
		p.item(bold("2"), escape(two))
	}
	switch {
	case path == "sync":
		p.item(bold("3"), "What is published has errors.")
	case path == "":
		p.item(bold("3"), escape("There are warnings, and --strict is given. Or, of pointsman-sync(1): what is published has errors."))
	case hasFlag(flags, "strict"):
		p.item(bold("3"), escape("There are warnings, and --strict is given."))
	}
}

func (p *page) examples(path string) {
	if len(samples[path]) == 0 {
		return
	}
	p.section("EXAMPLES")
	for i, e := range samples[path] {
		if i > 0 {
			p.WriteString(".PP\n")
		}
		p.text(e.why + ":")
		p.code([]string{e.line})
	}
}

// seeAlso names the page above, and the commands beside this one.
func (p *page) seeAlso(path string) {
	p.section("SEE ALSO")
	above := ""
	if i := strings.LastIndex(path, " "); i >= 0 {
		above = path[:i]
	}
	fmt.Fprintf(&p.Builder, ".BR %s (1)", pageName(above))
	if above != "" {
		fmt.Fprintf(&p.Builder, ",\n.BR %s (1)", pageName(""))
	}
	p.WriteString(",\n.BR nft (8)\n")
}
