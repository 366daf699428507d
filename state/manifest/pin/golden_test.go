package pin

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"pointsman/state/manifest"
)

var update = flag.Bool("update", false, "write the want files of testdata")

// ranges is a Config such as hosts have.
var ranges = manifest.Config{
	NodePortFirst: 30000, NodePortLast: 32767,
	ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")},
}

// TestGolden: the files of an archive, pinned, are its files below want/, and
// what is said of them is its file "want". Files below git/ are what the last
// commit held; the file "ranges" holds other ranges than the usual.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			now, former, cfg := inputs(t, a)
			got := pinned(t, now, former, cfg)
			if *update {
				a.Files = append(slices.DeleteFunc(a.Files, isWant), got...)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := slices.DeleteFunc(a.Files, func(f txtar.File) bool { return !isWant(f) })
			if g, w := format(got), format(want); g != w {
				t.Errorf("got:\n%s\nwant:\n%s", g, w)
			}
		})
	}
}

func format(files []txtar.File) string { return string(txtar.Format(&txtar.Archive{Files: files})) }

func isWant(f txtar.File) bool { return f.Name == "want" || strings.HasPrefix(f.Name, "want/") }

// inputs reads an archive.
func inputs(t *testing.T, a *txtar.Archive) (now, former *manifest.Snapshot, cfg manifest.Config) {
	now, cfg = &manifest.Snapshot{}, ranges
	for _, f := range a.Files {
		git, isGit := strings.CutPrefix(f.Name, "git/")
		switch {
		case isWant(f):
		case f.Name == "ranges":
			cfg = parseRanges(t, string(f.Data))
		case isGit && former == nil:
			former = &manifest.Snapshot{}
			fallthrough
		case isGit:
			former.Files = append(former.Files, &manifest.File{Path: git, Data: f.Data})
		default:
			now.Files = append(now.Files, &manifest.File{Path: f.Name, Data: f.Data})
		}
	}
	return now, former, cfg
}

func parseRanges(t *testing.T, text string) (cfg manifest.Config) {
	for _, line := range strings.Fields(text) {
		if _, err := fmt.Sscanf(line, "%d-%d", &cfg.NodePortFirst, &cfg.NodePortLast); err == nil {
			continue
		}
		p, err := netip.ParsePrefix(line)
		if err != nil {
			t.Fatal(err)
		}
		cfg.ServiceCIDRs = append(cfg.ServiceCIDRs, p)
	}
	return cfg
}

// pinned gives the outcome as an archive has it.
func pinned(t *testing.T, now, former *manifest.Snapshot, cfg manifest.Config) []txtar.File {
	p, err := New(now, former, cfg)
	var said strings.Builder
	if err != nil {
		if !errors.Is(err, ErrNoServiceCIDR) {
			t.Error(err)
		}
		return []txtar.File{{Name: "want", Data: fmt.Appendln(nil, "error:", err)}}
	}
	for _, v := range p.Values {
		fmt.Fprintf(&said, "%s: %s %s (%s, from line %d)\n", v.Written, v.Field, v.Text, v.Service, v.Missing.Line)
	}
	for _, r := range p.Refusals {
		fmt.Fprintln(&said, "refused:", r)
	}
	var out []txtar.File
	for _, f := range p.Files {
		out = append(out, txtar.File{Name: "want/" + f.Path, Data: f.After})
	}
	return append(out, txtar.File{Name: "want", Data: []byte(said.String())})
}
