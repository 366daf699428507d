package main

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/change"
	"pointsman/state/gitsync"
	"pointsman/state/manifest"
)

// statusAnswer sums this host up.
type statusAnswer struct {
	Node      string                 `json:"node"`
	Release   string                 `json:"release"`
	Serves    string                 `json:"serves"` // a hash of the manifests
	Commit    string                 `json:"commit,omitempty"`
	Services  int                    `json:"services"`
	Endpoints int                    `json:"endpoints"`
	Health    reconcile.HealthStatus `json:"health"`
	Alone     bool                   `json:"alone,omitempty"`
	Alive     int                    `json:"alive"` // members, this host among them
	Known     int                    `json:"known"`
	Errors    int                    `json:"errors"` // of the manifests
	Warnings  int                    `json:"warnings"`
	Sync      *gitsync.Status        `json:"sync,omitempty"` // where the manifests are what pointsman sync published
	Held      *heldAnswer            `json:"held,omitempty"`
	Service   *serviceStatus         `json:"service,omitempty"`
}

// serviceStatus is what becomes of connections to a Service by way of this
// host.
type serviceStatus struct {
	Name      string           `json:"name"`
	Frontends []frontendStatus `json:"frontends"`
}

type frontendStatus struct {
	Address   string           `json:"address"`      // with port and protocol; of NodePorts the number and family
	On        []netip.Addr     `json:"on,omitempty"` // of NodePorts: the addresses of this host that they answer on
	Endpoints []netip.AddrPort `json:"endpoints,omitempty"`
	Why       string           `json:"why,omitempty"` // there are none
}

// healthy reports whether the host, or the Service on it, is as it should be.
func (a *statusAnswer) healthy() bool {
	if !a.Health.Healthy || a.Health.Drained {
		return false
	}
	return a.Service == nil || !slices.ContainsFunc(a.Service.Frontends, func(f frontendStatus) bool { return f.Why != "" })
}

func (c *control) status(w http.ResponseWriter, r *http.Request) {
	s := c.fleet.Status()
	answer := statusAnswer{Node: c.source.nodeName, Release: versionText(), Health: c.health.Status(time.Now()),
		Alone: s.Alone, Alive: max(1, s.View.Alive()), Known: max(1, s.Known)}
	if judged := c.source.judged.Load(); judged != nil {
		answer.Errors = len(manifest.Errors(judged.Problems))
		answer.Warnings = len(judged.Problems) - answer.Errors
	}
	if f := c.source.inForce.Load(); f != nil {
		answer.Serves, answer.Commit, answer.Held = readServes(f.text()).state(), f.state.Commit, heldOf(f.held)
	}
	d := c.source.latest.Load()
	if d != nil {
		answer.Services, answer.Endpoints = len(d.Services), endpoints(d.Services)
	}
	var err error
	if answer.Sync, err = syncStatus(c.source.dir); err != nil {
		answer.Health.Degraded = append(answer.Health.Degraded, "sync: "+err.Error())
	}
	if name := r.URL.Query().Get("service"); name != "" {
		if answer.Service = c.serviceOf(d, name); answer.Service == nil {
			http.Error(w, "there is no Service "+name+" that this host serves", http.StatusNotFound)
			return
		}
	}
	reply(w, answer)
}

func (c *control) serviceOf(d *reconcile.Desired, name string) *serviceStatus {
	if d == nil {
		return nil
	}
	at := slices.IndexFunc(d.Services, func(s *state.Service) bool { return s.ObjectName.String() == name })
	if at < 0 {
		return nil
	}
	s, out := d.Services[at], &serviceStatus{Name: name, Frontends: []frontendStatus{}}
	on, known := c.nodePortAddresses()
	for i := range s.Ports {
		p := &s.Ports[i]
		for _, f := range p.Frontends {
			eps, why := reconcile.Reach(s, p, f, reconcile.Node{Name: c.source.nodeName, Zone: d.Zone})
			status := frontendStatus{Address: change.FrontendText(f, p.Protocol), Endpoints: eps, Why: why}
			if f.Kind == state.NodePort && known {
				status.On = ofFamily(on, f.Address.Is6())
				if len(status.On) == 0 {
					continue // this host has no such address, as most have none by IPv6
				}
			}
			out.Frontends = append(out.Frontends, status)
		}
	}
	return out
}

// nodePortAddresses gives the addresses of this host that NodePorts answer on,
// once they are known.
func (c *control) nodePortAddresses() (addrs []netip.Addr, known bool) {
	in := c.loop.Latest()
	if in == nil {
		return nil, false
	}
	return in.NodePortAddresses, true
}

func ofFamily(addrs []netip.Addr, ipv6 bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is6() != ipv6 })
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "sum this host up, or one Service on it",
		Description: "The exit code is 0 only if the kernel is as it should be and this host isn't drained; with\n" +
			"--service only if each of its frontends also has an endpoint to go to from here. That\n" +
			"makes it a track_script for keepalived. NodePorts are told with the addresses of this host that\n" +
			"they answer on; by a family that they don't answer by here, they aren't told.",
		Flags: []cli.Flag{configFlag(), socketFlag(), outputFlag(statusFormats...),
			stringFlag("service", "", "the Service `NAMESPACE/NAME` (without a namespace: default)")},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       status,
	}
}

var statusFormats = []string{"text", "json", "yaml"}

func status(c *cli.Context) error {
	if c.NArg() > 0 {
		return usage("status takes no arguments, yet there is %q; one Service is --service NAMESPACE/NAME", c.Args().First())
	}
	format, err := outputOf(c, statusFormats...)
	if err != nil {
		return err
	}
	path := "/v1/status"
	if name := c.String("service"); name != "" {
		if !strings.Contains(name, "/") {
			name = "default/" + name
		}
		path += "?service=" + url.QueryEscape(name)
	}
	var a statusAnswer
	if err := ask(c.Context, c.String("socket"), path, &a); err != nil {
		return err
	}
	if format == "text" {
		w := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
		showStatus(w, &a)
		err = w.Flush()
	} else {
		err = writeAs(format, c.App.Writer, &a)
	}
	if err == nil && !a.healthy() {
		return cli.Exit("", exitError)
	}
	return err
}

func showStatus(w io.Writer, a *statusAnswer) {
	kernel := "as it should be (last sync " + timeText(a.Health.LastUpdated) + ")"
	if !a.Health.Healthy {
		kernel = "not as it should be"
	}
	fmt.Fprintf(w, "node\t%s\nrelease\t%s\nserves\t%s: %s, %s\nkernel\t%s\n",
		a.Node, a.Release, orDash(a.Serves), plural(a.Services, "Service"), plural(a.Endpoints, "endpoint"), kernel)
	if a.Commit != "" {
		fmt.Fprintf(w, "commit\t%s\n", a.Commit)
	}
	showSync(w, a.Sync)
	switch {
	case a.Alone:
		fmt.Fprintf(w, "fleet\tthis host alone\n")
	default:
		fmt.Fprintf(w, "fleet\t%d of %d hosts alive\n", a.Alive, a.Known)
	}
	if a.Health.Drained {
		fmt.Fprintln(w, "drained\tthis host (see pointsman get drains)")
	}
	if a.Errors+a.Warnings > 0 {
		fmt.Fprintf(w, "problems\t%s, %s (see pointsman get problems)\n", plural(a.Errors, "error"), plural(a.Warnings, "warning"))
	}
	if a.Held != nil {
		for _, l := range a.Held.lines() {
			fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
		}
	}
	for _, d := range a.Health.Degraded {
		fmt.Fprintf(w, "trouble\t%s\n", d)
	}
	if a.Service == nil {
		return
	}
	for i := range a.Service.Frontends {
		f := &a.Service.Frontends[i]
		fmt.Fprintf(w, "%s\t%s\n", f.Address, f.text())
	}
}

// text says where connections to a frontend go.
func (f *frontendStatus) text() string {
	text := f.Why
	if text == "" {
		text = "to " + shortList(textsOf(f.Endpoints))
	}
	if len(f.On) > 0 {
		text += fmt.Sprintf(" (answers on %s)", strings.Join(textsOf(f.On), ", "))
	}
	return text
}
