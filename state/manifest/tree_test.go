package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// contents returns the files of a snapshot by path.
// contents gives what the files hold; see fileOf.
func contents(s *Snapshot) map[string]string {
	m := make(map[string]string, len(s.Files))
	for _, f := range s.Files {
		m[f.Path] = string(f.Data)
		if f.Fault != "" {
			m[f.Path] = "(unreadable: " + f.Fault + ")"
		}
	}
	return m
}

func wantFiles(t *testing.T, s *Snapshot, want map[string]string) {
	t.Helper()
	if got := contents(s); !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !slices.IsSortedFunc(s.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("not sorted")
	}
}

func mustRead(t *testing.T, tree *Tree) *Snapshot {
	t.Helper()
	s, err := tree.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// projected makes a directory as the kubelet's AtomicWriter does, and returns
// a function that publishes another version of it.
func projected(t *testing.T, dir string) (publish func(rev string)) {
	t.Helper()
	old := ""
	publish = func(rev string) {
		stamped := "..2025_" + rev
		writeFile(t, filepath.Join(dir, stamped, "web.yaml"), "web "+rev)
		writeFile(t, filepath.Join(dir, stamped, "team", "api.yaml"), "api "+rev)
		swapLink(t, stamped, filepath.Join(dir, "..data"))
		if old != "" {
			mustDo(t, os.RemoveAll(filepath.Join(dir, old)))
		}
		old = stamped
	}
	publish("0")
	mustDo(t, os.Symlink("..data/web.yaml", filepath.Join(dir, "web.yaml")))
	mustDo(t, os.Symlink("..data/team", filepath.Join(dir, "team")))
	return publish
}

func TestTreeSkipsWhatIsNoManifest(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"web.yaml", "api.yml", "db.json", "team/a/b/c.yaml", "x.yaml/y.yaml",
		".hidden.yaml", "web.yaml~", "#web.yaml#", ".web.yaml.swp", "web.yaml.bak", "web.yaml.tmp", ".nfs00012.yaml", "README.md",
		".git/config.yaml", "..2025/web.yaml", "old.bak/web.yaml", "team/.cache/x.yaml",
	} {
		writeFile(t, filepath.Join(dir, name), name)
	}
	mustDo(t, unix.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644))
	mustDo(t, os.Symlink("pipe.yaml", filepath.Join(dir, "to-pipe.yaml")))
	want := map[string]string{}
	for _, name := range []string{"web.yaml", "api.yml", "db.json", "team/a/b/c.yaml", "x.yaml/y.yaml"} {
		want[name] = name
	}
	wantFiles(t, mustRead(t, NewTree(dir)), want)
}

func TestTreeProjectedVolume(t *testing.T) {
	dir := t.TempDir()
	publish := projected(t, dir)
	tree := NewTree(dir)
	wantFiles(t, mustRead(t, tree), map[string]string{"web.yaml": "web 0", "team/api.yaml": "api 0"})
	publish("1")
	wantFiles(t, mustRead(t, tree), map[string]string{"web.yaml": "web 1", "team/api.yaml": "api 1"})
}

func TestTreeThroughLinks(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "rev-1", "services", "web.yaml"), "1")
	writeFile(t, filepath.Join(dir, "rev-2", "services", "web.yaml"), "2")
	swapLink(t, "rev-1", filepath.Join(dir, "current"))
	swapLink(t, filepath.Join(dir, "current"), filepath.Join(dir, "absolute"))
	for _, path := range []string{"current", "absolute", "absolute/../current"} {
		wantFiles(t, mustRead(t, NewTree(filepath.Join(dir, path))), map[string]string{"services/web.yaml": "1"})
	}
	tree := NewTree(filepath.Join(dir, "absolute", "services"))
	wantFiles(t, mustRead(t, tree), map[string]string{"web.yaml": "1"})
	swapLink(t, "rev-2", filepath.Join(dir, "current"))
	wantFiles(t, mustRead(t, tree), map[string]string{"web.yaml": "2"})
}

// Links add only what has no other name, and may go round.
func TestTreeLoadsNothingTwice(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "team", "web.yaml"), "web")
	writeFile(t, filepath.Join(dir, ".store", "v1", "api.yaml"), "api")
	for link, target := range map[string]string{
		"a-web.yaml": "team/web.yaml", "team/round": "..", "here": ".", "team-too": "team",
		"api-1.yaml": ".store/v1/api.yaml", "api-2.yaml": ".store/v1/api.yaml",
		"store": ".store", "v1": ".store/v1",
	} {
		mustDo(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	wantFiles(t, mustRead(t, NewTree(dir)), map[string]string{"team/web.yaml": "web", "store/v1/api.yaml": "api"})
}

// Two hard links are two files, for nobody makes them by mistake.
func TestTreeHardLinks(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.yaml"), "x")
	mustDo(t, os.Link(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")))
	wantFiles(t, mustRead(t, NewTree(dir)), map[string]string{"a.yaml": "x", "b.yaml": "x"})
}

func TestTreeLinksThatLeadAway(t *testing.T) {
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "secret"), "secret")
	for _, c := range []struct{ link, target, want string }{
		{"x.yaml", filepath.Join(outside, "secret"), "link to " + outside + "/secret, out of the directory"},
		{"x.yaml", "../../../../../../../../etc/hostname", "link to ../../../../../../../../etc/hostname, out of the directory"},
		{"x.yaml", "nothing", "link to nothing: no such file"},
		{"x.yaml", "x.yaml", "link to x.yaml: too many"},
		{"README.md", filepath.Join(outside, "secret"), ""},
		{"README.md", "nothing", ""},
		{".#web.yaml", "user@host.1234:5678", ""},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "web.yaml"), "web")
		mustDo(t, os.Symlink(c.target, filepath.Join(dir, c.link)))
		got := contents(mustRead(t, NewTree(dir)))
		if fault, ok := got["x.yaml"]; ok != (c.want != "") || ok && !strings.HasPrefix(fault, "(unreadable: "+c.want) {
			t.Errorf("%s -> %s: %q", c.link, c.target, fault)
		}
		if delete(got, "x.yaml"); !maps.Equal(got, map[string]string{"web.yaml": "web"}) {
			t.Errorf("%s -> %s: %q", c.link, c.target, got)
		}
	}
}

// What was in a directory that a link leads out to can't be told.
func TestTreeDirectoryOutside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	mustDo(t, os.Symlink(outside, filepath.Join(dir, "team")))
	if _, err := ReadDir(dir); err == nil || !strings.HasPrefix(err.Error(), dir+": team: link to "+outside) {
		t.Error(err)
	}
}

// A file that can't be read is the same *File as long as that's all there is to
// say of it, and is looked at again and again.
func TestTreeFaultyFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "x.yaml")
	mustDo(t, os.Symlink("later", link))
	tree := NewTree(dir)
	first := mustRead(t, tree)
	wantFiles(t, first, map[string]string{"x.yaml": "(unreadable: link to later: no such file or directory)"})
	if mustRead(t, tree) != first || !tree.moved(nil) {
		t.Error("another snapshot of the same tree, or one that nobody looks at again")
	}
	writeFile(t, filepath.Join(dir, "later"), "x")
	wantFiles(t, mustRead(t, tree), map[string]string{"x.yaml": "x"})
	if tree.moved(nil) {
		t.Error("still unsettled")
	}
}

func TestTreeKeepsPointers(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	writeFile(t, a, "a")
	writeFile(t, b, "b")
	tree := NewTree(dir)
	first := mustRead(t, tree)
	if mustRead(t, tree) != first {
		t.Error("another snapshot of the same tree")
	}
	mustDo(t, os.Chtimes(a, time.Time{}, time.Unix(1, 0)))
	mustDo(t, os.Chmod(b, 0o600))
	writeFile(t, b+".tmp", "b")
	mustDo(t, os.Rename(b+".tmp", b))
	if mustRead(t, tree) != first {
		t.Error("another snapshot after touch, chmod and a rewrite of the same")
	}
	writeFile(t, a, "A") // of the same length
	second := mustRead(t, tree)
	if second == first || second.Files[0] == first.Files[0] || second.Files[1] != first.Files[1] {
		t.Error("not exactly the changed file is another")
	}
	wantFiles(t, second, map[string]string{"a.yaml": "A", "b.yaml": "b"})
	wantFiles(t, first, map[string]string{"a.yaml": "a", "b.yaml": "b"})
}

// The modification time can be set back, the change time cannot.
func TestTreeSeesARewriteThatHidesItself(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	writeFile(t, path, "a")
	mustDo(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	tree := NewTree(dir)
	mustRead(t, tree)
	writeFile(t, path, "b")
	mustDo(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	wantFiles(t, mustRead(t, tree), map[string]string{"a.yaml": "b"})
}

func TestTreeErrors(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), "")
	mustDo(t, os.Symlink("gone", filepath.Join(dir, "dangling")))
	mustDo(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	for path, want := range map[string]string{
		"none": "no such file or directory", "none/below": "no such file or directory",
		"file": "not a directory", "file/below": "not a directory",
		"dangling": "no such file or directory", "loop": "too many levels of symbolic links",
	} {
		full := filepath.Join(dir, path)
		_, err := NewTree(full).Read(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), full+": ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTreeEmpty(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "README.md"), "no manifests")
	tree := NewTree(dir)
	s := mustRead(t, tree)
	if len(s.Files) != 0 || mustRead(t, tree) != s {
		t.Errorf("%v", s.Files)
	}
}

func TestTreeLimits(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), "12345678")
	}
	writeFile(t, filepath.Join(dir, ".store", "l.yaml"), "")
	mustDo(t, os.Symlink(".store/l.yaml", filepath.Join(dir, "l.yaml")))
	for _, c := range []struct {
		limits limits
		want   string
	}{
		{limits{files: 4, names: 99, size: 99, total: 99}, "more than 4 manifest files"},
		{limits{files: 5, names: 99, size: 99, total: 99}, "more than 5 manifest files"},
		{limits{files: 9, names: 4, size: 99, total: 99}, "more than 4 names"},
		{limits{files: 9, names: 99, size: 7, total: 99}, "0.yaml: larger than"},
		{limits{files: 9, names: 99, size: 99, total: 39}, "in total"},
	} {
		tree := NewTree(dir)
		tree.limits = c.limits
		if err := readLater(t, tree); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.limits, err)
		}
	}
}

// readLater reads in fake time, in which waiting costs none.
func readLater(t *testing.T, tree *Tree) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { _, err = tree.Read(t.Context()) })
	return err
}

// An empty file may yet be filled; after two seconds it is taken as it is.
func TestTreeEmptyFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), "")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		tree := NewTree(dir)
		s := mustRead(t, tree)
		wantFiles(t, s, map[string]string{"web.yaml": ""})
		if took := time.Since(start); took != emptyAfter {
			t.Errorf("took %v", took)
		}
		if mustRead(t, tree) != s || time.Since(start) != emptyAfter {
			t.Error("waited again for a file that is known to be empty")
		}
	})
}

func TestTreeEmptyFileIsFilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	writeFile(t, path, "")
	synctest.Test(t, func(t *testing.T) {
		fill := time.AfterFunc(time.Second, func() { _ = os.WriteFile(path, []byte("full"), 0o644) })
		defer fill.Stop()
		wantFiles(t, mustRead(t, NewTree(dir)), map[string]string{"web.yaml": "full"})
	})
}

func TestTreeReadEnds(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewTree(dir).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// steadyDraft prepares until the files are older than the clock's tick.
func steadyDraft(t *testing.T, tree *Tree) *draft {
	t.Helper()
	for {
		d, err := tree.prepare(nil)
		var u *unsteadyError
		switch {
		case err == nil:
			return d
		case !errors.As(err, &u) || u.wait == 0:
			t.Fatal(err)
		}
		<-time.After(u.wait)
	}
}

// Whatever happens between the two looks, nothing is published.
func TestTreeChangesBetweenTheLooks(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string){
		"same size": func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "rev-1/web.yaml"), "WEB") },
		"added":     func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "rev-1/team/new.yaml"), "new") },
		"removed":   func(t *testing.T, dir string) { mustDo(t, os.Remove(filepath.Join(dir, "rev-1/web.yaml"))) },
		"swapped":   func(t *testing.T, dir string) { swapLink(t, "rev-2", filepath.Join(dir, "current")) },
		"replaced": func(t *testing.T, dir string) {
			mustDo(t, os.Rename(filepath.Join(dir, "rev-1"), filepath.Join(dir, "old")))
			mustDo(t, os.Rename(filepath.Join(dir, "rev-2"), filepath.Join(dir, "rev-1")))
		},
		"git locked":    func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/index.lock"), "") },
		"git merging":   func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/MERGE_HEAD"), "") },
		"git rebasing":  func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/rebase-merge/x"), "") },
		"git moved":     func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/refs/heads/main"), "2222") },
		"git detached":  func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/HEAD"), "1111") },
		"git index":     func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/index"), "new") },
		"git vanished":  func(t *testing.T, dir string) { mustDo(t, os.RemoveAll(filepath.Join(dir, ".git"))) },
		"nested locked": func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "modules/sub/index.lock"), "") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gitLike(t, filepath.Join(dir, ".git"))
			gitLike(t, filepath.Join(dir, "modules/sub"))
			writeFile(t, filepath.Join(dir, "rev-1/sub/.git"), "gitdir: ../../modules/sub\n")
			writeFile(t, filepath.Join(dir, "rev-1/web.yaml"), "web")
			writeFile(t, filepath.Join(dir, "rev-2/web.yaml"), "web")
			swapLink(t, "rev-1", filepath.Join(dir, "current"))
			tree := NewTree(filepath.Join(dir, "current"))
			d := steadyDraft(t, tree)
			mustDo(t, tree.verify(d))
			change(t, dir)
			var u *unsteadyError
			if err := tree.verify(d); !errors.As(err, &u) {
				t.Errorf("not seen: %v", err)
			}
		})
	}
}

// gitLike makes a directory that looks like git's.
func gitLike(t *testing.T, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
	writeFile(t, filepath.Join(dir, "refs/heads/main"), "1111\n")
	writeFile(t, filepath.Join(dir, "index"), "DIRC")
}

// A file that changed within the clock's tick may change again and look the
// same; it is not read yet.
func TestTreeYoungFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	var u *unsteadyError
	for {
		writeFile(t, path, "web")
		info, err := os.Stat(path)
		mustDo(t, err)
		_, err = NewTree(dir).prepare(nil)
		if time.Since(info.ModTime()) > clockTick {
			continue // this machine is busy; the file was not young any more
		}
		if !errors.As(err, &u) || u.wait != clockTick {
			t.Errorf("%v", err)
		}
		return
	}
}

// A tree deeper than PATH_MAX allows ends in an error, any other is read.
func TestTreeDeep(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("d/", 300)
	writeFile(t, filepath.Join(dir, deep, "web.yaml"), "web")
	wantFiles(t, mustRead(t, NewTree(dir)), map[string]string{deep + "web.yaml": "web"})
}

func TestReadDirOfOneFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "service"), "kind: Service")
	s, err := ReadDir(filepath.Join(dir, "service"))
	mustDo(t, err)
	wantFiles(t, s, map[string]string{"service": "kind: Service"})

	r, w, err := os.Pipe()
	mustDo(t, err)
	defer r.Close()
	_, err = w.WriteString("kind: Service")
	mustDo(t, errors.Join(err, w.Close()))
	s, err = ReadDir(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	mustDo(t, err)
	if string(s.Files[0].Data) != "kind: Service" {
		t.Errorf("%q", s.Files[0].Data)
	}
	if _, err := ReadDir(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Any tree of directories and files is read as a plain walk would, whatever
// the names.
func TestTreeProperty(t *testing.T) {
	base := t.TempDir()
	n := 0
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "team", ".git", "..data", "x~", "old.bak", "a.yaml", "b.json", "c.yml", ".d.yaml"}),
		rapid.StringMatching(`[^/\x00]{1,12}(\.yaml|\.yml)?`).Filter(func(s string) bool { return s != "." && s != ".." && len(s) < 200 }),
	)
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		want := map[string]string{}
		for i, parts := range rapid.SliceOfN(rapid.SliceOfN(name, 1, 4), 0, 8).Draw(t, "paths") {
			path := filepath.Join(parts...)
			if os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755) != nil {
				continue // a file is in the way
			}
			data := fmt.Sprint("file ", i)
			if os.WriteFile(filepath.Join(dir, path), []byte(data), 0o644) != nil {
				continue // a directory is
			}
			if wanted(parts[len(parts)-1]) && !slices.ContainsFunc(parts, ignored) {
				want[path] = data
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := contents(s); !maps.Equal(got, want) {
			t.Fatalf("got %q want %q", got, want)
		}
	})
}
