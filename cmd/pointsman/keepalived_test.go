package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// TestKeepalived: the example's VIP is on the host of the highest priority that
// can serve it, by keepalived itself.
func TestKeepalived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	const example = "../../examples/keepalived"
	if err := os.CopyFS(w.manifests, os.DirFS(filepath.Join(example, "manifests"))); err != nil {
		t.Fatal(err)
	}
	whole := string(must[[]byte](t)(os.ReadFile(filepath.Join(w.manifests, "shop.yaml"))))
	var agents []*daemon
	for i, node := range w.Nodes {
		a := w.agent(node)
		agents = append(agents, a)
		w.keepalived(a, filepath.Join(example, "keepalived.conf"), 150-50*i)
	}
	w.vipAt("b1")
	replace(t, filepath.Join(w.manifests, "shop.yaml"), strings.Replace(whole, "  - addresses: [10.20.0.11]\n    nodeName: n1\n", "", 1))
	w.vipAt("b2") // n1 has no endpoint any more
	replace(t, filepath.Join(w.manifests, "shop.yaml"), whole)
	w.vipAt("b1")
	sh(t, w.Nodes[0], "pointsman drain node --socket "+agents[0].socket())
	w.vipAt("b2")
	sh(t, w.Nodes[0], "pointsman undrain node --socket "+agents[0].socket())
	w.vipAt("b1")
	agents[0].end(syscall.SIGKILL)
	w.vipAt("b2")
}

// keepalived runs keepalived beside an agent, by the example's configuration.
func (w *world) keepalived(a *daemon, path string, priority int) {
	w.t.Helper()
	text := string(must[[]byte](w.t)(os.ReadFile(path)))
	binary := must[string](w.t)(exec.LookPath("pointsman"))
	for old, replacement := range map[string]string{
		"/usr/local/bin/pointsman status": binary + " status --socket " + a.socket(),
		"priority 100":                    fmt.Sprint("priority ", priority),
	} {
		if !strings.Contains(text, old) {
			w.t.Fatalf("%s has no %q", path, old)
		}
		text = strings.ReplaceAll(text, old, replacement)
	}
	file := func(name string) string { return filepath.Join(a.state, name) }
	replace(w.t, file("keepalived.conf"), text)
	must[*lab.Process](w.t)(a.node.Start("keepalived", "--dont-fork", "--log-console", "--vrrp",
		"--use-file", file("keepalived.conf"), "--pid", file("keepalived.pid"), "--vrrp_pid", file("vrrp.pid")))
}

// vipAt waits until connections to the VIP come to a backend, and are answered
// for good.
func (w *world) vipAt(backend string) {
	w.t.Helper()
	eventually(w.t, func() error {
		for range 5 {
			got := w.Client.Connect(w.t.Context(), lab.TCP, addrPort("192.0.2.200:80"), 2*time.Second)
			if got.Outcome != lab.OK || got.Backend != backend || got.Source.Addr().String() != "192.0.2.50" {
				return fmt.Errorf("%s, not %s", got, backend)
			}
		}
		return nil
	})
}
