package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
	"pointsman/state/event"
)

// simple writes a Service with one backend into a file of its own.
func (w *world) simple(name, address, backend string) {
	w.t.Helper()
	w.write(name+".yaml", service(name, "clusterIP: "+address+", "+http80), slice(name+"/1", http8080, backend))
}

// TestC43OneBadManifest: what is wrong with one file holds nobody else up, and
// takes nothing down.
func TestC43OneBadManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.serve(8080)
	w.simple("a", "10.96.0.1", "10.20.0.11")
	w.simple("b", "10.96.0.2", "10.20.0.12")
	w.simple("c", "10.96.0.3", "10.20.0.13")
	n1, c := w.agent(w.Nodes[0]), w.Client
	check(t, row{from: c, to: "10.96.0.1:80", by: "b1"}, row{from: c, to: "10.96.0.2:80", by: "b2"}, row{from: c, to: "10.96.0.3:80", by: "b3"})

	w.write("a.yaml", service("a", "clusterIP: 10.96.0.1, "+http80), slice("a/1", http8080, "10.20.0.11", "10.20.0.12"))
	w.write("b.yaml", "kind: Service\n  spec: {", slice("b/1", http8080, "10.20.0.12"))
	w.simple("d", "10.96.0.4", "10.20.0.13")
	took := await(t, row{from: c, to: "10.96.0.4:80", by: "b3"})
	t.Logf("a change took effect after %s", took)
	check(t, row{from: c, to: "10.96.0.1:80", by: "b1 b2"}, row{name: "the last good b", from: c, to: "10.96.0.2:80", by: "b2"},
		row{from: c, to: "10.96.0.3:80", by: "b3"})
	if code := n1.degraded("the last good version"); code != http.StatusOK {
		t.Errorf("healthz is %d: the kernel is as it should be", code)
	}
	n1.happened(event.ManifestRefused, "b.yaml:2")
	if n := n1.metric("pointsman_manifests_stale_objects"); n != 1 {
		t.Errorf("%v objects are stale, want 1", n)
	}
	if n := n1.metric(`pointsman_manifests_problems\{severity="error"\}`); n != 1 {
		t.Errorf("%v errors, want 1", n)
	}

	// Neither do a restart or a kill lose what was last good.
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		n1.restart(s)
		check(t, row{name: fmt.Sprint("the last good b after ", s), from: c, to: "10.96.0.2:80", by: "b2"})
		n1.degraded("the last good version")
	}

	w.simple("b", "10.96.0.2", "10.20.0.11")
	await(t, row{from: c, to: "10.96.0.2:80", by: "b1"})
	n1.happened(event.ManifestFixed, "b.yaml has no errors any more")
	eventually(t, func() error {
		if _, h, err := n1.health(); err != nil || len(h.Degraded) > 0 {
			return fmt.Errorf("%v %q", err, h.Degraded)
		}
		return nil
	})
}

// TestC44FailedTransaction: a change that the kernel or nft refused once, or
// refuses for as long as it takes, isn't lost, and /healthz says so meanwhile.
func TestC44FailedTransaction(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"once", "until healed"} {
		w := newWorld(t, 2)
		w.serve(8080)
		w.simple("web", "10.96.0.20", "10.20.0.11")
		fault := filepath.Join(w.dir, "fault")
		stub := stubNft(t, fmt.Sprintf(`if test -e %s; then echo "nft: the fault that the test made" >&2; test "%s" != once || rm %s; exit 1; fi`, fault, broken, fault))
		n1 := w.agent(w.Nodes[0], stub)
		check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
		if err := os.WriteFile(fault, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		w.simple("web", "10.96.0.20", "10.20.0.12")
		if broken != "once" {
			if code := n1.degraded("the fault that the test made"); code != http.StatusServiceUnavailable {
				t.Errorf("healthz is %d while nothing can be programmed", code)
			}
			check(t, row{name: "traffic meanwhile", from: w.Client, to: "10.96.0.20:80", by: "b1"})
			n1.explains("10.96.0.20:80", "the kernel isn't as it should be", "10.20.0.11:8080 - too much is no endpoint of the Service port", "10.20.0.12:8080 - missing",
				"changed endpoints-tcp { 10.96.0.20 . tcp . 80 . 0 : 10.20.0.11 . 8080 }, should be 10.20.0.12 . 8080", "the agent can't repair it: ", "the fault that the test made")
			if err := os.Remove(fault); err != nil {
				t.Fatal(err)
			}
		}
		await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
		n1.healthy()
		n1.said("programmed after all")
		if n1.metric("pointsman_sync_proxy_rules_nftables_sync_failures_total") == 0 {
			t.Error("no failure was counted")
		}
		n1.Kill()
		_ = w.Close() // the next one is another world
	}
}

// TestC62DirectoryGone: a directory that is missing or empty is no order to
// remove everything, before a restart and after.
func TestC62DirectoryGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	n1 := w.agent(w.Nodes[0])
	served := row{from: w.Client, to: "10.96.0.20:80", by: "b1"}
	check(t, served)
	eventually(t, func() error { _, err := os.Stat(filepath.Join(n1.state, lastGoodFile)); return err })
	away := filepath.Join(w.dir, "away")
	steps := []struct {
		name, why string
		do        func() error
	}{
		{"missing", "no such file", func() error { return os.Rename(w.manifests, away) }},
		{"empty", "no Service is left", func() error { return os.Mkdir(w.manifests, 0o755) }},
		{"only others' files", "no Service is left", func() error {
			return os.WriteFile(filepath.Join(w.manifests, "README.md"), []byte("# empty"), 0o644)
		}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		n1.degraded(s.why)
		served.name = s.name
		check(t, served)
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			n1.restart(signal)
			n1.said("serving what was last good")
			served.name = s.name + " and restarted"
			check(t, served)
		}
	}
	w.simple("new", "10.96.0.21", "10.20.0.11")
	await(t, row{from: w.Client, to: "10.96.0.21:80", by: "b1"})
	check(t, row{name: "a deletion beside what is left", from: w.Client, to: "10.96.0.20:80", want: lab.Unreachable})
	w.remove("new.yaml")
	n1.degraded("no Service is left")
	n1.end(syscall.SIGTERM)
	w.begin(w.Nodes[0], "--allow-empty")
	await(t, row{name: "let through", from: w.Client, to: "10.96.0.21:80", want: lab.Unreachable})
}

// TestFirstStartWithBrokenManifests: what is right is served, and nothing is
// made of what is not.
func TestFirstStartWithBrokenManifests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.write("bad.yaml", service("bad", "clusterIp: 10.96.0.22, "+http80))
	n1 := w.begin(w.Nodes[0])
	n1.said("bad.yaml:7: spec.clusterIp: unknown field")
	n1.degraded("no Service of " + w.manifests + " can be served")
	if code := n1.degraded("not programmed yet"); code != http.StatusServiceUnavailable {
		t.Errorf("healthz is %d before anything is programmed", code)
	}
	if out := sh(t, w.Nodes[0], "nft list ruleset"); strings.TrimSpace(out) != "" {
		t.Errorf("there are rules, and nothing to serve:\n%s", out)
	}
	w.simple("web", "10.96.0.20", "10.20.0.11")
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
	check(t, row{from: w.Client, to: "10.96.0.22:80", want: lab.Unreachable})
	n1.healthy()
}
