package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/state/gitsync"
	"pointsman/state/manifest"
)

const defaultDest = "/var/lib/pointsman-sync"

func syncCommand() *cli.Command {
	flags := []cli.Flag{configFlag()}
	flags = append(flags, originFlags()...)
	flags = append(flags,
		boolFlag("strict", "refuse a commit in which anything is wrong"),
		boolFlag("allow-rewind", "let a commit follow that doesn't descend from the published one, or whose generation didn't grow"),
		boolFlag("once", "sync once, whatever --interval says"),
	)
	flags = append(flags, rangeFlags()...)
	return &cli.Command{
		Name:  "sync",
		Usage: "publish the manifests of a git repository as a directory",
		Description: "Fetches, verifies and judges what the ref points to, and publishes it as DEST/current, a\n" +
			"link that changes in one step. What was published stays until something better takes its\n" +
			"place: whatever fails, and whenever it's killed. Needs git, and no privileges.\n\n" +
			"A commit is refused if nobody among the allowed signers has signed it, if it doesn't\n" +
			"descend from the published one, if the number in its generation.yaml didn't grow, if its\n" +
			"manifests can't be read, or if there is no Service in them. Errors that are confined to\n" +
			"objects don't hold up the others: the commit is published, the agent keeps the last good\n" +
			"versions of those, and the exit code is 3.\n\n" +
			"With --interval it goes on until it's stopped; SIGHUP has it sync at once.",
		Flags:        append(flags, logFlags()...),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       syncAction,
	}
}

// originFlags say what is published where. They may stand in the configuration
// file; what weakens or ends a run may not.
func originFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("repo", "", "the repository's `URL` (https, ssh, file), user@host:path or absolute path"),
		stringFlag("ref", "main", "a branch's `NAME`, or a full name such as refs/tags/v1"),
		stringFlag("path", "", "the `DIR` of the commit that holds the manifests (default: all of it)"),
		stringFlag("dest", defaultDest, "the `DIR` in which current is published"),
		&choiceFlag{stringFlag("verify", "", "the `KIND` of signature that a commit must have, or the tag: ssh or gpg"), []string{"ssh", "gpg"}},
		stringFlag("allowed-signers", "", "the `FILE` of who may sign: allowed signers as of ssh-keygen, or exported GPG keys"),
		stringFlag("ssh-key", "", "a private repository's deploy key `FILE`"),
		stringFlag("known-hosts", "", "the `FILE` of the server's host keys; no other server is spoken to"),
		stringFlag("token-file", "", "the `FILE` with the password or token of an HTTPS server"),
		durationFlag("interval", 0, "go on, and sync once in a `PERIOD`, at a time within it that depends on the host's name"),
	}
}

// syncer is what syncAction makes of the command line.
type syncer struct {
	c    *cli.Context
	cfg  gitsync.Config
	told string // the outcome that was last logged

	activity *activity
}

func syncAction(c *cli.Context) error {
	s := &syncer{c: c, activity: newActivity(c)}
	defer s.activity.done()
	log, flush, err := newLog(c, s.activity.above(c.App.ErrWriter))
	if err != nil {
		return err
	}
	defer flush()
	if s.cfg, err = syncConfig(c, log); err != nil {
		return err
	}
	if s.activity != nil {
		s.cfg.Progress = func(text string) { s.activity.say("%s", text) }
	}
	switch every := c.Duration("interval"); {
	case every == 0 || c.Bool("once"):
		return s.once(c.Context)
	case every < time.Second:
		return usage("--interval: %v is no period to ask a server in", every)
	case c.Bool("allow-rewind"):
		return usage("--allow-rewind is for one run: give --once, too")
	default:
		return s.goOn(c.Context, every)
	}
}

func syncConfig(c *cli.Context, log *slog.Logger) (cfg gitsync.Config, err error) {
	if err := noArgs(c); err != nil {
		return cfg, err
	}
	if c.String("repo") == "" {
		return cfg, usage("sync needs --repo; see pointsman sync --help")
	}
	judging, err := manifestConfig(c)
	if err != nil {
		return cfg, err
	}
	cfg = gitsync.Config{
		Repo: c.String("repo"), Ref: c.String("ref"), Path: c.String("path"),
		Verify:      gitsync.Verification{Method: c.String("verify")},
		Access:      gitsync.Access{TokenFile: c.String("token-file")},
		AllowRewind: c.Bool("allow-rewind"), Strict: c.Bool("strict"),
		Check: judge(judging), Log: log,
	}
	for flag, into := range map[string]*string{
		"dest": &cfg.Dest, "allowed-signers": &cfg.Verify.Signers, "ssh-key": &cfg.Access.SSHKey, "known-hosts": &cfg.Access.KnownHosts,
	} {
		if c.String(flag) == "" {
			continue
		}
		if *into, err = filepath.Abs(c.String(flag)); err != nil {
			return cfg, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usage("sync: %v", err)
	}
	if strings.HasPrefix(cfg.Repo, "http://") && (cfg.Verify.Method == "" || cfg.Access.TokenFile != "") {
		log.Warn("by http:// whoever is on the way reads the token, and may answer for the server", "repo", cfg.Repo)
	}
	return cfg, nil
}

// judge has a tree judged as the agent would, which knows of no last good
// versions yet.
func judge(cfg manifest.Config) func(context.Context, string) (gitsync.Verdict, error) {
	return func(ctx context.Context, dir string) (gitsync.Verdict, error) {
		snapshot, err := manifest.NewTree(dir).Read(ctx)
		if err != nil {
			return gitsync.Verdict{}, err
		}
		r := manifest.NewLoader(cfg, "").Load(snapshot)
		v := gitsync.Verdict{Services: len(r.Services)}
		for _, p := range manifest.Errors(r.Problems) {
			v.Errors = append(v.Errors, p.String())
		}
		return v, nil
	}
}

// once syncs, prints what is published, and gives the exit code.
func (s *syncer) once(ctx context.Context) error {
	p, err := gitsync.Sync(ctx, s.cfg, time.Now())
	s.activity.done()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.c.App.Writer, "%s: %s\n", filepath.Join(s.cfg.Dest, "current"), summary(p))
	for _, name := range p.Skipped {
		fmt.Fprintf(s.c.App.ErrWriter, "warning: %q is a submodule, and not published\n", name)
	}
	for _, finding := range p.Findings {
		fmt.Fprintln(s.c.App.ErrWriter, finding)
	}
	if p.Errors > 0 {
		fmt.Fprintf(s.c.App.ErrWriter, "%s: the agent keeps the last good versions of these objects\n", plural(p.Errors, "error"))
		return cli.Exit("", exitWarnings)
	}
	return nil
}

func summary(p gitsync.Published) string {
	text := fmt.Sprintf("commit %s, %s", p.Commit, plural(p.Services, "Service"))
	if p.Generation > 0 {
		text += fmt.Sprintf(", generation %d", p.Generation)
	}
	if p.Signer != "" {
		text += ", signed by " + p.Signer
	}
	return text
}

// goOn syncs until it's stopped, which is no error.
func (s *syncer) goOn(ctx context.Context, every time.Duration) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	gitsync.Loop(ctx, every, host, hangup, func() {
		p, err := gitsync.Sync(ctx, s.cfg, time.Now())
		s.activity.done()
		if ctx.Err() == nil {
			s.tell(p, err)
		}
	})
	return nil
}

// tell logs an outcome that differs from the last one.
func (s *syncer) tell(p gitsync.Published, err error) {
	outcome := p.Commit
	if err != nil {
		outcome += err.Error()
	}
	if outcome == s.told {
		return
	}
	s.told = outcome
	published := slog.Group("published", "commit", p.Commit, "services", p.Services, "errors", p.Errors, "signer", p.Signer)
	switch {
	case errors.As(err, new(*gitsync.Refusal)):
		s.cfg.Log.Error("refused", "error", err, published)
	case err != nil:
		s.cfg.Log.Warn("sync failed; what is published stays", "error", err, published)
	case p.Errors > 0:
		s.cfg.Log.Warn("published, with errors", "first", p.Findings[0], published)
	default:
		s.cfg.Log.Info("published", published)
	}
}
