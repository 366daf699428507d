package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/gossip"
)

// defaultDrain is how long a drain is in force: forgotten ones end.
const defaultDrain = 24 * time.Hour

func drainCommand() *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "have a node, an endpoint or a Service get no new connections, on all hosts of the fleet",
		ArgsUsage: "node [NAME] | endpoint ADDR[:PORT] | service NAMESPACE/NAME",
		Description: "Endpoints that are drained count as terminating: new connections go to others, as long as\n" +
			"there are any; open ones go on. Healthcheck ports and, for a node, /healthz answer 503.\n" +
			"It's known to the whole fleet, survives restarts, and ends by itself (--for) or by\n" +
			"pointsman undrain on any host. Without a NAME the node is this one.",
		Flags: []cli.Flag{
			configFlag(), socketFlag(), durationFlag("for", defaultDrain, "the `TIME` after which it ends"),
			durationFlag("grace", gossip.DefaultGrace, "the `TIME` that open connections get, as far as anything waits for them: UDP flows, which have no end, are sent elsewhere after it"),
			stringFlag("reason", "", "a `TEXT` for those who wonder"),
			boolFlag("until-boot", "of this node: it ends when the agent runs after the next boot (for a shutdown)"),
		},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			q := &drainRequest{For: c.Duration("for"), Grace: c.Duration("grace"), Reason: c.String("reason"), UntilBoot: c.Bool("until-boot")}
			if q.For <= 0 {
				return usage("--for: %v is no time", q.For)
			}
			if q.Grace < 0 {
				return usage("--grace: %v is no time", q.Grace)
			}
			return changeDrain(c, "/v1/drain", q)
		},
	}
}

func undrainCommand() *cli.Command {
	return &cli.Command{
		Name:         "undrain",
		Usage:        "end a drain, whoever set it",
		ArgsUsage:    "node [NAME] | endpoint ADDR[:PORT] | service NAMESPACE/NAME",
		Flags:        []cli.Flag{configFlag(), socketFlag()},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       func(c *cli.Context) error { return changeDrain(c, "/v1/undrain", &drainRequest{}) },
	}
}

// changeDrain reads the target and has the agent do what is asked.
func changeDrain(c *cli.Context, path string, q *drainRequest) error {
	kind, name := c.Args().Get(0), c.Args().Get(1)
	own := kind == "node" && c.NArg() == 1
	if own {
		var answer nodesAnswer
		if err := ask(c.Context, c.String("socket"), "/v1/nodes", &answer); err != nil {
			return err
		}
		name = answer.Self
	}
	switch {
	case c.NArg() > 2 || c.NArg() < 2 && !own:
		return usage("%s needs what and which: %s", c.Command.Name, c.Command.ArgsUsage)
	case q.UntilBoot && !own:
		return usage("--until-boot is for this node alone: %s node", c.Command.Name)
	}
	target, err := drainTarget(kind, name)
	if err != nil {
		return usage("%v", err)
	}
	q.Target = target.String()
	var answer drainReply
	err = call(c.Context, c.String("socket"), http.MethodPost, path, q, &answer)
	if answer.Note != "" {
		fmt.Fprintln(c.App.ErrWriter, "pointsman:", answer.Note)
	}
	return err
}
