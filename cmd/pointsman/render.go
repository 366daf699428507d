package main

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/urfave/cli/v2"

	"pointsman/reconcile"
	"pointsman/reconcile/nft"
	"pointsman/state"
	"pointsman/state/manifest"
)

func renderCommand() *cli.Command {
	flags := []cli.Flag{
		configFlag(),
		listFlag("address", "an `ADDRESS` of the node, which NodePorts answer on (repeatable; default: the Node manifest's)"),
		stringFlag("health", "", "a YAML `FILE` of what the fleet is supposed to have seen: down: [ADDR:PORT, ...] and drains: [node NAME, ...]"),
	}
	flags = append(flags, rangeFlags()...)
	flags = append(flags, nodeFlags()...)
	flags = append(flags, connectionMetricsFlag())
	return &cli.Command{
		Name:      "render",
		Usage:     "print the nftables rules that a node would hold",
		ArgsUsage: "DIR",
		Description: "Prints, as commands that nft -f reads, the tables that the manifests mean on a node.\n" +
			"It needs neither root nor a kernel, so that a change can be looked at before it's pushed.\n" +
			"What is wrong with the manifests goes to standard error, and what is right is rendered.\n\n" +
			"Without --health every endpoint is as its manifest declares it. With it the rules are those\n" +
			"of a fleet that has seen some endpoints down, or drains some:\n\n" +
			"   down: [10.20.0.11:8080, 10.20.0.12]\n" +
			"   drains: [node n2, endpoint 10.20.0.13, service shop/web]",
		Flags:        flags,
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       render,
	}
}

func render(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage("render needs one directory; see pointsman render --help")
	}
	cfg, err := manifestConfig(c)
	if err != nil {
		return err
	}
	busy := newActivity(c)
	defer busy.done()
	busy.say("reading %s", c.Args().First())
	snapshot, err := manifest.ReadDir(c.Args().First())
	if err != nil {
		return err
	}
	busy.say("rendering %s: %s files", c.Args().First(), grouped(len(snapshot.Files)))
	r := manifest.NewLoader(cfg, "").Load(snapshot)
	in, err := renderInput(c, r)
	if err != nil {
		return err
	}
	in.Uncounted = !c.Bool("connection-metrics")
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		rules := nft.Render(reconcile.NewPlanner(f).Plan(in, nil))
		busy.done()
		if _, err := fmt.Fprint(c.App.Writer, rules); err != nil {
			return err // half a ruleset may load
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintln(c.App.ErrWriter, p)
	}
	if manifest.HasErrors(r.Problems) {
		return cli.Exit("", exitError)
	}
	return nil
}

// renderInput is what the agent would plan from, with the node's addresses
// from the flags or its Node manifest instead of the kernel.
func renderInput(c *cli.Context, r *manifest.Result) (*reconcile.Input, error) {
	name, err := nodeName(c)
	if err != nil {
		return nil, err
	}
	in := &reconcile.Input{Services: servedBy(r.Services, name), Node: reconcile.Node{Name: name, Zone: c.String("zone")}}
	if path := c.String("health"); path != "" {
		health, err := readSupposed(path, in.Services)
		if err != nil {
			return nil, fmt.Errorf("--health: %w", err)
		}
		in.Services = state.Overlay(in.Services, health)
	}
	if in.ServiceCIDRs, err = prefixes(c, "service-cidr"); err != nil {
		return nil, err
	}
	if in.LocalCIDRs, err = prefixes(c, "local-cidr"); err != nil {
		return nil, err
	}
	for _, text := range c.StringSlice("address") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, usage("--address: %q is not an IP address", text)
		}
		in.Addresses = append(in.Addresses, a.Unmap())
	}
	for _, n := range r.Nodes {
		if n.Name == name && len(in.Addresses) == 0 {
			in.Addresses = slices.Clone(n.Addresses)
		}
		if n.Name == name && n.Zone != "" {
			in.Node.Zone = n.Zone
		}
	}
	only, err := prefixes(c, "nodeport-addresses")
	if err != nil {
		return nil, err
	}
	in.NodePortAddresses = slices.DeleteFunc(slices.Clone(in.Addresses), func(a netip.Addr) bool {
		return len(only) > 0 && !slices.ContainsFunc(only, func(p netip.Prefix) bool { return p.Contains(a) })
	})
	return in, nil
}
