package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"pointsman/state/event"
)

// asStuckAgent, in the environment, makes the test binary an agent whose reconcile
// loop gets stuck once somebody else changes its rules: there's no other way, for
// nothing that an agent waits for may stop it.
const asStuckAgent = "POINTSMAN_TEST_STUCK"

func stuckAgent() int {
	command := runCommand()
	command.Action = func(c *cli.Context) error {
		o, err := runOptions(c)
		if err != nil {
			return err
		}
		a, err := newAgent(c, o, slog.New(stuckLog{slog.NewTextHandler(os.Stderr, nil)}))
		if err != nil {
			return err
		}
		return a.run(c.Context)
	}
	if err := (&cli.App{Commands: []*cli.Command{command}}).Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	return 0
}

// stuckLog doesn't come back from telling of a damage, which the loop does.
type stuckLog struct{ slog.Handler }

func (l stuckLog) Handle(ctx context.Context, r slog.Record) error {
	err := l.Handler.Handle(ctx, r)
	if strings.HasPrefix(r.Message, "somebody else changed our rules") {
		select {}
	}
	return err
}

// TestStuckAgent: where the loop doesn't come back, balancers and whoever restarts
// agents are told, and systemd hears nothing more, though all else goes on.
func TestStuckAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/1", http8080, "10.20.0.11"))
	notify := filepath.Join(w.dir, "notify")
	host := &unitHost{t: t}
	conn := must[*net.UnixConn](t)(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}))
	t.Cleanup(func() { conn.Close() })
	go host.listen(conn)
	a := w.daemon(w.Nodes[0], "n1", filepath.Join(w.dir, "state"))
	self := must[string](t)(os.Executable())
	a.args = append([]string{asStuckAgent + "=1", "NOTIFY_SOCKET=" + notify, "WATCHDOG_USEC=3000000", a.args[0], self}, a.args[2:]...)
	a.start()
	a.healthy()
	eventually(t, func() error {
		if n := host.count("WATCHDOG=1"); n < 2 {
			return fmt.Errorf("%d signs of life", n)
		}
		return nil
	})
	sh(t, a.node, "nft delete element ip pointsman services { 10.96.0.20 . tcp . 80 }")
	complaints := func(n int) {
		within(t, fleetBound, func() error {
			if got := strings.Count(a.Output(), "reason=LoopStuck"); got < n {
				return fmt.Errorf("%d complaints:\n%s", got, a.Output())
			}
			return nil
		})
	}
	complaints(2)
	signs := host.count("WATCHDOG=1")
	for _, path := range []string{"healthz", "livez"} {
		code, body, err := a.get("http://127.0.0.1:10256/" + path)
		if err != nil || code != http.StatusServiceUnavailable || !strings.Contains(string(body), "the reconcile loop is stuck: ") {
			t.Errorf("/%s: %d %s %v", path, code, body, err)
		}
	}
	a.happened(event.LoopStuck, "the reconcile loop is stuck")
	complaints(4)
	if n := host.count("WATCHDOG=1"); n != signs {
		t.Errorf("%d signs of life of a loop that is stuck", n-signs)
	}
}
