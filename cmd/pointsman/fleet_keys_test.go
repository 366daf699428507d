package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// keyed is a fleet whose hosts have a keyring file each. The last of the nodes
// isn't started.
func keyed(t *testing.T, nodes int, keys ...string) (*world, []*daemon) {
	t.Helper()
	w := newWorld(t, make([]int, nodes)...)
	w.nodesManifest(w.Nodes...)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080))
	var agents []*daemon
	for _, n := range w.Nodes {
		ring := w.keyring("ring-"+n.Name, keys...)
		agents = append(agents, w.daemon(n, n.Name, filepath.Join(w.dir, "state-"+n.Name), gossiping(n, ring)...))
	}
	for _, a := range agents[:nodes-1] {
		a.start()
		a.healthy()
	}
	for _, a := range agents[:nodes-1] {
		a.sees(nodes - 1)
	}
	return w, agents
}

// reread waits until an agent has taken notice of its keyring for the n-th time.
func (a *daemon) reread(n int) {
	a.t.Helper()
	within(a.t, fleetBound, func() error {
		if got := strings.Count(a.Output(), "the keyring changed"); got != n {
			return fmt.Errorf("%s has read it %d times", a, got)
		}
		return nil
	})
}

// TestC76KeyRotation: the fleet's key is changed while it runs, a step at a time
// and a host at a time. Nobody loses sight of anybody; a host that is started in
// the midst of it, while some send with one key and some with the other, becomes
// a member.
func TestC76KeyRotation(t *testing.T) {
	t.Parallel()
	k1, k2 := newKey(t), newKey(t)
	w, agents := keyed(t, 4, k1)
	late, three := agents[3], agents[:3]
	unmoved := nobodyMoves(t, three)
	change := func(a *daemon, times int, keys ...string) {
		t.Helper()
		w.keyring("ring-"+a.node.Name, keys...)
		a.reread(times)
		unmoved()
	}
	for _, a := range three {
		change(a, 1, k1, k2)
	}
	change(three[0], 2, k2, k1)
	w.keyring("ring-n4", k1, k2)
	late.start()
	late.healthy()
	for _, a := range agents {
		a.sees(4)
	}
	change(three[1], 2, k2, k1)
	change(three[2], 2, k2, k1)
	change(late, 1, k2, k1)
	for _, a := range three {
		change(a, 3, k2)
	}
	change(late, 2, k2)
	settled := nobodyMoves(t, agents)
	for range 50 {
		settled()
		for _, a := range agents {
			if a.troubled("cannot decrypt", "n1", "n2", "n3", "n4") == nil {
				t.Fatalf("%s can't decrypt what others send", a)
			}
		}
	}
}

// TestC76KeyReplaced: the key is replaced outright on one host. It and the others
// say whom they can't understand, the host judges by itself, and all is well once
// it has the key again.
func TestC76KeyReplaced(t *testing.T) {
	t.Parallel()
	k1 := newKey(t)
	w, agents := keyed(t, 4, k1)
	agents = agents[:3]
	w.nodesManifest(w.Nodes[:3]...)
	w.keyring("ring-n3", newKey(t))
	replaced := time.Now()
	for _, a := range agents {
		with := "n3"
		if a == agents[2] {
			with = "n1"
		}
		within(t, fleetBound, func() error { return a.troubled("cannot decrypt", with) })
		t.Logf("%s names it after %v", a, time.Since(replaced))
	}
	t.Logf("n3 judges by itself %v later", isolated(t, agents[2:], true))
	isolated(t, agents[:2], false)
	w.keyring("ring-n3", k1)
	began := time.Now()
	for _, a := range agents {
		a.sees(3)
	}
	isolated(t, agents, false)
	t.Logf("one fleet again after %v", time.Since(began))

	// A file that can't be used leaves the keys of before in force.
	w.keyring("ring-n3", "nonsense")
	within(t, fleetBound, func() error { return agents[2].troubled("keyring", "") })
	for _, a := range agents {
		a.sees(3)
	}
}

// TestC76NoKeyNoStart: an agent that can't encrypt what it should doesn't start.
func TestC76NoKeyNoStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	n1 := w.Nodes[0]
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080))
	short := base64.StdEncoding.EncodeToString(make([]byte, 16))
	for name, c := range map[string]struct{ ring, says string }{
		"empty":      {w.keyring("empty"), "no key"},
		"malformed":  {w.keyring("malformed", newKey(t), "not base64!"), "line 2"},
		"short":      {w.keyring("short", short), "line 1"},
		"missing":    {filepath.Join(w.dir, "missing"), "no such file"},
		"directory":  {w.dir, "is a directory"},
		"unreadable": {unreadable(t, w), "too many levels"},
	} {
		w.refuses(n1, name, c.says, "--gossip-bind", n1.Addr4().String(), "--gossip-keyring", c.ring)
	}
	w.refuses(n1, "no keyring", "needs --gossip-keyring", "--gossip-bind", n1.Addr4().String())
	w.refuses(n1, "wildcard", "others can't reach", "--gossip-bind", "0.0.0.0", "--gossip-insecure")
	w.agent(n1, "--gossip-bind", n1.Addr4().String(), "--gossip-insecure").end(15)
	w.agent(n1, "--gossip-bind", "127.0.0.1")
}

// refuses checks that an agent ends at once, and why.
func (w *world) refuses(n *lab.Host, name, says string, flags ...string) {
	w.t.Helper()
	a := w.begin(n, flags...)
	select {
	case <-a.Done():
	case <-time.After(deadline):
		w.t.Errorf("%s: it goes on", name)
		a.Kill()
		return
	}
	if err := a.Wait(); err == nil || !strings.Contains(a.Output(), says) {
		w.t.Errorf("%s: %v, and no %q in\n%s", name, err, says, a.Output())
	}
}

// unreadable gives a keyring that even root can't read: its own link.
func unreadable(t *testing.T, w *world) string {
	t.Helper()
	path := filepath.Join(w.dir, "loop")
	if err := os.Symlink(path, path); err != nil {
		t.Fatal(err)
	}
	return path
}
