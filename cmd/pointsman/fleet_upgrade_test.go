package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// nextRelease builds the agent with another program of rules, as the next
// release has it, and gives the directory that it's in.
func nextRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := must[string](t)(filepath.Abs("../../reconcile/program.go"))
	text := string(must[[]byte](t)(os.ReadFile(source)))
	changed := strings.ReplaceAll(text, `"ct status dnat return"`, `"ct status dnat counter return"`)
	if changed == text {
		t.Fatal("the program has no rule that could be another one")
	}
	overlay := must[[]byte](t)(json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(dir, "program.go")}}))
	for name, content := range map[string]string{"program.go": changed, "overlay.json": string(overlay)} {
		replace(t, filepath.Join(dir, name), content)
	}
	build := exec.Command("go", "build", "-race", "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags", "-X main.version=v1.3.0",
		"-o", filepath.Join(dir, "pointsman"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestFleetUpgrade: one host after the other gets the next release, and then
// the former one again. Meanwhile they gossip with each other, each takes over
// the state directory and the rules, a drain and a verdict stay, and no
// connection fails.
func TestFleetUpgrade(t *testing.T) {
	t.Parallel()
	next := nextRelease(t)
	w, agents := fleetOfHomes(t, 3)
	w.write("legacy.yaml", service("legacy", "clusterIP: 10.96.0.30, "+http80, probeTCP),
		slice("legacy/v4", "{name: http, port: 9090}", "10.20.0.11", "10.20.1.21"))
	w.Backends[0].Serve(lab.TCP, 9090)
	agents[0].do("drain", "endpoint", "10.20.2.31")
	out := func() {
		t.Helper()
		until(t, agents, "10.20.1.21:9090", false, "down: ")
		until(t, agents, "10.20.2.31:8080", false, "drained by n1")
	}
	out()
	streams := []*lab.Stream{
		w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond),
		w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.30:80"), tenPerSecond),
	}
	for _, path := range []string{next + ":" + os.Getenv("PATH"), os.Getenv("PATH")} {
		for _, a := range agents {
			a.args[0] = "PATH=" + path
			a.restart(syscall.SIGTERM)
			a.said("rewritten=true")
			for _, other := range agents {
				other.sees(len(agents))
			}
			out()
		}
	}
	for _, s := range streams {
		tally := s.Stop()
		if err := tally.Check(); err != nil || tally.Counts["b3"] > 0 {
			t.Errorf("%v; %s", err, &tally)
		}
	}
}
