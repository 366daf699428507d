package manifest

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestC43OneBadManifest(t *testing.T)   { golden(t, "load/c43-one-bad-manifest") }
func TestUnparsedDocument(t *testing.T)    { golden(t, "load/unparsed") }
func TestNamedDocument(t *testing.T)       { golden(t, "load/named") }
func TestEmptyFile(t *testing.T)           { golden(t, "load/empty-file") }
func TestLostClusterIP(t *testing.T)       { golden(t, "load/lost-cluster-ip") }
func TestTwiceOneBad(t *testing.T)         { golden(t, "load/twice-one-bad") }
func TestStaleNodesAndSlices(t *testing.T) { golden(t, "load/stale-nodes-and-slices") }

// tempFile names a file of its own for one run of a property.
func tempFile(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "last-good-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "last-good.yaml")
}

// treeOf is a small tree for the tests below.
var treeOf = map[string]string{
	"a b.yaml": string(benchFile(1, 2, 0).Data),
	"list.yaml": `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: listed}
  spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}
`,
	"json.json":  `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`,
	"odd\n.yaml": "# first a comment\n---\n# web\napiVersion: v1\nkind: Service\nmetadata: {name: odd}\nspec: {clusterIP: 10.96.0.8, ports: [{port: 80}]}",
}

// C62: while the directory is missing or empty the last state stays, whether
// this process has served it or the one before.
func TestC62DirectoryDisappears(t *testing.T) {
	file := filepath.Join(t.TempDir(), "last-good.yaml")
	l := NewLoader(Config{}, file)
	if l.Last() != nil {
		t.Error("a Result before the first")
	}
	served := l.Load(snapshotOf(treeOf))
	l.Accept(served)
	if empty := l.Load(&Snapshot{}); len(empty.Services) > 0 || l.Last() != served {
		t.Error("an empty Snapshot must mean nothing, and not be what is served until it is accepted")
	}
	if err := l.LastGood().WriteFile(file); err != nil {
		t.Fatal(err)
	}
	restarted := NewLoader(Config{}, file)
	restored := restarted.Restore()
	if got, want := withoutProblems(restored), withoutProblems(served); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(restored.Stale) != 5 || len(restarted.Load(&Snapshot{}).Services) > 0 {
		t.Errorf("stale %v", restored.Stale)
	}
}

// withoutProblems renders what a Result serves.
func withoutProblems(r *Result) string {
	return render(&Result{Services: r.Services, Nodes: r.Nodes})
}

// A Result that is not accepted, such as one that removes too much and is
// held, doesn't become what broken documents fall back to; one that is
// accepted later does.
func TestHeldResultIsNotLastGood(t *testing.T) {
	web := string(benchFile(1, 1, 0).Data)
	l := NewLoader(Config{}, "")
	l.Accept(l.Load(snapshotOf(map[string]string{"web.yaml": web})))
	held := l.Load(snapshotOf(map[string]string{"other.yaml": string(benchFile(2, 1, 0).Data)}))
	broken := snapshotOf(map[string]string{"web.yaml": "{"})
	if r := l.Load(broken); len(r.Stale) != 2 || r.Services[0].Name != "svc-00001" {
		t.Errorf("the accepted version must stay:\n%s", render(r))
	}
	l.Accept(held)
	if r := l.Load(broken); len(r.Stale) != 0 || l.Last() != held {
		t.Errorf("it was removed:\n%s", render(r))
	}
}

func TestLastGoodFileReadsWell(t *testing.T) {
	l := NewLoader(Config{}, "")
	l.Accept(l.Load(snapshotOf(map[string]string{"odd\n.yaml": treeOf["odd\n.yaml"], "web.yaml": "kind: Node\napiVersion: v1\nmetadata: {name: n1}\n"})))
	var b strings.Builder
	n, err := l.LastGood().WriteTo(&b)
	if err != nil || int(n) != b.Len() {
		t.Fatal(n, err)
	}
	want := `# The manifests that pointsman served last on this host. It falls back to them where a document turns bad; don't edit.
# sha256 b5551c6661f60274713cdfa57b1a520cb22c8a820e000a1066a4ab61ba7743d1
---
# "odd\n.yaml":4 (100 bytes)
apiVersion: v1
kind: Service
metadata: {name: odd}
spec: {clusterIP: 10.96.0.8, ports: [{port: 80}]}
---
# web.yaml:1 (47 bytes)
kind: Node
apiVersion: v1
metadata: {name: n1}
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A last-good file that is damaged anywhere is told of and ignored; the
// manifests that are good are served.
func TestDamagedLastGoodFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "last-good.yaml")
	l := NewLoader(Config{}, file)
	l.Accept(l.Load(snapshotOf(treeOf)))
	if err := l.LastGood().WriteFile(file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	good := string(benchFile(2, 1, 0).Data)
	tree := snapshotOf(map[string]string{"a b.yaml": "{", "good.yaml": good})
	for _, damaged := range [][]byte{nil, whole[:len(whole)/2], whole[1:], bytes.Replace(whole, []byte("port: 80"), []byte("port: 81"), 1)} {
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		l := NewLoader(Config{}, file)
		r := l.Load(tree)
		expect(t, r, file+":1: warning: the last good versions are ignored: the file is damaged")
		if len(r.Services) != 1 || len(r.Stale) != 0 {
			t.Errorf("got\n%s", render(r))
		}
		l.Accept(r)
		if r := l.Load(tree); slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Source.File == file }) {
			t.Error("the problem must end with the first accepted Result")
		}
	}
}

// A document that a newer version refuses is left out by itself; a file that
// isn't there is no problem; one that can't be read is.
func TestReadLastGood(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "last-good.yaml")
	l := NewLoader(Config{}, file)
	l.Accept(l.Load(snapshotOf(treeOf)))
	if err := l.LastGood().WriteFile(file); err != nil {
		t.Fatal(err)
	}
	objects, problems := readLastGood(file, Config{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/24")}})
	if len(objects) != 5 || len(problems) != 0 {
		t.Errorf("%d objects, %v", len(objects), problems)
	}
	objects, problems = readLastGood(file, Config{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.97.0.0/24")}})
	if len(objects) != 2 || len(problems) != 3 || !strings.HasSuffix(problems[0].String(), "the last good version (a b.yaml:1) is not good any more, and ignored") {
		t.Errorf("%d objects, %v", len(objects), problems)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"": 0, filepath.Join(dir, "none"): 0, dir: 1, pipe: 1} {
		if objects, problems := readLastGood(path, Config{}); len(objects) != 0 || len(problems) != want {
			t.Errorf("%q: %v, %v", path, objects, problems)
		}
	}
}

// A file that can't be replaced leaves the old one, and no other beside it.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "last-good.yaml")
	if err := os.MkdirAll(filepath.Join(file, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (LastGood{}).WriteFile(file); err == nil {
		t.Error("no error")
	}
	if err := (LastGood{}).WriteFile(filepath.Join(dir, "none", "last-good.yaml")); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// What is restored is what was served, in the same words, however its file was
// written: hosts are compared by the hash.
func TestRestoredHash(t *testing.T) {
	const spec = `"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}]}`
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},` + spec + `}`
	for name, text := range map[string]string{
		"a byte order mark":             "\ufeff" + service,
		"two byte order marks":          "\ufeff\ufeff" + service,
		"a mark after a comment":        "# a\n\ufeff" + service,
		"a list that says the kind":     `{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"a"},` + spec + `}]}`,
		"the same, with an empty kind":  `{"apiVersion":"v1","kind":"ServiceList","items":[{"kind":"","metadata":{"name":"a"},` + spec + `}]}`,
		"a list that leaves it to them": `{"apiVersion":"v1","kind":"List","items":[` + service + `]}`,
	} {
		served := NewLoader(Config{}, "").Load(snapshotOf(map[string]string{"a.yaml": text}))
		var kept bytes.Buffer
		if _, err := served.Documents().WriteTo(&kept); err != nil {
			t.Fatal(err)
		}
		restored := Resume(kept.Bytes(), Config{}).Restore()
		if len(served.Services) != 1 || len(restored.Services) != 1 || restored.Hash() != served.Hash() {
			t.Errorf("%s: %d Services (%v), restored %d (%v)", name, len(served.Services), served.Problems, len(restored.Services), restored.Problems)
		}
	}
}
