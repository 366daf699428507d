package gitsync

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// epoch is when the tests' first sync is.
var epoch = time.Date(2026, 11, 29, 21, 0, 0, 0, time.UTC)

// stepToDieAt and the two after it are what a child of TestMain syncs.
const (
	stepToDieAt = "GITSYNC_TEST_STEP"
	childRepo   = "GITSYNC_TEST_REPO"
	childDest   = "GITSYNC_TEST_DEST"
)

// checks is how many sequences a property test tries: git is slow, with 50
// processes in each of them. -rapid.checks asks for more.
const checks = "20"

// TestMain isolates the tests, whose servers are on loopback. It is also the
// process that is killed in the middle of a sync.
func TestMain(m *testing.M) {
	step, child := os.LookupEnv(stepToDieAt)
	if !child {
		if err := flag.Set("rapid.checks", checks); err != nil {
			panic(err)
		}
		lab.Isolated(m)
	}
	cfg := Config{Repo: os.Getenv(childRepo), Ref: "main", Dest: os.Getenv(childDest), Check: check}
	cfg.at = func(s string) {
		if s == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if _, err := Sync(context.Background(), cfg, epoch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check takes each .yaml file for a Service, unless its text says otherwise.
func check(_ context.Context, dir string) (Verdict, error) {
	var v Verdict
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".yaml" || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		switch {
		case err != nil:
			return err
		case strings.Contains(string(text), "unreadable"):
			return errors.New("link to nowhere")
		case strings.Contains(string(text), "broken"):
			v.Errors = append(v.Errors, d.Name()+":1: broken")
			return nil
		}
		v.Services++
		return nil
	})
	return v, err
}

// files are a tree's contents by their paths.
type files = map[string]string

// world is a repository, and a host that syncs from it.
type world struct {
	testing.TB
	origin string
	cfg    Config
	now    time.Time
	trees  map[string]files // what each commit holds
}

// newWorld makes an empty repository below a directory.
func newWorld(tb testing.TB, dir string) *world {
	tb.Helper()
	w := &world{TB: tb, origin: filepath.Join(dir, "origin"), now: epoch, trees: map[string]files{}}
	w.cfg = Config{Repo: w.origin, Ref: "main", Dest: filepath.Join(dir, "dest"), Check: check}
	w.must(os.Mkdir(w.origin, 0o755))
	w.git("init", "-q", "-b", "main")
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// git runs git in the origin, as its author.
func (w *world) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"}, args...)...)
	cmd.Dir = w.origin
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// write puts files into the origin's worktree; "" removes one, -> makes a link.
func (w *world) write(content files) {
	w.Helper()
	for name, text := range content {
		full := filepath.Join(w.origin, name)
		w.must(os.MkdirAll(filepath.Dir(full), 0o755))
		if err := os.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.Fatal(err)
		}
		switch target, link := strings.CutPrefix(text, "->"); {
		case link:
			w.must(os.Symlink(target, full))
		case text != "":
			w.must(os.WriteFile(full, []byte(text), 0o644))
		}
	}
}

// commit commits what content changes, and gives the commit.
func (w *world) commit(content files, options ...string) string {
	w.Helper()
	w.write(content)
	w.git("add", "-A")
	w.git(append([]string{"commit", "-q", "--allow-empty", "-m", "change"}, options...)...)
	return w.head()
}

// head gives the commit that is checked out, and remembers its tree.
func (w *world) head() string {
	w.Helper()
	id := w.git("rev-parse", "HEAD")
	w.trees[id] = read(w, w.origin)
	return id
}

// read gives a tree's files, without git's and ours.
func read(tb testing.TB, dir string) files {
	tb.Helper()
	out := files{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		switch {
		case err != nil:
			return err
		case rel == ".git":
			return fs.SkipDir
		case d.IsDir() || rel == recordFile || rel == generationFile:
			return nil
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			out[rel] = "->" + target
			return err
		}
		data, err := os.ReadFile(name)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// sync runs a sync, a minute after the last one.
func (w *world) sync() error {
	w.now = w.now.Add(time.Minute)
	_, err := Sync(context.Background(), w.cfg, w.now)
	return err
}

func (w *world) mustSync() {
	w.Helper()
	w.must(w.sync())
}

// current gives the commit whose tree is published. The tree is whole, whatever
// went before.
func (w *world) current() string {
	w.Helper()
	link := filepath.Join(w.cfg.Dest, "current")
	target, err := os.Readlink(link)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	w.must(err)
	id := filepath.Base(target)
	if want := filepath.Join("commits", id); target != want {
		w.Fatalf("current leads to %s, not to %s", target, want)
	}
	if got, want := read(w, filepath.Join(w.cfg.Dest, target)), w.trees[id]; !maps.Equal(got, want) {
		w.Fatalf("commit %s holds %q, and published is %q", id, want, got)
	}
	record, err := readRecord(link)
	w.must(err)
	if record.Commit != id {
		w.Fatalf("the tree of %s says it is %s", id, record.Commit)
	}
	return id
}

// wantCurrent says which commit is to be published.
func (w *world) wantCurrent(want string) {
	w.Helper()
	if got := w.current(); got != want {
		w.Fatalf("published is %q, not %q", got, want)
	}
}

// wantRefused syncs, and expects a refusal that leaves everything as it is.
func (w *world) wantRefused(commit, reason string) {
	w.Helper()
	before := w.current()
	err := w.sync()
	var r *Refusal
	if !errors.As(err, &r) || r.Commit != commit || !strings.Contains(r.Reason, reason) {
		w.Fatalf("%v; want a refusal of %s that says %q", err, commit, reason)
	}
	w.wantCurrent(before)
	s, err := ReadStatus(w.cfg.Dest)
	w.must(err)
	if s.Refused == nil || *s.Refused != *r || s.Fetched != commit || s.Error != r.Error() {
		w.Fatalf("the status is %+v; want %v", s, r)
	}
	if (s.Published == nil) != (before == "") || s.Published != nil && s.Published.Commit != before {
		w.Fatalf("the status says %+v is published, not %q", s.Published, before)
	}
	if left := w.names("commits"); slices.Contains(left, ".new") {
		w.Fatalf("a draft is left: %q", left)
	}
}

// names lists a directory of DEST.
func (w *world) names(dir string) []string {
	w.Helper()
	entries, err := os.ReadDir(filepath.Join(w.cfg.Dest, dir))
	w.must(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
