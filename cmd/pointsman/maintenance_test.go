package main

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state"
)

// drainMap is a fleet of one host, which has only drains.
type drainMap struct {
	drains map[state.DrainTarget]*state.Drain
	writes int
	fails  error
}

func (m *drainMap) Status() *gossip.Status {
	return &gossip.Status{View: &gossip.View{Drains: maps.Clone(m.drains)}}
}

func (m *drainMap) Drain(d state.Drain) error {
	m.writes++
	d.By = "n1"
	m.drains[d.Target] = &d
	return m.fails
}

func (m *drainMap) Undrain(t state.DrainTarget) error {
	m.writes++
	delete(m.drains, t)
	return nil
}

// shown lists what is drained.
func (m *drainMap) shown() string {
	var all []string
	for t, d := range m.drains {
		all = append(all, strings.TrimSpace(strings.TrimPrefix(t.String(), "endpoint ")+" "+d.Reason))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func newMaintenance(t *testing.T) (*maintenance, *drainMap) {
	fleet := &drainMap{drains: map[state.DrainTarget]*state.Drain{}}
	return &maintenance{dir: filepath.Join(t.TempDir(), maintenanceDir), node: "n1", fleet: fleet, health: &reconcile.Health{},
		log: slog.New(slog.NewTextHandler(io.Discard, nil))}, fleet
}

// TestMaintenanceFiles: which files drain what, what is wrong with others, and
// that nothing is written while nothing changes.
func TestMaintenanceFiles(t *testing.T) {
	m, fleet := newMaintenance(t)
	now := time.Now()
	look := func(what, drained, wrong string) {
		t.Helper()
		for range 2 {
			m.look(now)
			writes := fleet.writes
			m.look(now)
			others := slices.DeleteFunc(m.health.Status(now).Degraded, func(why string) bool { return strings.HasPrefix(why, "nftables: ") })
			degraded := strings.Join(others, "; ")
			if got := fleet.shown(); got != drained || !strings.Contains(degraded, wrong) || (wrong == "") != (degraded == "") || fleet.writes != writes {
				t.Errorf("%s: drained %q, want %q; wrong %q, want %q; %d more writes", what, got, drained, degraded, wrong, fleet.writes-writes)
			}
		}
	}
	write := func(name, content string) { replace(t, filepath.Join(m.dir, name), content) }
	look("the directory is made", "", "")
	if info := must[os.FileInfo](t)(os.Stat(m.dir)); info.Mode().Perm() != 0o755 {
		t.Error(info.Mode())
	}
	write("10.20.0.11", "")
	write("10.20.0.12:8080", "  disk\x1b[2J\tis \xffbroken \nand more\n")
	write("[2001:db8::1]:8080", "x")
	write("2001:DB8::2", strings.Repeat("é", 150))
	write(".10.20.0.13", "")
	write("10.20.0.13~", "")
	write("#10.20.0.13#", "")
	write("10.20.0.13.swp", "")
	all := "10.20.0.11, 10.20.0.12:8080 disk [2J is broken, 2001:db8::2 " + strings.Repeat("é", 100) + ", [2001:db8::1]:8080 x"
	look("four", all, "")
	for _, name := range []string{"web", "10.20.0.13:0", "10.20.0.13:99999", "10.20.0.256", "fe80::1%eth0", "10.20.0.0"} {
		write(name, "")
	}
	if err := errors.Join(os.Mkdir(filepath.Join(m.dir, "10.20.0.14"), 0o755), syscall.Mkfifo(filepath.Join(m.dir, "10.20.0.15"), 0o644),
		os.Symlink("nowhere", filepath.Join(m.dir, "10.20.0.16"))); err != nil {
		t.Fatal(err)
	}
	look("others", "10.20.0.0, "+all, "in "+m.dir+`: "10.20.0.13:0" drains nothing (its name is no endpoint: rename it to ADDRESS or ADDRESS:PORT, or remove it), "10.20.0.13:99999" drains nothing (its name`)
	for _, name := range []string{"web", "10.20.0.13:0", "10.20.0.13:99999", "10.20.0.256", "fe80::1%eth0", "10.20.0.0"} {
		os.Remove(filepath.Join(m.dir, name))
	}
	look("no files", all, `"10.20.0.14" drains nothing (it is no regular file: put one in its place, or remove it), "10.20.0.15" drains nothing (it is no`)
	write("2001:db8::2", "as well")
	write("10.20.0.11", "fans")
	if err := os.RemoveAll(filepath.Join(m.dir, "10.20.0.14")); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(m.dir, "10.20.0.15"))
	os.Remove(filepath.Join(m.dir, "2001:DB8::2"))
	const noted = "10.20.0.11 fans, 10.20.0.12:8080 disk [2J is broken, 2001:db8::2 as well, [2001:db8::1]:8080 x"
	look("a link that leads nowhere", noted, `"10.20.0.16" drains nothing (it is no regular file`)
	os.Remove(filepath.Join(m.dir, "10.20.0.16"))
	look("a reason comes, a name changes", noted, "")
	loop := filepath.Join(m.dir, "10.20.0.17")
	if err := errors.Join(os.Symlink(loop, loop), os.Remove(filepath.Join(m.dir, "10.20.0.11"))); err != nil {
		t.Fatal(err)
	}
	look("one that can't be looked at", noted, "the drains of its files stay: stat "+loop)
	write("10.20.0.11", "fans")
	os.Remove(loop)
	for i := range maxMaintenance {
		write("x"+strconv.Itoa(i), "")
	}
	look("too many", noted, "the drains of its files stay: ")
	if err := errors.Join(os.RemoveAll(m.dir), os.WriteFile(m.dir, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	look("not a directory", noted, "not a directory")
	os.Remove(m.dir)
	look("gone, with all files", "", "")
	write("10.20.0.11", "")
	fleet.fails = errors.New("too many drains")
	m.look(now)
	if d := m.health.Status(now).Degraded; !strings.Contains(strings.Join(d, ""), "endpoint 10.20.0.11 isn't drained: too many drains") {
		t.Error(d)
	}
}

// TestMaintenanceChanges: whose drain is whose.
func TestMaintenanceChanges(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	target := state.DrainTarget{Endpoint: addrPort("10.20.0.11:8080")}
	file := &maintenanceFile{reason: "disk"}
	drain := func(by string, isFile bool, left time.Duration) *state.Drain {
		return &state.Drain{Target: target, By: by, File: isFile, Reason: "disk", Since: now.Add(-time.Hour), Until: now.Add(left), Grace: time.Second}
	}
	for name, tt := range map[string]struct {
		file       *maintenanceFile
		drain      *state.Drain
		set, ended bool
	}{
		"a file":                               {file: file, set: true},
		"its drain":                            {file: file, drain: drain("n1", true, fileDrain)},
		"is made to last longer":               {file: file, drain: drain("n1", true, fileRenews), set: true},
		"gets another reason":                  {file: &maintenanceFile{reason: "fans"}, drain: drain("n1", true, fileDrain), set: true},
		"ends with the file":                   {drain: drain("n1", true, time.Hour), ended: true},
		"another node's file":                  {drain: drain("n2", true, time.Hour)},
		"two nodes' files":                     {file: file, drain: drain("n2", true, time.Hour)},
		"a command's drain":                    {drain: drain("n1", false, time.Hour)},
		"a command's drain and a file":         {file: file, drain: drain("n1", false, time.Hour)},
		"a command's drain that will have end": {file: file, drain: drain("n2", false, fileTakesOver), set: true},
	} {
		files, drains := map[state.DrainTarget]*maintenanceFile{}, map[state.DrainTarget]*state.Drain{}
		if tt.file != nil {
			files[target] = tt.file
		}
		if tt.drain != nil {
			drains[target] = tt.drain
		}
		set, ended := maintenanceChanges(files, drains, "n1", now)
		if (len(set) == 1) != tt.set || (len(ended) == 1) != tt.ended {
			t.Errorf("%s: set %v, ended %v", name, set, ended)
			continue
		}
		if tt.set && (!set[0].File || set[0].Reason != tt.file.reason || !set[0].Until.Equal(now.Add(fileDrain))) {
			t.Errorf("%s: %+v", name, set[0])
		}
		if tt.set && tt.drain != nil && (!set[0].Since.Equal(tt.drain.Since) || set[0].Grace != time.Second) {
			t.Errorf("%s: the grace begins anew: %+v", name, set[0])
		}
	}
}

// TestMaintenanceOrder: what is done, and what is told of it, doesn't depend on
// the order that a map happens to have.
func TestMaintenanceOrder(t *testing.T) {
	var targets []state.DrainTarget
	files, drains := map[state.DrainTarget]*maintenanceFile{}, map[state.DrainTarget]*state.Drain{}
	for i := range 20 {
		target := state.DrainTarget{Endpoint: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, 0, byte(100 + i)}), 80)}
		targets = append(targets, target)
		files[target] = &maintenanceFile{}
		drains[target] = &state.Drain{Target: target, By: "n1", File: true}
	}
	set, _ := maintenanceChanges(files, nil, "n1", time.Now())
	_, ended := maintenanceChanges(nil, drains, "n1", time.Now())
	if !slices.Equal(ended, targets) {
		t.Errorf("ended %v", ended)
	}
	if !slices.EqualFunc(set, targets, func(d state.Drain, target state.DrainTarget) bool { return d.Target == target }) {
		t.Errorf("set %v", set)
	}
}

// TestMaintenancePipe: a file that becomes a pipe between two looks at it keeps
// nobody waiting for a writer.
func TestMaintenancePipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "10.20.0.11")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []int{os.O_RDONLY | syscall.O_NONBLOCK, os.O_RDWR} { // without anybody who writes, and with one who doesn't
		defer must[*os.File](t)(os.OpenFile(pipe, flags, 0)).Close()
		read := make(chan error, 1)
		go func() { _, err := firstLine(pipe); read <- err }()
		select {
		case err := <-read:
			if !errors.Is(err, errNoFile) {
				t.Error(err)
			}
		case <-time.After(deadline):
			t.Error("it waits")
		}
	}
}

// TestParseEndpoint: what is no endpoint's address can't be drained.
func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"10.20.0.11": "10.20.0.11:0", "10.20.0.11:80": "10.20.0.11:80", "::ffff:10.20.0.11": "10.20.0.11:0",
		"2001:db8::1": "[2001:db8::1]:0", "[2001:db8::1]": "[2001:db8::1]:0", "[2001:db8::1]:80": "[2001:db8::1]:80",
		"": "", "web": "", "10.20.0.11:0": "", "10.20.0.11:": "", "10.20.0.11:65536": "", "fe80::1%eth0": "", "[fe80::1%\x1b[2J]:80": "",
	} {
		e, err := parseEndpoint(text)
		if got := e.String(); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// BenchmarkMaintenance is what a look at a hundred files costs: there's one a
// second.
func BenchmarkMaintenance(b *testing.B) {
	dir := b.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, "10.20.0."+strconv.Itoa(i)), []byte("disk\n"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	m := &maintenance{dir: dir, node: "n1", fleet: &drainMap{drains: map[state.DrainTarget]*state.Drain{}}, health: &reconcile.Health{}, log: slog.New(slog.DiscardHandler)}
	for b.Loop() {
		m.look(time.Now())
	}
}

// FuzzMaintenanceName: a file's name is an endpoint's, or refused.
func FuzzMaintenanceName(f *testing.F) {
	for _, name := range []string{"10.20.0.11", "10.20.0.11:80", "[2001:db8::1]:80", "::1", "fe80::1%\x1b", "::ffff:10.0.0.1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		target, err := maintenanceTarget(name)
		if err != nil {
			return
		}
		if again, err := parseTarget(target.String()); err != nil || again != target {
			t.Errorf("%q: %v, %v, %v", name, target, again, err)
		}
	})
}
