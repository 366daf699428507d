package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// fleetRepo is a git repository of manifests.
type fleetRepo struct {
	*testing.T
	dir string
}

func (r fleetRepo) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits one file, and gives the commit.
func (r fleetRepo) commit(name, text string) string {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", name)
	return r.git("rev-parse", "HEAD")
}

// says reads lines until one has all the words.
func says(t *testing.T, lines *bufio.Scanner, words ...string) {
	t.Helper()
	for lines.Scan() {
		all := true
		for _, w := range words {
			all = all && strings.Contains(lines.Text(), w)
		}
		if all {
			return
		}
		t.Log(lines.Text())
	}
	t.Fatalf("nothing says %q", words)
}

// TestSyncGoesOn: with --interval sync goes on, at once when SIGHUP asks for it;
// it says what changes, and ends well when it's stopped.
func TestSyncGoesOn(t *testing.T) {
	t.Parallel()
	r := fleetRepo{t, t.TempDir()}
	dest := filepath.Join(t.TempDir(), "dest")
	r.git("init", "-q", "-b", "main")
	first := r.commit("web.yaml", service("web", "clusterIP: 10.96.0.1, "+http80))
	cmd := exec.Command("pointsman", "sync", "--repo", r.dir, "--dest", dest, "--interval", "1h")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	hangup := func() {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Error(err)
		}
	}
	says(t, lines, "published", first)
	second := r.commit("shop.yaml", service("shop", "clusterIP: 10.96.0.2, "+http80))
	hangup()
	says(t, lines, "published", second, "services=2")
	third := r.commit("oops.yaml", "kind: Service\n")
	hangup()
	says(t, lines, "level=WARN", "published, with errors", "oops.yaml:1: ", third)
	r.git("reset", "-q", "--hard", first)
	hangup()
	says(t, lines, "level=ERROR", "refused", "older than the published commit", third)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(stderr)
	if err != nil || len(rest) > 0 {
		t.Errorf("after it was stopped: %s %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(filepath.Join(dest, "current")); to != "commits/"+third {
		t.Errorf("current leads to %s, %v", to, err)
	}
}

// TestGitPush: an agent serves what sync publishes, whatever is pushed.
func TestGitPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	r := fleetRepo{t, filepath.Join(w.dir, "repo")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	web := func(address string) string {
		return service("web", "clusterIP: "+address+", "+http80) + "\n---\n" + slice("web/v4", http8080, "10.20.0.11@n1")
	}
	dest := filepath.Join(w.dir, "dest")
	syncs := func(want int) {
		t.Helper()
		cmd := exec.Command("pointsman", "sync", "--repo", r.dir, "--dest", dest)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Fatalf("exit code %d, not %d: %s", cmd.ProcessState.ExitCode(), want, out)
		}
	}
	first := r.commit("web.yaml", web("10.96.0.1"))
	syncs(0)
	w.manifests = filepath.Join(dest, "current")
	w.agents()
	one, two := row{from: w.Client, to: "10.96.0.1:80", by: "b1"}, row{from: w.Client, to: "10.96.0.2:80", by: "b1"}
	await(t, one)
	r.commit("web.yaml", web("10.96.0.2"))
	syncs(0)
	await(t, two)
	r.commit("web.yaml", strings.Replace(web("10.96.0.1"), "clusterIP", "clusterip", 1)+"\n---\n"+service("shop", "clusterIP: 10.96.0.3, "+http80))
	syncs(exitWarnings)
	await(t, row{from: w.Client, to: "10.96.0.3:80", want: lab.Refused}) // new, and has no endpoint
	check(t, two)
	r.git("rm", "-q", "web.yaml")
	r.commit("README.md", "nothing is left")
	syncs(exitError)
	r.git("reset", "-q", "--hard", first)
	syncs(exitError)
	check(t, two)
}
