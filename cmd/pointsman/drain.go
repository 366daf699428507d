package main

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
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
			"pointsman undrain on any host. Without a NAME the node is this one. What no manifest names,\n" +
			"and no host of the fleet is called, is refused, as a slip: --force drains it all the same.\n\n" +
			"--wait comes back when no connection is left on any host, with exit code 0; or after\n" +
			"--grace, with exit code 1 and what is left. Connections are counted by the host that gave\n" +
			"them to the endpoint, so none is counted twice; those that reach it past its Services are\n" +
			"not. Whatever ends the command, the drain stays.\n\n" +
			"UDP flows have no end: those to a drained endpoint go to others after --grace, if others\n" +
			"are left. A file named ADDR or ADDR:PORT in the state directory's maintenance directory\n" +
			"drains an endpoint without a command, as long as it's there.",
		Flags: []cli.Flag{
			configFlag(), socketFlag(), durationFlag("for", defaultDrain, "the `TIME` after which it ends"),
			durationFlag("grace", gossip.DefaultGrace, "the `TIME` that open connections get: UDP flows go elsewhere after it, and --wait gives up"),
			boolFlag("wait", "wait until no connection is left, or until --grace is over"),
			stringFlag("reason", "", "a `TEXT` for those who wonder"),
			boolFlag("force", "also what nothing here is: a host that isn't there yet, or an endpoint that is about to be pushed"),
			boolFlag("until-boot", "of this node: it ends when the agent runs after the next boot (for a shutdown)"),
		},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       drain,
	}
}

func drain(c *cli.Context) error {
	q := &drainRequest{For: c.Duration("for"), Grace: c.Duration("grace"), Reason: c.String("reason"), UntilBoot: c.Bool("until-boot"), Force: c.Bool("force")}
	if q.For <= 0 {
		return usage("--for: %v is no time", q.For)
	}
	if q.Grace < 0 {
		return usage("--grace: %v is no time", q.Grace)
	}
	if err := changeDrain(c, "/v1/drain", q); err != nil || !c.Bool("wait") {
		return err
	}
	return newWaiter(c.String("socket"), q.Target, q.Grace, c.App.ErrWriter).wait(c.Context)
}

func undrainCommand() *cli.Command {
	return &cli.Command{
		Name:      "undrain",
		Usage:     "end a drain, whoever set it",
		ArgsUsage: "node [NAME] | endpoint ADDR[:PORT] | service NAMESPACE/NAME",
		Description: "What isn't drained is no error, so that it may be said twice. A drain that a file in a host's\n" +
			"maintenance directory asks for is: the file is to be removed, and it's told where. A file that\n" +
			"asks for it beside a command shows itself within seconds, which is waited for.",
		Flags: []cli.Flag{configFlag(), socketFlag(),
			boolFlag("until-boot", "of this node: only what drain --until-boot has set (for the start after a shutdown)")},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			return changeDrain(c, "/v1/undrain", &drainRequest{UntilBoot: c.Bool("until-boot")})
		},
	}
}

// changeDrain reads the target, which it puts into the request, and has the agent
// do what is asked.
func changeDrain(c *cli.Context, path string, q *drainRequest) error {
	kind, name := c.Args().Get(0), c.Args().Get(1)
	isThis := kind == "node" && c.NArg() == 1
	if isThis || kind == "node" && q.UntilBoot {
		var answer nodesAnswer
		if err := ask(c.Context, c.String("socket"), "/v1/nodes", &answer); err != nil {
			return err
		}
		isThis = isThis || strings.EqualFold(name, answer.Self)
		name = cmp.Or(name, answer.Self)
	}
	switch {
	case c.NArg() > 2 || name == "":
		return usage("%s needs what and which: %s", c.Command.Name, c.Command.ArgsUsage)
	case q.UntilBoot && !isThis:
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
