package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"pointsman/reconcile/lab"
)

const picture = `   c 192.0.2.50 ──┬── n1 192.0.2.11 ── b1 10.20.0.11
                  ├── n2 192.0.2.12 ── b2 10.20.1.21
                  └── n3 192.0.2.13 ── b3 10.20.2.31`

// The quickstart example, as the steps use it.
var (
	clusterIP4 = netip.MustParseAddrPort("10.96.0.80:80")
	clusterIP6 = netip.MustParseAddrPort("[2001:db8:96::80]:80")
	backends   = []string{"b1", "b2", "b3"}
)

const (
	nodePort    = 30080
	newNodePort = 30090
	backendPort = 8080
)

// demo is the lab, the agents in it and the manifests that they read.
type demo struct {
	*screen
	lab       *lab.L1
	servers   []*lab.Backend
	agents    []*lab.Process
	agent     string
	dir       string // of all that the demo writes
	manifests string // a copy in dir, to be edited
}

// open builds the lab, without the agents.
func open(s *screen, agent, manifests string) (*demo, error) {
	s.title("pointsman: a client, three hosts, a backend behind each, as network namespaces", picture)
	l, err := lab.Open()
	if err != nil {
		return nil, err
	}
	d := &demo{screen: s, agent: agent, lab: l.L1(1, 1, 1)}
	for _, b := range d.lab.Backends {
		d.servers = append(d.servers, b.Serve(lab.TCP, backendPort))
	}
	err = l.Err()
	if err == nil {
		err = d.copyManifests(manifests)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *demo) copyManifests(from string) (err error) {
	if d.dir, err = os.MkdirTemp("", "pointsman-demo-"); err != nil {
		return err
	}
	d.manifests = filepath.Join(d.dir, "manifests")
	return os.CopyFS(d.manifests, os.DirFS(from))
}

// close removes the lab with its processes, and the files.
func (d *demo) close() error {
	err := d.lab.Close()
	if d.dir != "" {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}

// showLogs prints the end of what the agents printed.
func (d *demo) showLogs() {
	for i, a := range d.agents {
		d.log(fmt.Sprintf("log of the agent on n%d", i+1), a.Output())
	}
}

// startAgents starts the agent on each host. The hosts share the machine's
// files, so each gets a directory and a socket of its own; the socket by its
// variable, which an agent that has none passes over.
func (d *demo) startAgents() error {
	for _, n := range d.lab.Nodes {
		p, err := n.Start("env", "POINTSMAN_SOCKET="+d.socket(n), d.agent, "run",
			"--manifests", d.manifests, "--node-name", n.Name, "--state-dir", filepath.Join(d.dir, n.Name),
			"--healthz-listen", "", "--metrics-listen", "")
		if err != nil {
			return err
		}
		d.agents = append(d.agents, p)
	}
	return nil
}

// socket is that of the agent on a host.
func (d *demo) socket(n *lab.Host) string { return filepath.Join(d.dir, n.Name+".sock") }

// alive tells which agent has ended, if one has.
func (d *demo) alive() error {
	for i, a := range d.agents {
		select {
		case <-a.Done():
			return fmt.Errorf("the agent on n%d ended by itself: %v", i+1, a.Wait())
		default:
		}
	}
	return nil
}

// serving waits until every host serves: a host's own connections to the Service
// show it. The NodePort comes first: as long as nothing is served it refuses, while
// a connection to a ClusterIP would be in conntrack for minutes. An agent that has
// ended ends the wait.
func (d *demo) serving(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, a := range d.agents {
		go func() {
			select {
			case <-a.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	for _, n := range d.lab.Nodes {
		for _, to := range []netip.AddrPort{netip.AddrPortFrom(n.Addr4(), nodePort), clusterIP4, netip.AddrPortFrom(n.Addr6(), nodePort), clusterIP6} {
			if _, err := until(ctx, n, to, lab.OK); err != nil {
				return cmp.Or(d.alive(), err)
			}
		}
	}
	return nil
}

// edit is text of a manifest, and what it becomes.
type edit struct{ before, after string }

// change edits a manifest as editors and git do, by a new file under the old
// name, and prints what changed.
func (d *demo) change(file string, edits ...edit) error {
	path := filepath.Join(d.manifests, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(data)
	for _, e := range edits {
		if n := strings.Count(text, e.before); n != 1 {
			return fmt.Errorf("%s: %q is there %d times, not once", file, e.before, n)
		}
		text = strings.Replace(text, e.before, e.after, 1)
	}
	d.edited(file, edits)
	draft := filepath.Join(d.dir, file)
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
