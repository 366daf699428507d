package main

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// TestDrainUnitTimes: what the shutdown's unit does is over before systemd gives
// up on it, and UDP flows have gone by then.
func TestDrainUnitTimes(t *testing.T) {
	t.Parallel()
	const slack = 5 * time.Second // for a command that finds no agent
	for name, waits := range map[string]bool{"../../systemd/pointsman-drain.service": false, "../../systemd/examples/drain-wait.conf": true} {
		u := readUnit(t, name)
		var takes, grace time.Duration
		for _, line := range u["ExecStop"] {
			words := strings.Fields(strings.TrimPrefix(line, "-/usr/local/bin/pointsman "))
			switch {
			case len(words) == 0: // the unit's own are taken away
			case words[0] == "drain":
				c := drainFlags(t, words[1:])
				if grace = c.Duration("grace"); c.Bool("wait") != waits || !c.Bool("until-boot") {
					t.Errorf("%s: %s", name, line)
				}
				if waits {
					takes += grace + lookEvery + leftPatience
				}
			default: // sleep
				takes += must[time.Duration](t)(time.ParseDuration(words[len(words)-1] + "s"))
			}
		}
		limit := must[time.Duration](t)(time.ParseDuration(u.one(t, "TimeoutStopSec") + "s"))
		if takes+slack > limit || !waits && grace >= takes {
			t.Errorf("%s: it takes %v of %v; UDP flows go after %v", name, takes, limit, grace)
		}
	}
}

// drainFlags reads the command line of a drain of this node.
func drainFlags(t *testing.T, args []string) *cli.Context {
	t.Helper()
	set := flag.NewFlagSet("drain", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range drainCommand().Flags {
		if err := f.Apply(set); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Parse(args[1:]); err != nil || args[0] != "node" {
		t.Fatalf("%q: %v", args, err)
	}
	return cli.NewContext(nil, set, nil)
}
