package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"
)

// commandPaths are those that are told of.
func commandPaths() []string {
	paths := []string{""}
	eachCommand(app(io.Discard, io.Discard).Commands, "", func(path string, _ *cli.Command) { paths = append(paths, path) })
	return paths
}

// TestManPages: each command has a page, and mandoc has nothing to say against it.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(must[string](t)(installed()), "usr/local/share/man/man1")
	args := []string{"-T", "lint", "-W", "warning"}
	for _, path := range commandPaths() {
		args = append(args, filepath.Join(dir, pageName(path)+".1"))
	}
	out, _ := exec.Command("mandoc", args...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		// It has none, so that the same commands give the same page.
		if !strings.Contains(line, "missing date") {
			t.Error(line)
		}
	}
	if pages := must[[]os.DirEntry](t)(os.ReadDir(dir)); len(pages) != len(args)-4 {
		t.Errorf("%d pages of %d commands", len(pages), len(args)-4)
	}
	again := manPages(app(io.Discard, io.Discard))
	if !maps.Equal(again, manPages(app(io.Discard, io.Discard))) {
		t.Error("the pages are not always the same")
	}
	for option, want := range map[string]string{
		"pointsman-run":           "\\fB\\-\\-service\\-cidr\\fR \\fICIDR\\fR\na CIDR whose",
		"pointsman-get-endpoints": "\\fB\\-\\-namespace\\fR, \\fB\\-n\\fR \\fINAMESPACE\\fR\nonly this NAMESPACE [$POINTSMAN_NAMESPACE]\n",
		"pointsman-doctor":        "\n\\fB3\\fR\nThere are warnings, and \\-\\-strict is given.\n",
		"pointsman-plan":          "Or: something would change.\n",
		"pointsman-approve":       "\n.EX\nfrom: HASH\\-OR\\-COMMIT    # that the hosts serve now\n",
		"pointsman-undrain":       ".SH EXAMPLES\nThis host is back:\n.PP\n.RS 4\n.EX\npointsman undrain node\n.EE\n",
	} {
		if !strings.Contains(again[option], want) {
			t.Errorf("%s: no %q in\n%s", option, want, again[option])
		}
	}
}

// TestHelpExamples: each command has examples, --help shows them, and they can be
// meant: nobody runs them in an empty directory, without rights and without an
// agent, so they fail, but not for what's on the line.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	paths := commandPaths()
	for path := range samples {
		if !slices.Contains(paths, path) {
			t.Errorf("there are examples of %q, which is no command", path)
		}
	}
	for _, path := range paths {
		help := must[[]byte](t)(exec.Command("pointsman", append(strings.Fields(path), "--help")...).Output())
		if len(samples[path]) == 0 {
			t.Errorf("pointsman %s has no examples", path)
		}
		for _, s := range samples[path] {
			if !strings.Contains(string(help), "   # "+s.why+"\n   "+s.line+"\n") {
				t.Errorf("pointsman %s --help doesn't show %q", path, s.line)
			}
			tryExample(t, path, s.line)
		}
	}
}

// tryExample runs what of a line is ours. A sync that goes on is ended.
func tryExample(t *testing.T, path, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	text = strings.NewReplacer("sudo ", "", "systemctl ", ": ", "--interval 30s", "--interval 30s --once").Replace(text)
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; jq() { cat; }; "+text)
	cmd.Dir = "/sys" // where nobody can leave anything
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "POINTSMAN_SOCKET=/nonexistent/sock")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case !strings.Contains(text, strings.TrimSpace("pointsman "+path)):
		t.Errorf("%q is no example of pointsman %s", text, path)
	case err != nil && !errors.As(err, &exit), exit != nil && exit.ExitCode() == exitUsage, strings.Contains(string(out), "; see pointsman"):
		t.Errorf("%s: %v\n%s", text, err, out)
	}
}
