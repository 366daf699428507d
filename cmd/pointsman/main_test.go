package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pointsman/reconcile/lab"
)

// These tests know the agent as its user does: they run the binary, and look at
// what it prints and at what becomes of packets. They are isolated, so an
// agent that got onto the wrong host would find an empty one.
func TestMain(m *testing.M) {
	if os.Getenv(asStuckAgent) != "" {
		os.Exit(stuckAgent())
	}
	lab.Isolated(withBinary{m})
}

const race = "halt_on_error=1 atexit_sleep_ms=0"

// withBinary builds the binary once and puts it first in PATH.
type withBinary struct{ m *testing.M }

// built tells processes that this one starts, such as the workers of a fuzz target,
// that the binary is there: linking it once more takes each most of a minute.
const built = "POINTSMAN_TEST_BUILT"

func (w withBinary) Run() int {
	if os.Getenv(built) != "" {
		return w.m.Run()
	}
	dir, err := os.MkdirTemp("", "pointsman-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Another uid runs it, too: see testdata/script/run-refused.txtar.
	build := exec.Command("go", "build", "-race", "-ldflags", "-X main.version=v1.2.3", "-o", filepath.Join(dir, "pointsman"), ".")
	if out, err := build.CombinedOutput(); err != nil || os.Chmod(dir, 0o755) != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	// A race ends the program, and none is waited for at its end.
	for name, value := range map[string]string{"PATH": dir + ":" + os.Getenv("PATH"), "GORACE": race, built: "1"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return w.m.Run()
}

// TestBuiltOnce: the process of a fuzz target's worker has no use for a compiler.
func TestBuiltOnce(t *testing.T) {
	t.Parallel()
	worker := exec.CommandContext(t.Context(), must[string](t)(os.Executable()), "-test.run=^$")
	worker.Env = append(os.Environ(), "PATH=")
	if out, err := worker.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
