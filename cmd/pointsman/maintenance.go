package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/event"
)

// maintenance drains the endpoints that files in the state directory name, as
// long as the files are there: for those who have a shell, or Ansible, and not
// the agent's socket.
type maintenance struct {
	dir    string
	node   string
	fleet  drainer
	health *reconcile.Health
	log    *slog.Logger

	read    map[string]*maintenanceFile // by name: what didn't change is not read again
	trouble string                      // the last that was told
}

// drainer is gossip.Agent, as far as drains go.
type drainer interface {
	Status() *gossip.Status
	Drain(state.Drain) error
	Undrain(state.DrainTarget) error
}

// maintenanceDir is in the state directory.
const maintenanceDir = "maintenance"

// lookAtFiles is how often the directory is read. It's polled, since a directory
// that is made anew, or mounted, is a new one to inotify; with a hundred files
// that takes 0.2 % of a core.
const lookAtFiles = time.Second

func (m *maintenance) run(ctx context.Context) error {
	tick := time.NewTicker(lookAtFiles)
	defer tick.Stop()
	for {
		m.look(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look does what the files say now. Where they can't be read, the drains stay.
func (m *maintenance) look(now time.Time) {
	files, wrong, err := m.files()
	if err != nil {
		m.tell("the drains of its files stay: " + err.Error())
		return
	}
	set, ended := maintenanceChanges(files, m.fleet.Status().View.Drains, m.node, now)
	for _, d := range set {
		if err := m.fleet.Drain(d); err != nil {
			wrong = append(wrong, fmt.Sprintf("%v isn't drained: %v", d.Target, err))
		}
	}
	for _, t := range ended {
		if err := m.fleet.Undrain(t); err != nil {
			wrong = append(wrong, fmt.Sprintf("%v stays drained: %v", t, err))
		}
	}
	if len(wrong) > 0 {
		wrong[0] = "in " + m.dir + ": " + wrong[0]
	}
	m.tell(shortList(wrong))
}

// tell makes known what is wrong, once.
func (m *maintenance) tell(trouble string) {
	if trouble != "" && trouble != m.trouble {
		m.log.Warn("maintenance files: "+trouble, "reason", event.DrainFileWrong)
	}
	m.trouble = trouble
	m.health.Degraded("maintenance files", trouble)
}

// maxMaintenance is the most files. A fleet can't have more drains.
const maxMaintenance = 1000

// files reads the directory, which is made where it's missing. Wrong tells of
// files that mean nothing.
func (m *maintenance) files() (files map[state.DrainTarget]*maintenanceFile, wrong []string, err error) {
	names, err := readNames(m.dir)
	if err != nil {
		return nil, nil, err
	}
	files, read := map[state.DrainTarget]*maintenanceFile{}, map[string]*maintenanceFile{}
	for _, name := range names {
		if isLeftover(name) {
			continue
		}
		target, err := maintenanceTarget(name)
		if err == nil {
			read[name], err = readMaintenance(filepath.Join(m.dir, name), m.read[name])
		}
		unseen := (*fs.PathError)(nil)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just gone
		case errors.As(err, &unseen): // it may well be there
			return nil, nil, err
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%q drains nothing (%v)", name, err))
		case files[target] == nil: // the first of those that mean the same
			files[target] = read[name]
		}
	}
	m.read = read
	return files, wrong, nil
}

// readNames gives what is in the directory, sorted.
func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeMaintenance(dir); err == nil {
			d, err = os.Open(dir)
		}
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxMaintenance + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(names) > maxMaintenance:
		return nil, fmt.Errorf("%s: more than %d files", dir, maxMaintenance)
	}
	slices.Sort(names)
	return names, nil
}

// makeMaintenance makes the directory, whatever the umask is: that root can see
// into it is nobody's secret.
func makeMaintenance(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// isLeftover tells whether a name is one of an editor's files, or of a tool that
// writes before it renames.
func isLeftover(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") ||
		slices.Contains([]string{".swp", ".tmp", ".bak"}, filepath.Ext(name))
}

// maintenanceTarget reads a file's name: ADDR or ADDR:PORT.
func maintenanceTarget(name string) (state.DrainTarget, error) {
	e, err := parseEndpoint(name)
	if err != nil {
		err = errors.New("its name is no endpoint: rename it to ADDRESS or ADDRESS:PORT, or remove it")
	}
	return state.DrainTarget{Endpoint: e}, err
}

// maintenanceFile is a file with what it was when it was read.
type maintenanceFile struct {
	reason   string
	size     int64
	modified time.Time
}

var errNoFile = errors.New("it is no regular file: put one in its place, or remove it")

// readMaintenance reads a file, unless it's as it was. That its contents can't be
// read is no reason not to drain: root may have a strict umask.
func readMaintenance(path string, last *maintenanceFile) (*maintenanceFile, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Lstat(path) // a link that leads nowhere is there
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	f := &maintenanceFile{size: info.Size(), modified: info.ModTime()}
	if last != nil && last.size == f.size && last.modified.Equal(f.modified) {
		return last, nil
	}
	f.reason, _ = firstLine(path)
	return f, nil
}

// maxLine bounds a reason.
const maxLine = 200

// firstLine gives a file's first line as a drain shows it: were it another text
// then, it would seem to be a new one each time.
func firstLine(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may have become a pipe that nobody writes to
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errNoFile)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxLine))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(line, ""))
	return strings.TrimSpace(line), nil
}

// How long a file's drain lasts, should the agent not be there to make it last
// longer, and when it does.
const (
	fileDrain  = 24 * time.Hour
	fileRenews = fileDrain / 2

	// fileTakesOver is when a file takes the place of a drain that somebody else
	// set: as late as possible, since that has an end of its own.
	fileTakesOver = time.Minute
)

// maintenanceChanges compares the files of a node with the fleet's drains, and
// gives those to be set, and ended. A drain that isn't a file's is in force
// beside the file; of two nodes' files the first one's counts, until it's gone.
func maintenanceChanges(files map[state.DrainTarget]*maintenanceFile, drains map[state.DrainTarget]*state.Drain, node string, now time.Time) (set []state.Drain, ended []state.DrainTarget) {
	for t, f := range files {
		d := state.Drain{Target: t, Reason: f.reason, Since: now, Until: now.Add(fileDrain), Grace: gossip.DefaultGrace, File: true}
		if old := drains[t]; old != nil {
			isOwn := old.File && old.By == node
			left := old.Until.Sub(now)
			if !isOwn && left > fileTakesOver || isOwn && left > fileRenews && old.Reason == f.reason {
				continue
			}
			d.Since, d.Grace = old.Since, old.Grace
		}
		set = append(set, d)
	}
	for t, d := range drains {
		if d.File && d.By == node && files[t] == nil {
			ended = append(ended, t)
		}
	}
	slices.SortFunc(set, func(a, b state.Drain) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	slices.SortFunc(ended, func(a, b state.DrainTarget) int { return cmp.Compare(a.String(), b.String()) })
	return set, ended
}

// blames says why a drain can't be ended by a command, if that's so: a file would
// set it again.
func (c *control) blames(d *state.Drain) error {
	if d == nil || !d.File {
		return nil
	}
	name := strings.TrimPrefix(d.Target.String(), "endpoint ")
	if d.By == c.source.nodeName {
		return fmt.Errorf("%v is drained by a file, which would drain it again: remove %s", d.Target, filepath.Join(c.source.stateDir, maintenanceDir, name))
	}
	for _, m := range c.fleet.Status().View.Members {
		if m.Name == d.By && (m.State == gossip.Alive || m.State == gossip.Suspect) {
			return fmt.Errorf("%v is drained by a file on %s, which would drain it again: remove %s there, from the directory %s of its state directory", d.Target, d.By, name, maintenanceDir)
		}
	}
	return nil
}
