package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile"
	"pointsman/reconcile/lab"
)

// daemon is the real binary at work on a node.
type daemon struct {
	*lab.Process
	t     *testing.T
	node  *lab.Host
	state string
	args  []string
}

// agents starts the agent on every node and waits until all serve.
func (w *world) agents(flags ...string) {
	w.t.Helper()
	var all []*daemon
	for _, n := range w.Nodes {
		all = append(all, w.begin(n, flags...))
	}
	for _, a := range all {
		a.healthy()
	}
}

// agent starts the agent on a node and waits until it serves.
func (w *world) agent(node *lab.Host, flags ...string) *daemon {
	w.t.Helper()
	a := w.begin(node, flags...)
	a.healthy()
	return a
}

// begin starts the agent on a node. Flags that begin with a slash are a
// directory to look for commands in first.
func (w *world) begin(node *lab.Host, flags ...string) *daemon {
	w.t.Helper()
	a := w.daemon(node, node.Name, filepath.Join(w.dir, "state-"+node.Name), flags...)
	a.start()
	return a
}

// daemon makes an agent of a node by a name, which isn't started yet.
func (w *world) daemon(node *lab.Host, name, state string, flags ...string) *daemon {
	a := &daemon{t: w.t, node: node, state: state}
	a.args = []string{"PATH=" + os.Getenv("PATH"), "pointsman", "run", "--manifests", w.manifests, "--state-dir", a.state,
		"--socket", a.socket(), "--node-name", name}
	if len(flags) > 0 && strings.HasPrefix(flags[0], "/") {
		a.args[0], flags = "PATH="+flags[0]+":"+os.Getenv("PATH"), flags[1:]
	}
	a.args = append(a.args, flags...)
	w.t.Cleanup(func() {
		if a.Process != nil && strings.Contains(a.Output(), "DATA RACE") {
			w.t.Errorf("%s:\n%s", a, a.Output())
		}
	})
	return a
}

// socket is the agent's control socket. The name of a socket is short
// (unix(7)).
func (a *daemon) socket() string { return filepath.Join(a.state, "sock") }

// start starts it (again).
func (a *daemon) start() {
	a.t.Helper()
	a.Process = must[*lab.Process](a.t)(a.node.Start("env", a.args...))
}

// restart ends the agent by a signal, starts it again and waits until it
// serves.
func (a *daemon) restart(s syscall.Signal) {
	a.t.Helper()
	a.end(s)
	a.start()
	a.healthy()
}

func (a *daemon) end(s syscall.Signal) {
	a.t.Helper()
	if strings.Contains(a.Output(), "DATA RACE") {
		a.t.Errorf("%s:\n%s", a, a.Output())
	}
	if s == syscall.SIGKILL {
		a.Kill()
		return
	}
	if err := a.Signal(s); err != nil {
		a.t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		a.t.Fatalf("%v\n%s", err, a.Output())
	}
}

// healthy waits for /healthz to say so.
func (a *daemon) healthy() {
	a.t.Helper()
	eventually(a.t, func() error {
		select {
		case <-a.Done():
			a.t.Fatalf("the agent has ended: %v\n%s", a.Wait(), a.Output())
		default:
		}
		code, h, err := a.health()
		if err == nil && (code != http.StatusOK || !h.Healthy) {
			err = fmt.Errorf("%d %+v", code, h)
		}
		return err
	})
}

// health asks /healthz.
func (a *daemon) health() (code int, h reconcile.HealthStatus, err error) {
	code, body, err := a.get("http://127.0.0.1:10256/healthz")
	if err == nil {
		err = json.Unmarshal(body, &h)
	}
	return code, h, err
}

// degraded waits until /healthz names a reason, and gives its code.
func (a *daemon) degraded(why string) (code int) {
	a.t.Helper()
	eventually(a.t, func() error {
		c, h, err := a.health()
		if err == nil && !strings.Contains(strings.Join(h.Degraded, "\n"), why) {
			err = fmt.Errorf("no %q in %q", why, h.Degraded)
		}
		code = c
		return err
	})
	return code
}

// metric gives the sum of the values of a metric.
func (a *daemon) metric(name string) float64 {
	a.t.Helper()
	_, body, err := a.get("http://127.0.0.1:10249/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		sum += must[float64](a.t)(strconv.ParseFloat(m[1], 64))
	}
	return sum
}

// get makes an HTTP request on the agent's own host.
func (a *daemon) get(url string) (int, []byte, error) { return httpGet(a.node, url) }

// httpGet makes an HTTP request on a host.
func httpGet(from *lab.Host, url string) (int, []byte, error) {
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = from.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: deadline}
	resp, err := client.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// said waits until the agent has logged a text.
func (a *daemon) said(text string) {
	a.t.Helper()
	eventually(a.t, func() error {
		if !strings.Contains(a.Output(), text) {
			return fmt.Errorf("no %q in the log:\n%s", text, a.Output())
		}
		return nil
	})
}

// sh runs a shell command on a node.
func sh(t *testing.T, h *lab.Host, command string) string {
	t.Helper()
	return must[string](t)(h.Run(t.Context(), "sh", "-c", command))
}
