package gitsync

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trap gives a command that leaves a trace, and a function that says whether it
// was run.
func trap(t *testing.T) (command string, sprung func() bool) {
	t.Helper()
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	command = filepath.Join(dir, "trap")
	if err := os.WriteFile(command, []byte("#!/bin/sh\ntouch "+trace+"\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return command, func() bool {
		_, err := os.Stat(trace)
		return err == nil
	}
}

// evil is what a configuration can have git run, or trust.
const evil = `
[core]
	fsmonitor = TRAP
	hooksPath = HOOKS
	sshCommand = TRAP
	alternateRefsCommand = TRAP
	pager = TRAP
[filter "evil"]
	smudge = TRAP
	required = true
[gpg]
	program = TRAP
[gpg "ssh"]
	program = TRAP
	allowedSignersFile = /dev/null
[uploadpack]
	packObjectsHook = TRAP
[credential]
	helper = TRAP
[protocol]
	allow = always
`

// Nothing that a repository holds changes its files on the way, or runs.
func TestAttributesFiltersAndSubmodules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	command, sprung := trap(t)
	sub := newWorld(t, t.TempDir())
	sub.commit(files{"secret.yaml": "of another repository"})
	w.commit(files{"web.yaml": "web"})
	w.git("submodule", "--quiet", "add", sub.origin, "sub")
	id := w.commit(files{
		".gitattributes": "*.yaml filter=evil text eol=crlf ident export-subst\nhidden.yaml export-ignore\nutf16.yaml working-tree-encoding=UTF-16\n",
		".lfsconfig":     "[lfs]\n\turl = http://192.0.2.1/\n",
		"web.yaml":       "a\nb $Id$ $Format:%H$\n", "hidden.yaml": "hidden\n", "hooks/post-checkout": "#!/bin/sh\n" + command + "\n",
	}, "--no-verify")
	w.trees[id] = files{
		".gitattributes": w.trees[id][".gitattributes"], ".lfsconfig": w.trees[id][".lfsconfig"], ".gitmodules": w.trees[id][".gitmodules"],
		"web.yaml": "a\nb $Id$ $Format:%H$\n", "hidden.yaml": "hidden\n", "hooks/post-checkout": "#!/bin/sh\n" + command + "\n",
	}
	// What somebody may have put into our own repository's configuration, too.
	w.mustSync()
	config := filepath.Join(w.cfg.Dest, "repository.git", "config")
	text, err := os.ReadFile(config)
	w.must(err)
	w.must(os.WriteFile(config, []byte(string(text)+strings.NewReplacer("TRAP", command, "HOOKS", filepath.Dir(command)).Replace(evil)), 0o644))
	w.wantCurrent(id)
	of := filepath.Join(t.TempDir(), "tree")
	w.must(Tree{GitDir: filepath.Join(w.origin, ".git"), Commit: id}.Extract(t.Context(), of))
	if got := read(t, of); !maps.Equal(got, w.trees[id]) {
		t.Errorf("the repository's own: %q", got)
	}
	record, err := readRecord(filepath.Join(w.cfg.Dest, "current"))
	if err != nil || len(record.Skipped) != 1 || record.Skipped[0] != "sub" {
		t.Errorf("%+v, %v", record, err)
	}
	w.cfg.Verify = Verification{Method: "ssh", Signers: config}
	if err := w.sync(); err == nil {
		t.Error("a configuration of the repository vouches for its commits")
	}
	if sprung() {
		t.Error("something was run")
	}
}

// The host's configuration and environment are somebody's, too.
func TestConfigurationOfTheHost(t *testing.T) {
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "web"})
	command, sprung := trap(t)
	home := t.TempDir()
	w.must(os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[core]\n\tfsmonitor = "+command+"\n[url \"/nowhere\"]\n\tinsteadOf = file://\n"), 0o644))
	for name, value := range map[string]string{
		"HOME": home, "GIT_DIR": "/nowhere", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_SSH_COMMAND": command, "GIT_EXEC_PATH": "/nowhere",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": command, "GIT_TRACE": filepath.Join(home, "trace"),
	} {
		if strings.HasPrefix(name, "GIT_") {
			t.Setenv(name, value)
		}
	}
	w.trees[id] = files{"web.yaml": "web"}
	w.mustSync()
	w.wantCurrent(id)
	if sprung() {
		t.Error("something was run")
	}
	if _, err := os.Stat(filepath.Join(home, "trace")); err == nil {
		t.Error("git wrote a trace")
	}
}

func TestCheckContent(t *testing.T) {
	t.Parallel()
	const file = "100644"
	for name, x := range map[string]struct {
		entries []entry
		want    string // "" is well
	}{
		"good":           {[]entry{{file, "1", 5, "a/b.yaml"}, {"120000", "2", 5, "c"}, {"160000", "3", 0, "sub"}}, ""},
		"up":             {[]entry{{file, "1", 5, "../a"}}, "no path within the tree"},
		"up, later":      {[]entry{{file, "1", 5, "a/../../b"}}, "no path within the tree"},
		"absolute":       {[]entry{{file, "1", 5, "/etc/passwd"}}, "no path within the tree"},
		"empty":          {[]entry{{file, "1", 5, ""}}, "no path within the tree"},
		"a way round":    {[]entry{{file, "1", 5, "a//b"}}, "no path within the tree"},
		"git's":          {[]entry{{file, "1", 5, "a/.GIT/hooks/x"}}, ".git is no name"},
		"twice":          {[]entry{{file, "1", 5, "a"}, {"120000", "2", 5, "a"}}, "is there twice"},
		"a device":       {[]entry{{"060000", "1", 5, "a"}}, "mode 060000"},
		"a big file":     {[]entry{{file, "1", maxBlob + 1, "a"}}, "larger than 64 MiB"},
		"a long link":    {[]entry{{"120000", "1", maxLink + 1, "a"}}, "a link longer"},
		"too much of it": {append(many(8, maxBlob), entry{file, "1", 1, "x"}), "more than 512 MiB"},
		"just enough":    {many(8, maxBlob), ""},
	} {
		err := checkContent(x.entries)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %q", name, err, x.want)
		}
	}
}

func many(n int, size int64) []entry {
	var out []entry
	for i := range n {
		out = append(out, entry{"100644", "1", size, string(rune('a' + i))})
	}
	return out
}

// More files than anybody's fleet has, as git lists them.
func TestHugeTreeIsRefused(t *testing.T) {
	t.Parallel()
	line := "100644 blob 45b983be36b73c0788dc9cbcb76cbb80fc7bb057       3\t"
	var b strings.Builder
	for range maxEntries + 1 {
		b.WriteString(line + "x\x00")
	}
	if _, err := parseList([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "more than 200000 files") {
		t.Error(err)
	}
	// And for real: one blob that is too large, in a repository of a few KB.
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "web"})
	w.mustSync()
	w.write(files{"big.bin": "x"})
	w.must(os.Truncate(filepath.Join(w.origin, "big.bin"), maxBlob+1))
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "big")
	w.wantRefused(w.git("rev-parse", "HEAD"), `"big.bin": larger than 64 MiB`)
}

// What git gives for blobs isn't what was asked for: nothing of that is taken.
func TestBlobsThatDoNotFit(t *testing.T) {
	t.Parallel()
	asked := []entry{{"100644", "aa", 3, "a/b.yaml"}, {"120000", "bb", 1, "c"}}
	for given, well := range map[string]bool{
		"aa blob 3\nweb\nbb blob 1\na\n":    true,
		"":                                  false,
		"aa blob 3\n":                       false,
		"aa blob 3\nwe":                     false,
		"aa blob 3\nweb":                    false,
		"aa blob 3\nweb\nbb missing\n":      false,
		"aa blob 3\nweb\nbb blob 1\n":       false,
		"aa blob 4\nwebs\nbb blob 1\na\n":   false,
		"cc blob 3\nweb\nbb blob 1\na\n":    false,
		"aa tree 3\nweb\nbb blob 1\na\n":    false,
		"aa blob 3\nweb\nbb blob 1\n\x00\n": false,
	} {
		root, err := newTree(filepath.Join(t.TempDir(), "tree"))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeFiles(root, asked, bufio.NewReader(strings.NewReader(given))); (err == nil) != well {
			t.Errorf("%q: %v", given, err)
		}
		root.Close()
	}
}

// Of several bad links the first is named, each time: the refusal is compared
// with the last one.
func TestFirstBadLink(t *testing.T) {
	t.Parallel()
	var links []link
	for i := range 20 {
		links = append(links, link{fmt.Sprintf("%c.yaml", 'a'+i), "../x"})
	}
	root, err := newTree(filepath.Join(t.TempDir(), "tree"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := makeLinks(root, links); err == nil || err.Error() != `"a.yaml": a link to "../x" leads out of the tree` {
		t.Error(err)
	}
}

// What a command prints is copied to the buffer as exec does it.
func TestCapped(t *testing.T) {
	t.Parallel()
	for size, kept := range map[int]int{9: 9, 10: 10, 11: 0} {
		c := NewCapped(10)
		if _, err := io.Copy(c, strings.NewReader(strings.Repeat("x", size))); err != nil || len(c.Bytes()) != kept || c.Over() != (size > 10) {
			t.Errorf("of %d bytes %d are kept, over: %v, %v", size, len(c.Bytes()), c.Over(), err)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte("100644 blob 45b983be36b73c0788dc9cbcb76cbb80fc7bb057       3\ta b\x00160000 commit 45b983be       -\tsub\x00"))
	f.Add([]byte("100644 blob 1 -3\ta\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		entries, err := parseList(out)
		if err != nil {
			return
		}
		names := 0
		for _, e := range entries {
			if e.check() == nil && !strings.HasPrefix(filepath.Join("/top", e.path), "/top/") {
				t.Errorf("%q is taken", e.path)
			}
			names += len(e.path) + 1
		}
		if names > len(out) {
			t.Errorf("%q has more names than it was long", out)
		}
	})
}
