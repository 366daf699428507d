package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"pointsman/reconcile"
	"pointsman/state/manifest"
)

// connectionMetricsFlag is of whoever writes or prints rules.
func connectionMetricsFlag() cli.Flag {
	f := boolFlag("connection-metrics", "have the kernel count connections per Service port and endpoint; =false turns it off")
	f.Value, f.DisableDefaultText = true, false
	return f
}

func connectionFlags() []cli.Flag {
	return []cli.Flag{connectionMetricsFlag(), &cli.IntFlag{
		Name: "connection-metrics-limit", EnvVars: env("connection-metrics-limit"), Value: 2000,
		Usage: "export connections as `N` series at most, those of Service ports first",
	}}
}

// uncounted tells whether connections are not to be counted.
func uncounted(c *cli.Context) (bool, error) {
	if n := c.Int("connection-metrics-limit"); n < 0 {
		return false, usage("--connection-metrics-limit: %d is no number of series", n)
	}
	return !c.Bool("connection-metrics"), nil
}

// connections keeps the totals of the connections that this host gave to
// endpoints, for metrics. The kernel counts them, agent or no agent. A nil one
// is off.
type connections struct {
	latest func() *reconcile.Input
	read   func() ([]reconcile.PairCount, error)
	path   string // of the totals between two processes
	limit  int    // of series
	log    *slog.Logger

	mu     sync.Mutex
	totals *reconcile.Totals
	taken  time.Time // the last reading
	took   time.Duration
	counts reading
}

// reading is what was read last.
type reading struct {
	ports  []reconcile.PortConnections
	v4, v6 int // pairs that the kernel counts
}

// connectionsFile keeps totals in the state directory.
const connectionsFile = "connections.json"

// connectionsBytes bounds what is read of that file: two full sets take 25 MB.
const connectionsBytes = 64 << 20

// countConnections registers the metrics, and has the agent keep their totals,
// unless it's turned off.
func (a *agent) countConnections(c *cli.Context, registry prometheus.Registerer) {
	if !c.Bool("connection-metrics") {
		return
	}
	n := &connections{latest: a.loop.Latest, read: reconcile.ReadPairCounts, path: filepath.Join(c.String("state-dir"), connectionsFile),
		limit: c.Int("connection-metrics-limit"), log: a.log}
	var err error
	if n.totals, err = readTotals(n.path); err != nil {
		a.log.Warn("the totals of connections begin with what the kernel holds", "error", err)
	}
	registry.MustRegister(newConnectionMetrics(n))
	a.connections = n
}

// readTotals reads the totals that the last process left; without them they
// begin with what the kernel holds.
func readTotals(path string) (*reconcile.Totals, error) {
	f, err := manifest.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return reconcile.NewTotals(), nil
	}
	if err != nil {
		return reconcile.NewTotals(), err
	}
	defer f.Close()
	t, err := reconcile.LoadTotals(io.LimitReader(f, connectionsBytes))
	if err != nil {
		return reconcile.NewTotals(), fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// share is how many times as long as a reading took there's none after it, so
// that scrapes of a full set, which take a second, have a twentieth of a CPU.
const share = 20

// look gives what was read lately; nothing as long as nothing is served.
func (n *connections) look(now time.Time) reading {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.taken) >= share*n.took {
		n.take(now)
	}
	return n.counts
}

// take reads the kernel, and tells apart by what is served afterwards: the
// other way round, an endpoint that came in between would be a stranger.
func (n *connections) take(now time.Time) {
	read, err := n.read()
	n.taken, n.took = now, time.Since(now)
	in := n.latest()
	if err != nil {
		n.log.Warn("the connections that the kernel counted could not be read", "error", err)
	}
	if err != nil || in == nil {
		return
	}
	n.totals.Take(now, read, in)
	n.counts = reading{ports: n.totals.Ports()}
	for _, c := range read {
		if c.Frontend.Addr().Is6() {
			n.counts.v6++
		}
	}
	n.counts.v4 = len(read) - n.counts.v6
}

// savePeriod is well below a day, after which the kernel forgets an idle pair.
const savePeriod = time.Hour

// run saves the totals now and then, and at the end, so that a restart goes on
// with them.
func (n *connections) run(ctx context.Context) error {
	if n == nil {
		return nil
	}
	tick := time.NewTicker(savePeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		n.save(time.Now())
	}
	return nil
}

func (n *connections) save(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.take(now); n.counts.ports == nil {
		return // nothing is known yet that would be worth more than what is there
	}
	if err := manifest.ReplaceFile(n.path, func(f *os.File) error { return n.totals.Save(f) }); err != nil {
		n.log.Error("the totals of connections could not be saved", "error", err)
	}
}
