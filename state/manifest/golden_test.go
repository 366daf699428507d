package manifest

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"pointsman/state"
)

var updateJoin = flag.Bool("update-join", false, "write the want files of testdata/join and testdata/load")

// ranges is a Config such as hosts have.
var ranges = Config{
	NodePortFirst: 30000, NodePortLast: 32767,
	ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")},
}

// snapshotOf makes a Snapshot of files by path.
func snapshotOf(files map[string]string) *Snapshot {
	var all []*File
	for _, path := range slices.Sorted(maps.Keys(files)) {
		all = append(all, fileOf(path, files[path]))
	}
	return NewSnapshot(all)
}

// fileOf gives a file with a text, or with "(unreadable: WHY)" one that can't
// be read.
func fileOf(path, text string) *File {
	if why, ok := strings.CutPrefix(strings.TrimSpace(text), "(unreadable: "); ok {
		return &File{Path: path, Fault: strings.TrimSuffix(why, ")")}
	}
	return &File{Path: path, Data: []byte(text)}
}

// loadFresh gives what the files mean to a host that starts.
func loadFresh(files map[string]string) *Result {
	return NewLoader(ranges, "").Load(snapshotOf(files))
}

// render writes a Result as the goldens have it.
func render(r *Result) string {
	var b strings.Builder
	for _, s := range r.Services {
		renderService(&b, s)
	}
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "node %s (%s) zone=%q %v\n", n.Name, n.Source, n.Zone, n.Addresses)
	}
	for _, k := range r.Stale {
		fmt.Fprintf(&b, "stale %s\n", k)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

func renderService(b *strings.Builder, s *state.Service) {
	fmt.Fprintf(b, "service %s (%s)", s.ObjectName, s.Source)
	for _, f := range []struct {
		name  string
		value any
		show  bool
	}{
		{"clusterIPs", s.ClusterIPs, len(s.ClusterIPs) > 0},
		{"internal", s.InternalTrafficPolicy, s.InternalTrafficPolicy != state.Cluster},
		{"external", s.ExternalTrafficPolicy, s.ExternalTrafficPolicy != state.Cluster},
		{"affinity", s.Affinity, s.Affinity > 0},
		{"ranges", s.SourceRanges, len(s.SourceRanges) > 0},
		{"health", s.HealthCheckNodePort, s.HealthCheckNodePort > 0},
		{"nodes", s.Nodes, s.Nodes != nil},
		{"when-all-fail", "reject", s.RejectWhenAllFail},
		{"panic", s.PanicThreshold, s.PanicThreshold > 0},
	} {
		if f.show {
			fmt.Fprintf(b, " %s=%v", f.name, f.value)
		}
	}
	b.WriteByte('\n')
	for _, p := range s.Ports {
		fmt.Fprintf(b, "  port %q %s\n", p.Name, p.Protocol)
		for _, f := range p.Frontends {
			fmt.Fprintf(b, "    %s\n", renderFrontend(f))
		}
		for _, e := range p.Endpoints {
			fmt.Fprintf(b, "    -> %s\n", renderEndpoint(e))
		}
	}
}

func renderFrontend(f state.Frontend) string {
	kind := [...]string{"clusterIP", "externalIP", "loadBalancer", "nodePort"}[f.Kind]
	return fmt.Sprintf("%s %s", kind, netip.AddrPortFrom(f.Address, f.Port))
}

func renderEndpoint(e state.Endpoint) string {
	words := []string{e.Address.String()}
	for _, w := range []struct {
		text string
		show bool
	}{
		{"node=" + e.NodeName, e.NodeName != ""},
		{"zone=" + e.Zone, e.Zone != ""},
		{fmt.Sprint("hintNodes=", e.HintNodes), len(e.HintNodes) > 0},
		{fmt.Sprint("hintZones=", e.HintZones), len(e.HintZones) > 0},
		{"not-ready", !e.Ready}, {"not-serving", !e.Serving}, {"terminating", e.Terminating},
		{"check=" + renderCheck(e.Check), e.Check != nil && !isPlain(e)},
	} {
		if w.show {
			words = append(words, w.text)
		}
	}
	return strings.Join(words, " ")
}

// golden plays the steps of a txtar file one after the other, as on one host
// that accepts each Result, and compares each with its want file (see stepsOf).
func golden(t *testing.T, file string) {
	t.Helper()
	path := filepath.Join("testdata", file+".txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lastGood := filepath.Join(t.TempDir(), "last-good.yaml")
	loader := NewLoader(ranges, lastGood)
	for i, step := range stepsOf(archive) {
		if step.restart {
			loader = NewLoader(ranges, lastGood)
		}
		r := loader.Load(snapshotOf(step.files))
		loader.Accept(r)
		if err := loader.LastGood().WriteFile(lastGood); err != nil {
			t.Fatal(err)
		}
		if got := render(r); got != string(archive.Files[step.want].Data) {
			if *updateJoin {
				archive.Files[step.want].Data = []byte(got)
				continue
			}
			t.Errorf("step %d: got\n%s\nwant\n%s", i+1, got, archive.Files[step.want].Data)
		}
	}
	if *updateJoin {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type goldenStep struct {
	files   map[string]string
	want    int // index in the archive
	restart bool
}

// stepsOf: a file named want ends a step. A file named restart says that a new
// Loader starts on what the one before left behind.
// Files are carried over to the next step unless they
// are there again; one with the content "(removed)" is removed.
func stepsOf(a *txtar.Archive) []goldenStep {
	var out []goldenStep
	step := goldenStep{files: map[string]string{}}
	for i, f := range a.Files {
		switch {
		case f.Name == "want":
			step.want = i
			out = append(out, step)
			step = goldenStep{files: maps.Clone(step.files)}
		case f.Name == "restart":
			step.restart = true
		case strings.TrimSpace(string(f.Data)) == "(removed)":
			delete(step.files, f.Name)
		default:
			step.files[f.Name] = string(f.Data)
		}
	}
	return out
}

// problemLines gives the problems as text.
func problemLines(r *Result) []string {
	var out []string
	for _, p := range r.Problems {
		out = append(out, p.String())
	}
	return out
}

// expect fails unless each of the wanted lines is among the problems.
func expect(t *testing.T, r *Result, want ...string) {
	t.Helper()
	got := problemLines(r)
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no problem\n\t%s\namong\n\t%s", w, strings.Join(got, "\n\t"))
		}
	}
}

func compareResults(t rapid.TB, what string, got, want *Result) {
	t.Helper()
	if g, w := render(got), render(want); g != w {
		t.Errorf("%s: got\n%s\nwant\n%s", what, g, w)
	}
}
