package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/reconcile/host"
	"pointsman/state/change"
	"pointsman/state/event"
	"pointsman/state/manifest"
)

func runCommand() *cli.Command {
	flags := []cli.Flag{
		configFlag(),
		stringFlag("manifests", defaultManifests, "the `DIR` of Service and EndpointSlice manifests"),
		stringFlag("state-dir", defaultStateDir, "a `DIR` for what must outlive a restart"),
		socketFlag(),
		durationFlag("resync", 30*time.Second, "the `PERIOD` in which it's checked that nothing was missed"),
		boolFlag("allow-empty", "let a directory without any Service take all rules away, if --max-removal does"),
		maxRemovalFlag(),
		stringFlag("healthz-listen", "0.0.0.0:10256", "`ADDRESS` of /healthz and /livez; \"\" turns it off"),
		stringFlag("metrics-listen", "127.0.0.1:10249", "`ADDRESS` of /metrics; \"\" turns it off"),
	}
	flags = append(flags, socketFlags()...)
	flags = append(flags, rangeFlags()...)
	flags = append(flags, nodeFlags()...)
	flags = append(flags, fleetFlags()...)
	flags = append(flags, connectionFlags()...)
	return &cli.Command{
		Name:  "run",
		Usage: "serve the Services of a directory on this host",
		Description: "Watches the directory, and keeps this host's nftables equal to what its manifests\n" +
			"mean. It is never in the path of a packet: stopping it, even with kill -9, leaves the\n" +
			"rules in place, and starting it again changes only what is different by then.\n" +
			"Needs root or CAP_NET_ADMIN. SIGHUP has the directory read at once.\n\n" +
			"Every flag has an environment variable, and may stand in the configuration file.",
		Flags:        append(flags, logFlags()...),
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       run,
	}
}

// agent is what run puts together.
type agent struct {
	log     *slog.Logger
	events  *event.Log
	health  *reconcile.Health
	watcher *manifest.Watcher
	source  *source
	fleet   *gossip.Agent
	addrs   *host.Watcher
	checks  *reconcile.HealthServers
	loop    *reconcile.Loop
	flows   *reconcile.Conntracker
	servers []*server
	members bell // news of the fleet
	left    *remaining
	files   *maintenance

	connections *connections
	rules       *rulesFile
}

func run(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	busy := newActivity(c)
	defer busy.aside()()
	defer busy.done()
	log, flush, err := newLog(c, busy.above(c.App.ErrWriter))
	if err != nil {
		return err
	}
	defer flush()
	o, err := runOptions(c)
	if err != nil {
		return err
	}
	o.busy, o.loop.Progress = busy, busy.programming
	if err := dropAmbient(); err != nil {
		return err
	}
	if err := reconcile.Preflight(c.Context); err != nil {
		return fmt.Errorf("this host can't run pointsman: %w", err)
	}
	unlock, err := lockState(c.String("state-dir"))
	if err != nil {
		return err
	}
	defer unlock()
	unlockHost, err := lockHost()
	if err != nil {
		return err
	}
	defer unlockHost()
	a, err := newAgent(c, o, log)
	if err != nil {
		return err
	}
	defer tuneGC()()
	busy.say("reading %s", c.String("manifests"))
	return a.run(c.Context)
}

// options are flags whose values can be wrong.
type options struct {
	judging manifest.Config
	limits  change.Limits
	loop    reconcile.Config
	fleet   gossip.Config
	socket  socketRights

	busy *activity
}

// runOptions judges the command line before anything is touched: who mistypes a
// flag isn't to be told that root is missing.
func runOptions(c *cli.Context) (o options, err error) {
	o.loop.Resync, o.loop.FullResync = c.Duration("resync"), fullResync
	if o.loop.Resync <= 0 {
		return o, usage("--resync: %v is no period", o.loop.Resync)
	}
	for _, flag := range []string{"healthz-listen", "metrics-listen"} {
		if _, _, err := net.SplitHostPort(c.String(flag)); c.String(flag) != "" && err != nil {
			return o, usage("--%s: %q is not an address such as 127.0.0.1:10256", flag, c.String(flag))
		}
	}
	if o.judging, err = manifestConfig(c); err != nil {
		return o, err
	}
	if o.limits, err = limitsOf(c); err != nil {
		return o, err
	}
	o.loop.ServiceCIDRs = o.judging.ServiceCIDRs
	if o.loop.LocalCIDRs, err = prefixes(c, "local-cidr"); err != nil {
		return o, err
	}
	for _, local := range o.loop.LocalCIDRs {
		if i := slices.IndexFunc(o.loop.ServiceCIDRs, local.Overlaps); i >= 0 {
			return o, usage("--local-cidr %s overlaps --service-cidr %s: no client has an address of a Service", local, o.loop.ServiceCIDRs[i])
		}
	}
	if o.loop.NodePortCIDRs, err = prefixes(c, "nodeport-addresses"); err != nil {
		return o, err
	}
	if o.loop.NodeName, err = nodeName(c); err != nil {
		return o, err
	}
	if o.socket, err = socketRightsOf(c); err != nil {
		return o, err
	}
	if o.loop.Uncounted, err = uncounted(c); err != nil {
		return o, err
	}
	o.fleet, err = fleetConfig(c, o.loop.NodeName)
	return o, err
}

func newAgent(c *cli.Context, o options, log *slog.Logger) (a *agent, err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a = &agent{events: event.NewLog(o.loop.NodeName, event.Most), health: &reconcile.Health{}}
	log = slog.New(&event.Tap{Level: slog.LevelInfo, Take: a.events.Take, Next: log.Handler()})
	a.log = log
	a.left = &remaining{node: o.loop.NodeName}
	o.fleet.Answer = a.left.answer
	if a.fleet, err = newFleet(o.fleet, log); err != nil {
		return nil, err
	}
	registry.MustRegister(newFleetMetrics(a.fleet), newSyncMetrics(c.String("manifests")), a.health.Collector())
	a.watcher = manifest.NewWatcher(c.String("manifests"), manifest.WatchOptions{Log: log,
		Waits: func(since time.Time) { a.health.Waits(reconcile.ManifestFiles, since) }})
	a.source = newSource(c, o, log)
	a.source.watcher, a.source.health, a.source.fleet = a.watcher, a.health, a.fleet
	a.source.metrics, a.source.kept = newManifestMetrics(registry, a.watcher), newKeptWatch(registry)
	registry.MustRegister(newServedMetrics(a.source.Latest, o.loop.NodeName))
	if a.addrs, err = host.NewWatcher(addressesSettle, log); err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	a.rules = newRulesFile(c.String("state-dir"), log)
	if err := a.newLoop(o.loop, registry); err != nil {
		return nil, err
	}
	a.countConnections(c, registry)
	a.left.fleet, a.left.count = a.fleet, a.flows.Remaining
	a.files = &maintenance{dir: filepath.Join(c.String("state-dir"), maintenanceDir), node: o.loop.NodeName, fleet: a.fleet, health: a.health, log: log}
	a.servers = []*server{
		{name: "healthz", addr: c.String("healthz-listen"), open: listenTCP, handler: healthHandler(a.health, registry)},
		{name: "metrics", addr: c.String("metrics-listen"), open: listenTCP, handler: metricsHandler(registry)},
		{name: "control socket", addr: c.String("socket"), open: o.socket.listen, handler: a.control(o.socket.group).handler()},
	}
	for _, s := range a.servers {
		s.log, s.health = log, a.health
	}
	return a, nil
}

func (a *agent) control(group int) *control {
	return &control{group: group, events: a.events, started: timeText(time.Now()), source: a.source, fleet: a.fleet, health: a.health, loop: a.loop, members: &a.members, left: a.left,
		lists: newTurnstile(), words: newTurnstile(), reasons: newTurnstile()}
}

// addressesSettle is the time that a burst of changes of addresses gets.
const addressesSettle = 100 * time.Millisecond

// fullResync is the period in which everything is read back from the kernel.
const fullResync = time.Hour

func (a *agent) newLoop(cfg reconcile.Config, registry prometheus.Registerer) (err error) {
	a.checks = reconcile.NewHealthServers(a.log, a.health)
	cfg.Log, cfg.Metrics, cfg.Health, cfg.HealthChecks = a.log, reconcile.NewMetrics(registry), a.health, a.checks
	cfg.Triggers = &a.source.triggers
	if _, refused := reconcile.SafeServiceCIDRs(cfg.ServiceCIDRs, a.addrs.Latest(), nil); len(refused) > 0 {
		return errors.New("dropping the addresses of a service range would lock somebody out: " + strings.Join(refused, "; "))
	}
	a.flows = reconcile.NewConntracker(cfg.Resync, a.log, a.health, registry)
	cfg.Conntrack = a.flows
	cfg.Rules, cfg.RulesWritten = a.rules.read(), a.rules.written
	cfg.NodePortsMoved = a.source.news.ring
	a.health.News(a.source.news.ring)
	a.loop, err = reconcile.NewLoop(cfg, a.source, a.addrs)
	return err
}

// run runs the parts side by side until ctx ends or one of them fails. The
// rules stay in place.
func (a *agent) run(ctx context.Context) error {
	notifier, err := newNotifier(a)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, task := range []func(context.Context) error{
		a.watcher.Run, a.source.run, a.addrs.Run, a.loop.Journal().Run, a.loop.Run, a.flows.Run, a.checks.Run, a.files.run, a.connections.run, a.rules.run,
		a.fleet.Run, reportFleet(a.fleet, a.health, &a.members), notifier.run,
		func(ctx context.Context) error { return a.reloadOnHangup(ctx, notifier) },
	} {
		g.Go(func() error { return task(ctx) })
	}
	for _, s := range a.servers {
		g.Go(func() error { return s.run(ctx) })
	}
	a.log.Info("pointsman started", "reason", event.Started, "version", versionText(), "pid", os.Getpid())
	err = g.Wait()
	a.log.Info("pointsman stopped; the rules stay in place", "reason", event.Stopped)
	return err
}

func (a *agent) reloadOnHangup(ctx context.Context, n *notifier) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
			n.reloading()
			a.watcher.Reload()
		}
	}
}

// maxScrapes is how many are answered at the same time. Each may cost as much as the
// one before.
const maxScrapes = 5

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	return mux
}
