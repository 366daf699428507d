package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// limits bound what a manifests directory may hold, so that a wrong path (/,
// a home directory) ends in an error and not in the OOM killer. They leave
// room above 40,000 Services with one file each, and for all of them in one.
type limits struct {
	files int   // manifest files
	names int   // names of any kind
	size  int64 // bytes of one file
	total int64 // bytes of all files
}

var defaultLimits = limits{files: 100_000, names: 1_000_000, size: 64 << 20, total: 512 << 20}

const (
	// emptyAfter is how long a file stays empty until that is taken for its
	// contents: git, cp and most editors create a file before they fill it.
	emptyAfter = 2 * time.Second

	// clockTick is more than the kernel's coarse clock advances at a time (10
	// ms with HZ=100). Before Linux 6.13 two writes within one tick leave the
	// same stamp, so that a file read between them would look unchanged for
	// ever. Nothing is read as steady whose last change is that young.
	clockTick = 20 * time.Millisecond

	// restless is how long a tree may be unsteady until that is an error.
	restless = 30 * time.Second
)

// unsteadyError says that a tree did not hold still while it was looked at.
// It is no fault yet; looking again may do.
type unsteadyError struct {
	why  string
	wait time.Duration // look again after this time, 0 where that is not known
}

func (e *unsteadyError) Error() string { return e.why }

func isUnsteady(err error) bool {
	var u *unsteadyError
	return errors.As(err, &u)
}

func unsteady(format string, args ...any) error {
	return &unsteadyError{why: fmt.Sprintf(format, args...)}
}

// Tree reads one manifests directory again and again. A file that did not
// change keeps its *File, and a tree in which none changed, and not its commit
// either, keeps its *Snapshot. It is not safe for concurrent use.
type Tree struct {
	dir    string
	limits limits

	known   map[string]held  // the files of the last snapshot
	files   []*File          // the same, by path
	seen    *sight           // what the last snapshot was read from
	last    *Snapshot        // nil until there is one
	empties map[string]empty // files that may yet be filled
}

// held is a file that was read, and the stamp it had.
type held struct {
	stamp stamp
	file  *File
}

// empty is a file of no length, and since when it is known.
type empty struct {
	stamp stamp
	since time.Time
}

// NewTree returns a Tree for a directory, which need not exist yet. The path
// may lead through links; they are resolved anew at every reading.
func NewTree(dir string) *Tree { return &Tree{dir: dir, limits: defaultLimits} }

// ReadDir reads a manifests directory once. A path that is no directory is
// read as the only file, whatever its name, also from a pipe such as
// /dev/stdin.
func ReadDir(path string) (*Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return NewTree(path).Read(context.Background())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, defaultLimits.size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > defaultLimits.size {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, defaultLimits.size>>20)
	}
	return &Snapshot{Files: []*File{{Path: filepath.Base(path), Data: data}}}, nil
}

// Read returns the tree at one moment. It waits until the tree holds still,
// for at most 30 seconds. A tree without manifests is a Snapshot without
// Files and no error: whether that is meant is the caller's to judge.
func (t *Tree) Read(ctx context.Context) (*Snapshot, error) {
	var b backoff
	for {
		s, err := t.attempt()
		delay, err := b.next(time.Now(), err)
		if err != nil || delay == 0 {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delay):
		}
	}
}

// attempt looks, reads and looks again.
func (t *Tree) attempt() (*Snapshot, error) {
	d, err := t.prepare(nil)
	if err == nil {
		err = t.verify(d)
	}
	if err != nil {
		return nil, err
	}
	return t.accept(d), nil
}

// sight is all that is known of a tree without reading its files. Two sights
// that are equal enclose a time in which the tree held still.
type sight struct {
	real    string // the directory's path without links: one may have been swapped
	entries []entry
	git     []gitMark
}

func (s *sight) equal(o *sight) bool {
	return o != nil && s.real == o.real && slices.Equal(s.entries, o.entries) && slices.Equal(s.git, o.git)
}

// draft is a snapshot that was read and not yet seen to be of one moment.
type draft struct {
	sight *sight
	held  map[string]held
	files []*File
}

// prepare looks at the tree and reads what has changed since the last
// snapshot.
func (t *Tree) prepare(sp spotter) (*draft, error) {
	root, real, err := t.open(sp)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s, err := t.look(root, real, sp)
	if err != nil {
		return nil, t.explain(err)
	}
	if err := t.filled(s.entries); err != nil {
		return nil, err
	}
	d, err := t.read(root, s)
	if err != nil {
		return nil, t.explain(err)
	}
	return d, nil
}

// verify looks again, after the files were read.
func (t *Tree) verify(d *draft) error {
	s, err := t.sight(nil)
	if err != nil {
		return err
	}
	if !s.equal(d.sight) {
		return unsteady("files changed while they were read")
	}
	return nil
}

// accept makes the draft the last snapshot, unless nothing differs from it.
func (t *Tree) accept(d *draft) *Snapshot {
	commit := d.sight.commit()
	if t.last == nil || t.last.Commit != commit || !slices.Equal(t.files, d.files) {
		t.last = NewSnapshot(d.files)
		t.last.Commit = commit
	}
	t.known, t.seen, t.files = d.held, d.sight, d.files
	return t.last
}

// moved reports whether the tree looks different from the last snapshot's, or
// cannot be looked at. How a file looks doesn't tell whether it can be read now.
func (t *Tree) moved(sp spotter) bool {
	s, err := t.sight(sp)
	return err != nil || !s.equal(t.seen) || slices.ContainsFunc(t.files, func(f *File) bool { return f.Fault != "" })
}

// sight looks at the tree and reads nothing.
func (t *Tree) sight(sp spotter) (*sight, error) {
	root, real, err := t.open(sp)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s, err := t.look(root, real, sp)
	return s, t.explain(err)
}

// open resolves the links that lead to the tree and opens what they lead to.
func (t *Tree) open(sp spotter) (*os.Root, string, error) {
	r, err := resolvePath(t.dir)
	if sp != nil {
		sp.names(r.names)
	}
	if err != nil {
		return nil, "", t.explain(err)
	}
	root, err := os.OpenRoot(r.real)
	if err != nil {
		return nil, "", t.explain(err)
	}
	return root, r.real, nil
}

// explain puts the directory's name before an error. An unsteady tree stays
// one.
func (t *Tree) explain(err error) error {
	if err == nil || isUnsteady(err) {
		return err
	}
	if perr := (*fs.PathError)(nil); errors.As(err, &perr) && perr.Path == t.dir {
		err = perr.Err
	}
	return fmt.Errorf("%s: %w", t.dir, err)
}

// look scans an open tree.
func (t *Tree) look(root *os.Root, real string, sp spotter) (*sight, error) {
	sc := scanner{root: root, real: real, limits: t.limits, spotter: sp}
	if err := sc.run(); err != nil {
		return nil, err
	}
	s := &sight{real: real, entries: sc.entries}
	return s, s.lookGit(sc.gits, sp)
}

// lookGit adds the marks of the repositories the tree is in or holds. The
// locks are looked for after the scan: an operation that ends before that
// leaves stamps that differ, one that does not leaves its lock.
func (s *sight) lookGit(below []string, sp spotter) error {
	above, err := gitDirAbove(s.real)
	if err != nil {
		return err
	}
	dirs := []string{above}
	for _, top := range below {
		dir, err := gitDirIn(top)
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if sp != nil {
			sp.dir(dir)
		}
		mark, err := lookGit(dir)
		if err != nil {
			return err
		}
		s.git = append(s.git, mark)
	}
	return nil
}

// filled reports a tree as unsteady while it has a file of no length that was
// not so for two seconds yet. A file that is older than that needs no second
// look; its age is not trusted to be less, since a server's clock may be ahead.
func (t *Tree) filled(entries []entry) error {
	now := time.Now()
	empties := make(map[string]empty)
	var wait time.Duration
	var name string
	for _, e := range entries {
		if e.stamp.size > 0 || t.known[e.path].stamp == e.stamp {
			continue
		}
		was := t.empties[e.path]
		if was.stamp != e.stamp {
			was = empty{e.stamp, now}
		}
		empties[e.path] = was
		left := min(emptyAfter-now.Sub(was.since), emptyAfter-now.Sub(time.Unix(0, e.stamp.ctime)))
		if left > wait {
			wait, name = left, e.path
		}
	}
	t.empties = empties
	if wait > 0 {
		return &unsteadyError{why: fmt.Sprintf("%s is empty: it may not be written yet", name), wait: wait}
	}
	return nil
}
