package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/gossip"
	"pointsman/state/manifest"
)

// fleetFlags say how this host takes part in the fleet.
func fleetFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("gossip-bind", "", "the `ADDRESS` of this host, with or without :PORT (7946), at which the hosts of the fleet talk; without it the host works alone"),
		stringFlag("gossip-advertise", "", "the `ADDRESS` at which the others reach it, where that isn't --gossip-bind"),
		listFlag("gossip-join", "a `HOST`[:PORT] to look for the fleet at, beside those of Node manifests (repeatable)"),
		stringFlag("gossip-keyring", "", "a `FILE` of base64 keys of 32 bytes, one a line; the first encrypts (see pointsman keygen)"),
		boolFlag("gossip-insecure", "gossip without a keyring, so that whoever reaches the port can switch off Services"),
		stringFlag("fleet", "", "the `NAME` of the fleet; hosts of another one are not listened to"),
		boolFlag("allow-exec-probes", "run the commands of exec probes on this host"),
	}
}

// fleetConfig reads the flags.
func fleetConfig(c *cli.Context, node string) (cfg gossip.Config, err error) {
	cfg.NodeName, cfg.StateDir, cfg.Fleet = node, c.String("state-dir"), c.String("fleet")
	cfg.KeyringFile, cfg.Insecure = c.String("gossip-keyring"), c.Bool("gossip-insecure")
	cfg.Join, cfg.AllowExec, cfg.Release = c.StringSlice("gossip-join"), c.Bool("allow-exec-probes"), versionText()
	bind, advertise := c.String("gossip-bind"), c.String("gossip-advertise")
	if bind == "" {
		for _, name := range []string{"gossip-advertise", "gossip-join", "gossip-keyring", "fleet"} {
			if c.IsSet(name) {
				return cfg, usage("--%s has no meaning without --gossip-bind", name)
			}
		}
		return cfg, nil
	}
	if cfg.Bind, err = gossip.ParseBind(bind); err != nil {
		return cfg, usage("--gossip-bind: %v", err)
	}
	switch {
	case cfg.KeyringFile != "" && cfg.Insecure:
		return cfg, usage("--gossip-insecure has no meaning with --gossip-keyring")
	case cfg.KeyringFile == "" && !cfg.Insecure && !cfg.Bind.Addr().IsLoopback():
		return cfg, usage("--gossip-bind %s needs --gossip-keyring FILE (see pointsman keygen): without one, whoever reaches the port can switch off every Service; --gossip-insecure does without", bind)
	}
	if advertise != "" {
		if cfg.Advertise, err = netip.ParseAddr(advertise); err != nil {
			return cfg, usage("--gossip-advertise: %q is no IP address", advertise)
		}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return cfg, fmt.Errorf("boot id: %w", err)
	}
	cfg.BootID = strings.TrimSpace(string(boot))
	return cfg, nil
}

// newFleet makes this host's part in the fleet.
func newFleet(cfg gossip.Config, log *slog.Logger) (*gossip.Agent, error) {
	cfg.Log = log
	return gossip.NewAgent(cfg)
}

// peersOf gives the hosts that may be members: exactly those with a Node
// manifest, if there are any.
func peersOf(nodes []manifest.Node) []gossip.Peer {
	var peers []gossip.Peer
	for _, n := range nodes {
		peers = append(peers, gossip.Peer{Name: n.Name, Addresses: n.Addresses})
	}
	return peers
}
