package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"pointsman/reconcile"
	"pointsman/state/event"
)

// notifier tells the service manager how this agent fares (sd_notify(3)). Under
// another one, or under none, it tells nobody.
type notifier struct {
	log      *slog.Logger
	send     func(state string) (told bool, err error)
	watchdog time.Duration // 0: nobody waits for signs of life

	first  <-chan struct{}            // closed at the first programming
	alive  func(now time.Time) bool   // the reconcile loop isn't stuck
	status func(now time.Time) string // one line for those who ask systemctl
	said   string
	reload chan time.Time             // capacity 1: when a reload was asked for
	reread func(since time.Time) bool // the manifests have been read since a time
}

// newNotifier takes what systemd says from the environment.
func newNotifier(a *agent) (*notifier, error) {
	n := &notifier{
		log: a.log, send: func(state string) (bool, error) { return sd.SdNotify(false, state) },
		first: a.health.First(), alive: a.loop.Alive, status: a.statusLine, reload: make(chan time.Time, 1),
		reread: func(since time.Time) bool { return a.watcher.Status().LastRead.After(since) },
	}
	var err error
	if n.watchdog, err = sd.SdWatchdogEnabled(false); err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	return n, nil
}

// The periods of the notifier. A reload counts as over when the directory was
// read, or after reloadTime: that it can't be read is no reason to stop serving,
// and status says it.
const (
	statusPeriod = 2 * time.Second
	reloadPeriod = 50 * time.Millisecond
	reloadTime   = 10 * time.Second
)

// run notifies until ctx ends.
func (n *notifier) run(ctx context.Context) error {
	if told, err := n.send("STATUS=reading the manifests"); err != nil || !told {
		if err != nil {
			n.log.Error("the service manager can't be told anything", "error", err)
		}
		return nil
	}
	life := time.NewTicker(n.period())
	defer life.Stop()
	reload := time.NewTicker(reloadPeriod)
	reload.Stop()
	first, reloadBegan := n.first, time.Time{}
	for {
		select {
		case <-ctx.Done():
			n.tell(sd.SdNotifyStopping)
			return nil
		case <-first:
			first = nil
			n.tell(sd.SdNotifyReady)
			n.sum(time.Now())
		case asked := <-n.reload:
			if first != nil {
				continue // what is read now is what the first programming serves
			}
			reloadBegan = asked
			// Type=notify-reload, of systemd 253, wants the time; Debian 12 has 252.
			n.tell(sd.SdNotifyReloading + "\n" + sd.SdNotifyMonotonicUsec())
			reload.Reset(reloadPeriod)
		case <-reload.C:
			if n.reread(reloadBegan) || time.Since(reloadBegan) > reloadTime {
				reload.Stop()
				n.tell(sd.SdNotifyReady)
			}
		case <-life.C:
			n.live(time.Now(), first == nil)
			n.sum(time.Now())
		}
	}
}

// reloading notes that a reload is about to begin.
func (n *notifier) reloading() {
	select {
	case n.reload <- time.Now():
	default:
	}
}

// period is that of the signs of life: three of them before the manager loses
// patience.
func (n *notifier) period() time.Duration {
	if n.watchdog == 0 {
		return statusPeriod
	}
	return min(statusPeriod, n.watchdog/3)
}

// extension asks for time to start in. While there's nothing to serve an agent
// isn't ready; ending it would not bring the manifests.
const extension = "EXTEND_TIMEOUT_USEC=30000000"

// live gives a sign of life if the loop does: one from this goroutine alone
// would say nothing of it. The manager restarts an agent that gives none, which
// no connection notices.
func (n *notifier) live(now time.Time, ready bool) {
	switch {
	case !n.alive(now):
		n.log.Error("the reconcile loop is stuck", "reason", event.LoopStuck)
	case !ready:
		n.tell(extension)
	case n.watchdog > 0:
		n.tell(sd.SdNotifyWatchdog)
	}
}

// sum tells the status if it's another one.
func (n *notifier) sum(now time.Time) {
	if text := n.status(now); text != n.said {
		n.said = text
		n.tell("STATUS=" + text)
	}
}

// tell sends a state. The manager may restart, so an error isn't the end.
func (n *notifier) tell(state string) {
	if _, err := n.send(state); err != nil {
		n.log.Error("the service manager can't be told", "error", err)
	}
}

// statusLine sums the agent up for systemctl status.
func (a *agent) statusLine(now time.Time) string {
	d, s := a.source.Latest(), a.health.Status(now)
	text := "nothing to serve yet"
	if d != nil {
		text = fmt.Sprintf("serving %s with %s", plural(len(d.Services), "Service"), plural(endpoints(d.Services), "endpoint"))
	}
	return text + troubles(s)
}

func troubles(s reconcile.HealthStatus) string {
	switch n := len(s.Degraded); {
	case s.Drained && n == 0:
		return "; drained"
	case n == 1:
		return "; " + s.Degraded[0]
	case n > 1:
		return fmt.Sprintf("; %s (and %d more, see pointsman status)", s.Degraded[0], n-1)
	}
	return ""
}
