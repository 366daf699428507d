package main

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
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
	Address   string           `json:"address"` // with port and protocol; NodePorts without an address
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
		for _, p := range judged.Problems {
			if p.Severity == manifest.Error {
				answer.Errors++
			} else {
				answer.Warnings++
			}
		}
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
		if answer.Service = serviceOf(d, name, c.source.nodeName); answer.Service == nil {
			http.Error(w, "there is no Service "+name+" that this host serves", http.StatusNotFound)
			return
		}
	}
	reply(w, answer)
}

func serviceOf(d *reconcile.Desired, name, node string) *serviceStatus {
	if d == nil {
		return nil
	}
	at := slices.IndexFunc(d.Services, func(s *state.Service) bool { return s.ObjectName.String() == name })
	if at < 0 {
		return nil
	}
	s := d.Services[at]
	out := &serviceStatus{Name: name, Frontends: []frontendStatus{}}
	for i := range s.Ports {
		p := &s.Ports[i]
		for _, f := range p.Frontends {
			eps, why := reconcile.Reach(s, p, f, reconcile.Node{Name: node, Zone: d.Zone})
			out.Frontends = append(out.Frontends, frontendStatus{change.FrontendText(f, p.Protocol), eps, why})
		}
	}
	return out
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "sum this host up, or one Service on it",
		Description: "The exit code is 0 only if the kernel is as it should be and this host isn't drained; with\n" +
			"--service only if each of its frontends also has an endpoint to go to from here. That\n" +
			"makes it a track_script for keepalived.",
		Flags:        append(getFlags(), stringFlag("service", "", "the Service `NAMESPACE/NAME` (without a namespace: default)")),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			var shown statusAnswer
			path := "/v1/status"
			if name := c.String("service"); name != "" {
				if !strings.Contains(name, "/") {
					name = "default/" + name
				}
				path += "?service=" + url.QueryEscape(name)
			}
			err := get(path, func(_ *cli.Context, a *statusAnswer) error { shown = *a; return nil }, showStatus)(c)
			if err == nil && !shown.healthy() {
				return cli.Exit("", exitError)
			}
			return err
		},
	}
}

func showStatus(w io.Writer, a *statusAnswer) {
	kernel := "as it should be since " + timeText(a.Health.LastUpdated)
	if !a.Health.Healthy {
		kernel = "not as it should be"
	}
	fmt.Fprintf(w, "node\t%s\nrelease\t%s\nserves\t%s: %d Services, %d endpoints\nkernel\t%s\n",
		a.Node, a.Release, orDash(a.Serves), a.Services, a.Endpoints, kernel)
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
		fmt.Fprintf(w, "problems\t%d errors, %d warnings (see pointsman get problems)\n", a.Errors, a.Warnings)
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
	for _, f := range a.Service.Frontends {
		text := f.Why
		if text == "" {
			var to []string
			for _, e := range f.Endpoints {
				to = append(to, e.String())
			}
			text = "to " + shortList(to)
		}
		fmt.Fprintf(w, "%s\t%s\n", f.Address, strings.TrimSpace(text))
	}
}
