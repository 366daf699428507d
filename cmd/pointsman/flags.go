package main

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/state/change"
)

// Where things are on a host.
const (
	defaultManifests = "/etc/pointsman/manifests"
	defaultStateDir  = "/var/lib/pointsman"
	defaultConfig    = "/etc/pointsman/config.yaml"
	defaultSocket    = "/run/pointsman/pointsman.sock"
)

// env gives a flag's environment variable.
func env(flag string) []string {
	return []string{"POINTSMAN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
}

func stringFlag(name, value, usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, EnvVars: env(name), Value: value, Usage: usage}
}

func listFlag(name, usage string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: name, EnvVars: env(name), Usage: usage}
}

func boolFlag(name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, EnvVars: env(name), Usage: usage, DisableDefaultText: true}
}

func durationFlag(name string, value time.Duration, usage string) *cli.DurationFlag {
	return &cli.DurationFlag{Name: name, EnvVars: env(name), Value: value, Usage: usage}
}

// choiceFlag is a flag with one of a few values, which shells complete.
type choiceFlag struct {
	*cli.StringFlag
	choices []string
}

// rangeFlags are about the addresses and ports that Services may have. They
// count wherever manifests are judged, so that CI judges as hosts do.
func rangeFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("node-port-range", "30000-32767", "the `RANGE` that NodePorts are in, both ends included"),
		listFlag("service-cidr", "a `CIDR` whose addresses belong to Services alone; what no Service has is dropped (repeatable)"),
	}
}

// nodeFlags say which node this is.
func nodeFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("node-name", "", "this node's `NAME`, as in nodeName of endpoints (default: the host name)"),
		stringFlag("zone", "", "this node's `ZONE`, where no Node manifest says it"),
		listFlag("local-cidr", "a `CIDR` of clients whose replies always come back through this host, so that they may keep their address (repeatable)"),
		listFlag("nodeport-addresses", "a `CIDR` of this host's addresses that NodePorts answer on (repeatable; default: the Node manifest's, else that of the default route)"),
	}
}

func maxRemovalFlag() cli.Flag {
	return stringFlag("max-removal", "30%", "hold a change that takes away more than this `PERCENT` of the Services, of the endpoints in use, or of the frontends of Services that stay (ten may always go)")
}

// limitsOf reads how much a single change may take away.
func limitsOf(c *cli.Context) (change.Limits, error) {
	text := c.String("max-removal")
	percent, err := strconv.ParseUint(strings.TrimSuffix(text, "%"), 10, 8)
	if err != nil || percent > 100 {
		return change.Limits{}, usage("--max-removal: %q is no percentage such as 30%%", text)
	}
	return change.Limits{Percent: int(percent), AllowEmpty: c.Bool("allow-empty")}, nil
}

func configFlag() cli.Flag {
	return stringFlag("config", "", "a YAML `FILE` that may hold all these settings (default: "+defaultConfig+" where it exists)")
}

// prefixes reads a list of CIDRs.
func prefixes(c *cli.Context, flag string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.StringSlice(flag) {
		if text = strings.TrimSpace(text); text == "" {
			continue // the variable is set, to nothing
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usage("--%s: %q is not a CIDR such as 10.96.0.0/16", flag, text)
		}
		if p.Masked() != p {
			return nil, usage("--%s: %s has host bits set; %s is meant?", flag, p, p.Masked())
		}
		if p.Addr().Is4In6() {
			return nil, usage("--%s: %s is an IPv4-mapped IPv6 range; write it as IPv4", flag, p)
		}
		out = append(out, p)
	}
	return out, nil
}

// portRange reads FIRST-LAST.
func portRange(text string) (first, last uint16, err error) {
	a, b, ok := strings.Cut(text, "-")
	x, errA := strconv.ParseUint(strings.TrimSpace(a), 10, 16)
	y, errB := strconv.ParseUint(strings.TrimSpace(b), 10, 16)
	if !ok || errA != nil || errB != nil || x == 0 || x > y {
		return 0, 0, usage("--node-port-range: %q is not a range such as 30000-32767", text)
	}
	return uint16(x), uint16(y), nil
}

// nodeName is the flag's value or the host name, in lower case.
func nodeName(c *cli.Context) (string, error) {
	name := c.String("node-name")
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("the host name is not known (%w): give --node-name", err)
		}
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}

// noArgs refuses arguments.
func noArgs(c *cli.Context) error {
	if c.NArg() > 0 {
		return usage("%s takes no arguments, yet there is %q", c.Command.Name, c.Args().First())
	}
	return nil
}
