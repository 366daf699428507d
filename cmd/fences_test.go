// Package cmd holds the tests of what the repository as a whole keeps to.
package cmd

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "pointsman/"

// outside says which package knows an outside library. The others, and their
// tests, speak to that package; so a library's types, faults and next major
// version stay in one place.
var outside = map[string][]string{
	"k8s.io/api/":                     {"state/manifest", "state/manifest/pin"},
	"sigs.k8s.io/yaml":                {"state/manifest"},
	"github.com/fsnotify/fsnotify":    {"state/manifest"},
	"github.com/hashicorp/memberlist": {"gossip"},
	"sigs.k8s.io/knftables":           {"reconcile/nft"},
	"github.com/vishvananda/netlink":  {"reconcile/host"},
	"github.com/urfave/cli/":          {"cmd/pointsman"},
	"github.com/coreos/go-systemd/":   {"cmd/pointsman"},
	// For the tests of examples/monitoring, and of it the parser of PromQL alone:
	// the rest brings client-go along.
	"github.com/prometheus/prometheus/": {"cmd/pointsman"},
}

// inside says which packages of ours those under a folder may import, the most
// particular folder first. cmd sees all. gossip and reconcile never see each
// other: what passes between them is a value of state's.
var inside = []struct {
	folder  string
	imports []string
}{
	{"reconcile/lab", nil},
	// The reading is what the rest is compared with, so it sees none of it.
	{"reconcile/conformance/reading", []string{"state"}},
	{"reconcile/conformance", []string{"state", "reconcile", "reconcile/nft", "reconcile/conformance/reading"}},
	{"reconcile/nft", nil},
	{"reconcile/host", []string{"state"}},
	{"reconcile/doctor", []string{"state", "reconcile/host"}},
	{"reconcile", []string{"state", "state/event", "reconcile/nft", "reconcile/host"}},
	{"gossip/probe", []string{"state"}},
	{"gossip", []string{"state", "state/event", "gossip", "gossip/probe"}},
	{"state/manifest/pin", []string{"state", "state/manifest"}},
	{"state/manifest", []string{"state", "state/event"}},
	// It's told by its caller how a tree is judged.
	{"state/gitsync", nil},
	{"state/change", []string{"state"}},
	{"state/event", nil},
	{"state", nil},
}

// lab is for tests, and for the demo.
const (
	lab  = "reconcile/lab"
	demo = "cmd/pointsman-demo"
)

// goPackage is what `go list -json` tells about a package.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p goPackage) path() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// within reports whether a package is a folder's own or below it.
func within(path, folder string) bool {
	folder = strings.TrimSuffix(folder, "/")
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func TestOutsideLibrariesHaveOneImporter(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for library, owners := range outside {
				if within(imported, library) && !slices.Contains(owners, p.path()) {
					t.Errorf("%s imports %s, which is for %v alone", p.path(), imported, owners)
				}
			}
		}
	}
}

func TestStateImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, p := range packages(t) {
		if p.path() != "state" {
			continue
		}
		for _, imported := range p.Imports {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") || first+"/" == module {
				t.Errorf("state imports %s", imported)
			}
		}
	}
}

func TestPackagesSeeOnlyWhatTheyMay(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if path, ours := strings.CutPrefix(imported, module); ours && !maySee(p.path(), path) {
				t.Errorf("%s imports %s", p.path(), path)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			path, ours := strings.CutPrefix(imported, module)
			if ours && path != p.path() && path != lab && !maySee(p.path(), path) {
				t.Errorf("the tests of %s import %s", p.path(), path)
			}
		}
	}
}

func maySee(importer, imported string) bool {
	if imported == lab {
		return importer == demo
	}
	for _, rule := range inside {
		if !within(importer, rule.folder) {
			continue
		}
		return slices.Contains(rule.imports, imported)
	}
	return within(importer, "cmd")
}

func TestExamplesAreComplete(t *testing.T) {
	cases, err := os.ReadDir("../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		dir := filepath.Join("../examples", c.Name())
		if _, err := os.Stat(filepath.Join(dir, "README.md")); err != nil {
			t.Error(err)
		}
		manifests, err := filepath.Glob(filepath.Join(dir, "manifests", "*.yaml"))
		if err != nil || len(manifests) == 0 {
			t.Errorf("%s/manifests holds no .yaml file", dir)
		}
	}
}
