package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// syscallFilter builds the program that runs another with a filter of system
// calls, once for all tests.
var syscallFilter = sync.OnceValues(func() (path string, err error) {
	binary, err := exec.LookPath("pointsman")
	if err != nil {
		return "", err
	}
	path = filepath.Join(filepath.Dir(binary), "filter")
	cmd := exec.Command("go", "build", "-o", path, "./testdata/filter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// filtered gives what is put before a unit's command for it to have the unit's
// system calls and no others.
func (h *unitHost) filtered(u unit) []string {
	h.t.Helper()
	name := "lib/calls-" + u.one(h.t, "User")
	h.write(name, numbers(h.t, allowed(u["SystemCallFilter"], callSets(h.t))))
	filter := must[[]byte](h.t)(os.ReadFile(must[string](h.t)(syscallFilter())))
	if err := os.WriteFile(filepath.Join(h.dir, "lib/filter"), filter, 0o755); err != nil {
		h.t.Fatal(err)
	}
	return []string{"/var/lib/filter", "/var/" + name}
}

// callSets are systemd's names for sets of system calls.
func callSets(t *testing.T) map[string][]string {
	t.Helper()
	sets, name := map[string][]string{}, ""
	for line := range strings.Lines(string(must[[]byte](t)(exec.Command("systemd-analyze", "syscall-filter").Output()))) {
		entry := strings.TrimSpace(line)
		switch {
		case entry == "" || strings.HasPrefix(entry, "#"):
		case strings.HasPrefix(line, "@"):
			name = entry
		default:
			sets[name] = append(sets[name], entry)
		}
	}
	return sets
}

// allowed gives the calls of a list of settings: what begins with ~ is taken
// away.
func allowed(settings []string, sets map[string][]string) map[string]bool {
	calls := map[string]bool{}
	for _, setting := range settings {
		names, without := strings.CutPrefix(setting, "~")
		for _, name := range strings.Fields(names) {
			for _, call := range members(name, sets) {
				if calls[call] = true; without {
					delete(calls, call)
				}
			}
		}
	}
	return calls
}

// members gives the calls of a set, or a call itself.
func members(name string, sets map[string][]string) (calls []string) {
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	for _, entry := range sets[name] {
		calls = append(calls, members(entry, sets)...)
	}
	return calls
}

// numbers gives the numbers of calls on this architecture, as x/sys has them.
// Those of others have none.
func numbers(t *testing.T, calls map[string]bool) string {
	t.Helper()
	dir := strings.TrimSpace(string(must[[]byte](t)(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output())))
	source := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "unix", "zsysnum_linux_"+runtime.GOARCH+".go")))
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllStringSubmatch(string(source), -1) {
		if calls[strings.ToLower(m[1])] {
			out = append(out, m[2])
		}
	}
	if len(out) < 100 {
		t.Fatalf("only %d of %d calls have a number", len(out), len(calls))
	}
	return strings.Join(out, "\n")
}

// TestCallsAllowed: sets of sets, and what is taken away from them.
func TestCallsAllowed(t *testing.T) {
	t.Parallel()
	sets := map[string][]string{"@all": {"@some", "c"}, "@some": {"a", "b"}}
	got := slices.Sorted(maps.Keys(allowed([]string{"@all d", "~@some", "a"}, sets)))
	if want := []string{"a", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}
