package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
	"pointsman/state/event"
)

// shop writes a file of Services, 10.96.1.1 and so on, each of one backend.
func (w *world) shop(name string, services int, backend string) {
	w.t.Helper()
	var docs []string
	for i := range services {
		name := fmt.Sprintf("s%02d", i)
		docs = append(docs, service(name, fmt.Sprintf("clusterIP: 10.96.1.%d, %s", i+1, http80)), slice(name+"/1", http8080, backend))
	}
	w.write(name, docs...)
}

// ctl runs pointsman on the agent's host with its socket.
func (a *daemon) ctl(args ...string) (string, error) {
	return a.node.Run(a.t.Context(), "pointsman", append(args, "--socket", a.socket())...)
}

// status asks the agent.
func (a *daemon) status() (s statusAnswer) {
	a.t.Helper()
	out := must[string](a.t)(a.ctl("status", "-o", "json"))
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		a.t.Fatal(err)
	}
	return s
}

// holds waits until the agent holds a change, and gives it.
func (a *daemon) holds() *heldAnswer {
	a.t.Helper()
	a.degraded("is held")
	h := a.status().Held
	if h == nil {
		a.t.Fatal("what is degraded isn't shown")
	}
	return h
}

// TestC62ChangeHeld: a push that takes most Services away changes nothing until
// it's approved; new connections work all the time, and drains do. So it is after
// a restart.
func TestC62ChangeHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	w.shop("shop.yaml", 20, "10.20.0.11")
	n1 := w.agent(w.Nodes[0])
	gone, stays := row{from: w.Client, to: "10.96.1.20:80", by: "b1"}, row{from: w.Client, to: "10.96.1.1:80", by: "b1"}
	check(t, gone, stays)
	eventually(t, func() error { _, err := os.Stat(filepath.Join(n1.state, pastFile)); return err })
	stream := w.Client.Stream(t.Context(), lab.TCP, addrPort(gone.to), tenPerSecond)

	w.shop("shop.yaml", 3, "10.20.0.12") // and the three go to another backend
	held := n1.holds()
	if held.Services.Gone != 17 || held.Services.Before != 20 || n1.metric("pointsman_manifests_held") != 1 || n1.metric("pointsman_manifests_stale") != 1 {
		t.Errorf("%+v", held)
	}
	n1.happened(event.ChangeHeld, "to="+held.To)
	n1.explains("10.96.1.20:80", "a change is held that would remove Service default/s19")
	check(t, gone, stays)
	n1.restart(syscall.SIGKILL)
	if again := n1.holds(); again.To != held.To || again.From != held.From {
		t.Errorf("before the restart %+v, after it %+v", held, again)
	}
	if s := n1.status(); s.Serves != held.From {
		t.Errorf("after the restart it serves %q: no object is in error, so none is stale", s.Serves)
	}
	check(t, gone, stays)
	must[string](t)(n1.ctl("drain", "service", "default/s00"))
	eventually(t, func() error {
		out, err := n1.ctl("get", "endpoints", "s00")
		if err == nil && !strings.Contains(out, "drained by n1") {
			err = fmt.Errorf("not drained: %s", out)
		}
		return err
	})
	if out, err := n1.ctl("approve", "0123456789abcdef"); err == nil {
		t.Errorf("what isn't held was approved: %s", out)
	}
	check(t, gone)
	tally := stream.Stop()
	if err := tally.Check(); err != nil {
		t.Errorf("while it was held: %v; %s", err, &tally)
	}
	t.Logf("%d connections while it was held: %s", tally.Total, &tally)

	must[string](t)(n1.ctl("approve", held.To))
	gone.by, gone.want, stays.by = "", lab.Unreachable, "b2"
	await(t, stays)
	await(t, gone)
	n1.happened(event.ChangeApproved, "on this host: Services 17 removed (")
	n1.healthy()
	if s := n1.status(); s.Held != nil || s.Serves != held.To || n1.metric("pointsman_manifests_held") != 0 {
		t.Errorf("%+v", s)
	}
}

// commit commits what is in a repository, and gives the commit.
func commit(t *testing.T, repo string) string {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "-"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	return strings.TrimSpace(string(must[[]byte](t)(exec.Command("git", "-C", repo, "rev-parse", "HEAD").Output())))
}

// TestC43CommitIsKnown: hosts say which commit they serve, and a rollback goes
// through though it takes much away.
func TestC43CommitIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.shop("shop.yaml", 3, "10.20.0.11")
	first := commit(t, w.manifests)
	n1 := w.agent(w.Nodes[0])
	serves := func(want string) {
		t.Helper()
		eventually(t, func() error {
			if s := n1.status(); s.Commit != want || s.Held != nil {
				return fmt.Errorf("serves %q, want %q, and %+v is held", s.Commit, want, s.Held)
			}
			return nil
		})
	}
	serves(first)
	if n1.metric("pointsman_manifests_commit_info") != 1 || !strings.Contains(must[string](t)(n1.ctl("get", "nodes")), first[:12]) {
		t.Error("the commit isn't shown")
	}
	w.shop("shop.yaml", 30, "10.20.0.11")
	second := commit(t, w.manifests)
	serves(second)
	if out, err := exec.Command("git", "-C", w.manifests, "checkout", "-q", first).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	serves(first) // 27 of 30 Services have gone
	check(t, row{from: w.Client, to: "10.96.1.30:80", want: lab.Unreachable}, row{from: w.Client, to: "10.96.1.3:80", by: "b1"})
}

// TestC62RebootOntoBrokenCommit: while the host was off the repository took a
// bad turn. What is served is what was, object by object or as a whole.
func TestC62RebootOntoBrokenCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, why string
		turn      func(w *world) error
	}{
		{"missing", "no such file", func(w *world) error { return os.RemoveAll(w.manifests) }},
		{"empty", "no Service is left", func(w *world) error { return os.Remove(filepath.Join(w.manifests, "shop.yaml")) }},
		{"a file that is cut off", "last good version", func(w *world) error {
			text, err := os.ReadFile(filepath.Join(w.manifests, "shop.yaml"))
			if err == nil {
				err = os.WriteFile(filepath.Join(w.manifests, "shop.yaml"), text[:len(text)-3], 0o644)
			}
			return err
		}},
		{"every document misspelt", "last good versions", func(w *world) error {
			text, err := os.ReadFile(filepath.Join(w.manifests, "shop.yaml"))
			if err == nil {
				text = []byte(strings.NewReplacer("spec: {", "spec: {bad: 1, ", "addressType:", "addresstype:").Replace(string(text)))
				err = os.WriteFile(filepath.Join(w.manifests, "shop.yaml"), text, 0o644)
			}
			return err
		}},
		{"most Services removed", "is held", func(w *world) error { w.shop("shop.yaml", 1, "10.20.0.11"); return nil }},
	} {
		w := newWorld(t, 1)
		w.serve(8080)
		w.shop("shop.yaml", 20, "10.20.0.11")
		n1 := w.agent(w.Nodes[0])
		eventually(t, func() error { _, err := os.Stat(filepath.Join(n1.state, pastFile)); return err })
		n1.end(syscall.SIGTERM)
		sh(t, w.Nodes[0], "nft flush ruleset") // as a boot does
		if err := c.turn(w); err != nil {
			t.Fatal(err)
		}
		n1.start()
		n1.healthy()
		n1.degraded(c.why)
		check(t, row{name: c.name, from: w.Client, to: "10.96.1.20:80", by: "b1"})
		n1.Kill()
		_ = w.Close()
	}
}
