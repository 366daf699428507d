package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"pointsman/reconcile"
	"pointsman/reconcile/nft"
	"pointsman/state/gitsync"
	"pointsman/state/manifest"
)

func planCommand() *cli.Command {
	flags := []cli.Flag{
		configFlag(), outputFlag("text", "json", "markdown"),
		stringFlag("commit", "", "the manifests of this git `COMMIT` (any name that git knows) instead of a directory's"),
		repositoryFlag(),
		stringFlag("against", "", "compare with this `DIR`, and not with what is served here"),
		stringFlag("manifests", defaultManifests, "the agent's manifests `DIR`"),
		stringFlag("state-dir", defaultStateDir, "the agent's state `DIR`, where no agent answers"),
		socketFlag(), maxRemovalFlag(),
		boolFlag("allow-empty", "as the agent has it"),
		listFlag("address", "an `ADDRESS` of the node, which NodePorts answer on (repeatable; default: the Node manifest's)"),
	}
	flags = append(flags, rangeFlags()...)
	return &cli.Command{
		Name:      "plan",
		Usage:     "say what a change of the manifests would change on this host",
		ArgsUsage: "DIR | --commit COMMIT",
		Description: "Compares what the manifests of a directory, or of a commit, would have this host serve with\n" +
			"what it serves: asks the agent, or reads what that served last. With --against DIR it compares\n" +
			"two directories, and needs neither root nor an agent. Give it the agent's configuration. The\n" +
			"node is the agent's, where one is asked, unless --node-name is given.\n\n" +
			"It tells Services, endpoints and nftables elements that come and go, what is wrong with the\n" +
			"manifests, and whether the change would be held (see pointsman approve --help). -o markdown is\n" +
			"for a pull request. The exit code is 0 if nothing changes, 2 if something does, 1 for an error.",
		Flags:        append(flags, nodeFlags()...),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       plan,
	}
}

// repositoryFlag has a long name beside its usual one, by which the
// configuration file would hold the URL for pointsman sync.
func repositoryFlag() cli.Flag {
	f := stringFlag("repository", "", "the `DIR` in whose git repository --commit is looked up (default: that of pointsman sync, or of --manifests)")
	f.Aliases = []string{"repo"}
	return f
}

func plan(c *cli.Context) error {
	if (c.NArg() == 1) == (c.String("commit") != "") || c.NArg() > 1 {
		return usage("plan needs a directory, or --commit; see pointsman plan --help")
	}
	format, err := outputOf(c, "text", "json", "markdown")
	if err != nil {
		return err
	}
	cfg, err := manifestConfig(c)
	if err != nil {
		return err
	}
	limits, err := limitsOf(c)
	if err != nil {
		return err
	}
	busy := newActivity(c)
	defer busy.done()
	busy.say("reading the manifests")
	wanted, err := planned(c)
	if err != nil {
		return err
	}
	busy.say("comparing %s files with what is served", grouped(len(wanted.Files)))
	b, err := planBasis(c, cfg)
	if err != nil {
		return err
	}
	after := b.loader.Load(wanted)
	p := b.compare(after, wanted.Commit)
	b.judge(p, after, limits)
	if p.Elements, err = elements(c, b.served, after); err != nil {
		return err
	}
	busy.done()
	p.Changes = len(p.Services) > 0 || p.Elements != countAnswer{}
	if err := writePlan(c.App.Writer, format, p); err != nil {
		return err
	}
	if p.Changes {
		return cli.Exit("", exitChanges)
	}
	return nil
}

// planned gives the manifests that are to come.
func planned(c *cli.Context) (*manifest.Snapshot, error) {
	commit := c.String("commit")
	if commit == "" {
		return manifest.ReadDir(c.Args().First())
	}
	dir := c.String("repository")
	if dir == "" {
		dir = c.String("manifests")
		if dest := syncDest(dir); dest != "" {
			return fetched(c.Context, dest, commit)
		}
	}
	s, err := committed(c.Context, dir, commit)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", dir, err)
	case s == nil:
		return nil, fmt.Errorf("%s: commit %s has nothing there", dir, commit)
	}
	return s, nil
}

// fetched gives the manifests of a commit that pointsman sync has fetched.
func fetched(ctx context.Context, dest, commit string) (*manifest.Snapshot, error) {
	s, err := extracted(func(tree string) (string, error) { return gitsync.Extract(ctx, dest, commit, tree) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dest, err)
	}
	return s, nil
}

// basis is what a plan compares with.
type basis struct {
	node   string
	loader *manifest.Loader // it falls back to what is served, as the agent does
	served *manifest.Result
	state  pastState
	past   past
}

// planBasis gives what --against says, what the agent serves, or what it served
// last.
func planBasis(c *cli.Context, cfg manifest.Config) (*basis, error) {
	node, err := nodeName(c)
	if err != nil {
		return nil, err
	}
	b := &basis{node: node}
	if dir := c.String("against"); dir != "" {
		err = b.readDir(dir, cfg)
	} else {
		err = b.ask(c, cfg)
		if errors.Is(err, errNoAgent) {
			err = b.readState(c, cfg, err)
		}
	}
	return b, err
}

func (b *basis) readDir(dir string, cfg manifest.Config) error {
	s, err := manifest.ReadDir(dir)
	if err != nil {
		return err
	}
	b.loader = manifest.NewLoader(cfg, "")
	b.served = b.loader.Load(s)
	b.loader.Accept(b.served)
	b.state = pastState{manifest.HashText(b.served.Hash()), s.Commit}
	return nil
}

// servedAnswer is what the agent serves, in the words of its manifests.
type servedAnswer struct {
	pastState
	Node      string `json:"node"` // an earlier release says nothing
	Past      past   `json:"past"`
	Documents string `json:"documents"` // as in the file of the last good versions
}

func (c *control) served(q wanted) answer {
	f := c.source.inForce.Load()
	switch {
	case f == nil:
		return answer{missing: "this host serves nothing yet"}
	case q != wanted{}:
		return answer{missing: "what is served is told as a whole"}
	}
	return answer{write: func(w io.Writer) error {
		var text bytes.Buffer
		_, _ = f.result.Documents().WriteTo(&text) // a buffer takes everything
		return json.NewEncoder(w).Encode(servedAnswer{f.state, c.source.nodeName, f.past, text.String()})
	}}
}

func (b *basis) ask(c *cli.Context, cfg manifest.Config) error {
	var a servedAnswer
	err := ask(c.Context, c.String("socket"), "/v1/served", &a)
	if err == nil {
		err = b.isOf(c, a.Node)
	}
	if err != nil {
		return err
	}
	b.loader = manifest.Resume([]byte(a.Documents), cfg)
	b.served, b.state, b.past = b.loader.Restore(), a.pastState, a.Past
	if manifest.HashText(b.served.Hash()) != a.Hash {
		return errors.New("what the agent serves isn't good here: give plan the agent's own configuration (--config)")
	}
	return nil
}

// isOf takes the name of the agent's node for that of the plan, unless another is
// given, and says so where that may be a surprise.
func (b *basis) isOf(c *cli.Context, agent string) error {
	switch {
	case agent == "" || agent == b.node:
		return nil
	case c.IsSet("node-name"):
		fmt.Fprintf(c.App.ErrWriter, "for %s, compared with what %s serves, whose agent answers here\n", b.node, agent)
		return nil
	}
	fmt.Fprintf(c.App.ErrWriter, "for %s, as the agent's node is called, not for %s (--node-name plans for others)\n", agent, b.node)
	b.node = agent
	return c.Set("node-name", agent)
}

// readState reads what the last process left; missing is why it's needed.
func (b *basis) readState(c *cli.Context, cfg manifest.Config, missing error) error {
	path := lastGoodPath(c)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is nothing to compare with (give --against DIR): %w, and there is no %s", missing, path)
	}
	fmt.Fprintf(c.App.ErrWriter, "%v; compared with what was served last\n", missing)
	var err error
	if b.past, err = readPast(c.String("state-dir")); err != nil {
		return err
	}
	b.loader = manifest.NewLoader(cfg, path)
	b.served = b.loader.Restore()
	b.state, _ = b.past.find(manifest.HashText(b.served.Hash()))
	if len(b.served.Services) == 0 && len(b.served.Problems) > 0 {
		return errors.New(b.served.Problems[0].String())
	}
	return nil
}

// elements counts the nftables elements that come and go.
func elements(c *cli.Context, before, after *manifest.Result) (n countAnswer, err error) {
	from, err := renderInput(c, before)
	if err != nil {
		return n, err
	}
	to, err := renderInput(c, after)
	if err != nil {
		return n, err
	}
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		p := reconcile.NewPlanner(f)
		was := p.Plan(from, nil).Groups
		now := p.Plan(to, func(group string) *nft.Group { return was[group] }).Groups
		n.Added += missing(now, was)
		n.Removed += missing(was, now)
	}
	return n, nil
}

// missing counts the elements of some groups that others don't have.
func missing(groups, others map[string]*nft.Group) int {
	n := 0
	for id, g := range groups {
		o := others[id]
		if o == g {
			continue
		}
		has := map[nft.Element]bool{}
		if o != nil {
			for _, e := range *o {
				has[e] = true
			}
		}
		for _, e := range *g {
			if !has[e] {
				n++
			}
		}
	}
	return n
}
