package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/reconcile"
	"pointsman/reconcile/doctor"
	"pointsman/reconcile/host"
	"pointsman/state/manifest"
)

func doctorCommand() *cli.Command {
	flags := []cli.Flag{
		configFlag(),
		stringFlag("manifests", "", "a `DIR` of manifests to judge the host for (default: "+defaultManifests+" where it exists)"),
		stringFlag("state-dir", defaultStateDir, "the agent's state `DIR`"),
		stringFlag("healthz-listen", "0.0.0.0:10256", "where the agent has /healthz, as `ADDRESS`; \"\" doesn't ask it"),
		outputFlag("text", "json"),
		boolFlag("strict", "exit with 3 if there are warnings"),
	}
	flags = append(flags, rangeFlags()...)
	return &cli.Command{
		Name:  "doctor",
		Usage: "say what on this host will hurt Services",
		Description: "Looks at this host's kernel, sysctls, routes, bridges and at other people's rules, and\n" +
			"says of each what it means and which command cures it. It changes nothing. Give it the\n" +
			"flags, or the configuration file, that the agent has. Needs root, as the agent does.\n\n" +
			"The exit code is 1 if there is a problem, and with --strict 3 if there are only warnings.",
		Flags:        append(flags, nodeFlags()...),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       examine,
	}
}

func examine(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	format, err := outputOf(c, "text", "json")
	if err != nil {
		return err
	}
	p, err := patient(c)
	if err != nil {
		return err
	}
	findings := doctor.Examine(p)
	if format == "json" {
		err = writeJSON(c.App.Writer, findings)
	} else {
		err = writeFindings(c.App.Writer, findings)
	}
	if err != nil {
		return err
	}
	problems, warnings := 0, 0
	for _, f := range findings {
		switch f.Level {
		case doctor.Problem:
			problems++
		case doctor.Warning:
			warnings++
		}
	}
	return verdict(c, "problem", problems, warnings)
}

// writeFindings writes one line for each finding, and under it, indented, what
// it means and what to do.
func writeFindings(w io.Writer, findings []doctor.Finding) error {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.Level, f.Check, f.What)
		if f.Means != "" {
			fmt.Fprintf(&b, "         %s\n", f.Means)
		}
		for _, line := range f.Fix {
			fmt.Fprintf(&b, "             %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// patient gathers what this host is judged by. The preflight comes first: it
// has the kernel load the modules whose settings are read then, as the agent
// would.
func patient(c *cli.Context) (*doctor.Patient, error) {
	p := &doctor.Patient{Nft: nftVersion(c.Context), Preflight: reconcile.Preflight(c.Context)}
	if err := configured(c, p); err != nil {
		return nil, err
	}
	dir, err := judgedManifests(c, p)
	if err != nil {
		return nil, err
	}
	p.Facts = host.ReadFacts(doctor.Questions(p.ServiceCIDRs, p.Services, dir))
	p.Agent, err = askAgent(c)
	return p, err
}

// configured reads what the operator says of this host.
func configured(c *cli.Context, p *doctor.Patient) (err error) {
	if p.NodeName, err = nodeName(c); err != nil {
		return err
	}
	if p.NodePortFirst, p.NodePortLast, err = portRange(c.String("node-port-range")); err != nil {
		return err
	}
	if p.ServiceCIDRs, err = prefixes(c, "service-cidr"); err != nil {
		return err
	}
	if p.LocalCIDRs, err = prefixes(c, "local-cidr"); err != nil {
		return err
	}
	p.NodePortCIDRs, err = prefixes(c, "nodeport-addresses")
	return err
}

// judgedManifests reads the manifests. What is wrong with them is validate's
// business.
func judgedManifests(c *cli.Context, p *doctor.Patient) (dir string, err error) {
	dir, named := c.String("manifests"), true
	if dir == "" {
		dir, named = defaultManifests, false
	}
	cfg, err := manifestConfig(c)
	if err != nil {
		return dir, err
	}
	snapshot, err := manifest.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return dir, nil
	}
	if err != nil {
		return dir, err
	}
	r := manifest.NewLoader(cfg, "").Load(snapshot)
	p.Services, p.Manifests = r.Services, len(r.Services) > 0
	for _, n := range r.Nodes {
		p.NodeNames = append(p.NodeNames, n.Name)
		if n.Name == p.NodeName {
			p.InternalIPs = n.Addresses
		}
	}
	return dir, nil
}

// nftVersion gives the first line of what nft says of itself.
func nftVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nft", "--version").Output()
	if err != nil {
		return "no nft"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// askAgent finds out whether the agent runs, and what it says of itself.
func askAgent(c *cli.Context) (a doctor.Agent, err error) {
	lock := filepath.Join(c.String("state-dir"), lockFile)
	if a.PID, err = host.LockHolder(lock); err != nil {
		return a, fmt.Errorf("state directory: %w", err)
	}
	at := c.String("healthz-listen")
	if a.PID == 0 {
		a.Elsewhere = hostLocked()
		return a, nil
	}
	if at == "" {
		return a, nil
	}
	a.Healthz = "http://" + reachable(at) + "/healthz"
	status, code, err := getHealth(c.Context, a.Healthz)
	if err != nil {
		a.Error = err.Error()
	}
	a.Code, a.Degraded = code, status.Degraded
	return a, nil
}

// reachable turns an address to listen on into one to connect to.
func reachable(listen string) string {
	name, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if a, err := netip.ParseAddr(name); name == "" || err == nil && a.IsUnspecified() {
		name = "127.0.0.1"
		if a.Is6() {
			name = "::1"
		}
	}
	return net.JoinHostPort(name, port)
}

func getHealth(ctx context.Context, url string) (s reconcile.HealthStatus, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, 0, err
	}
	// Not through a proxy that the environment names.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return s, 0, err
	}
	defer resp.Body.Close()
	return s, resp.StatusCode, json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&s)
}
