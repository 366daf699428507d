package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// stamp tells one state of a file from another without reading it. The change
// time cannot be set by hand, so a file that was rewritten with its old size
// and modification time is still seen.
type stamp struct {
	dev, ino           uint64
	size, mtime, ctime int64
}

// fileID names an inode.
type fileID struct{ dev, ino uint64 }

func (s stamp) id() fileID { return fileID{s.dev, s.ino} }

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	}
	return stamp{uint64(st.Dev), uint64(st.Ino), int64(st.Size), st.Mtim.Nano(), st.Ctim.Nano()}
}

func stampOfStat(st *unix.Stat_t) stamp {
	return stamp{uint64(st.Dev), uint64(st.Ino), int64(st.Size), st.Mtim.Nano(), st.Ctim.Nano()}
}

// entry is one manifest file as a scan found it; for a link the stamp is that
// of what it leads to.
type entry struct {
	path  string // relative to the root
	stamp stamp
	fault string // of a link that leads to no file, why; then there's no stamp
}

// spotter is told what must be watched for a scan to be repeated when it would
// come out differently. It is told of a directory before that is listed, so
// that nothing falls between the two. It is called by many goroutines.
type spotter interface {
	names(paths []string) // only these names matter, of the directories they are in
	dir(path string)      // anything in this directory matters
}

// scanner lists the manifests below a root: names and stamps, no contents.
type scanner struct {
	root    *os.Root
	real    string // the root's path without links
	limits  limits
	spotter spotter // may be nil

	listed  atomic.Int64 // names seen, wanted or not
	visited map[fileID]bool
	entries []entry
	links   []string
	gits    []string // directories below the root that hold a .git
}

// dirList is what one directory holds.
type dirList struct {
	id    fileID
	subs  []string
	links []string
	files []entry
	git   bool
}

// run fills the entries, sorted by path. What is there under its own name goes
// first; a link adds only what is not there yet, so that nothing is loaded
// twice and a link to a directory above cannot make the scan go round.
func (s *scanner) run() error {
	s.visited = make(map[fileID]bool)
	if err := s.walk("."); err != nil {
		return err
	}
	if err := s.follow(); err != nil {
		return err
	}
	slices.SortFunc(s.entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return nil
}

// walk lists a directory and all below it, level by level.
func (s *scanner) walk(dir string) error {
	for level := []string{dir}; len(level) > 0; {
		lists := make([]dirList, len(level))
		err := parallel(len(level), func(i int) (err error) {
			lists[i], err = s.list(level[i])
			return err
		})
		if err != nil {
			return err
		}
		var next []string
		for i := range lists {
			next = append(next, s.take(level[i], &lists[i])...)
		}
		if len(s.entries) > s.limits.files {
			return fmt.Errorf("more than %d manifest files", s.limits.files)
		}
		level = next
	}
	return nil
}

// take adds a directory that was not seen under another name, and returns the
// directories in it.
func (s *scanner) take(dir string, l *dirList) []string {
	if s.visited[l.id] {
		return nil
	}
	s.visited[l.id] = true
	s.entries = append(s.entries, l.files...)
	s.links = append(s.links, l.links...)
	if l.git {
		s.gits = append(s.gits, filepath.Join(s.real, dir))
	}
	return l.subs
}

// list reads one directory. O_NONBLOCK and O_DIRECTORY keep it from hanging
// on a pipe that has taken the directory's place.
func (s *scanner) list(dir string) (dirList, error) {
	if s.spotter != nil {
		s.spotter.dir(filepath.Join(s.real, dir))
	}
	f, err := s.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return dirList{}, vanished(dir, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return dirList{}, vanished(dir, err)
	}
	l := dirList{id: stampOf(info).id()}
	names, err := s.namesIn(f, dir)
	if err != nil {
		return dirList{}, err
	}
	l.git = dir != "." && slices.Contains(names, ".git")
	names = slices.DeleteFunc(names, ignored)
	nodes, err := statAll(f, dir, names)
	if err != nil {
		return dirList{}, err
	}
	for i, name := range names {
		l.sort(dir, name, nodes[i])
	}
	return l, nil
}

// namesIn returns the names in a directory. Not ReadDir: of a file that was
// opened through an os.Root that stats every entry (Go 1.26), one by one.
func (s *scanner) namesIn(f *os.File, dir string) ([]string, error) {
	var names []string
	for {
		batch, err := f.Readdirnames(4096)
		names = append(names, batch...)
		if s.listed.Add(int64(len(batch))) > int64(s.limits.names) {
			return nil, fmt.Errorf("more than %d names in the directory", s.limits.names)
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, vanished(dir, err)
		}
	}
}

// sort puts a name where it belongs. Pipes, sockets and devices are no
// manifests, whatever their name.
func (l *dirList) sort(dir, name string, n node) {
	full := name
	if dir != "." {
		full = dir + "/" + name
	}
	switch n.kind {
	case unix.S_IFDIR:
		l.subs = append(l.subs, full)
	case unix.S_IFLNK:
		l.links = append(l.links, full)
	case unix.S_IFREG:
		if wanted(name) {
			l.files = append(l.files, entry{path: full, stamp: n.stamp})
		}
	}
}

// node is what fstatat says of a name.
type node struct {
	kind  uint32 // S_IFREG and so on
	stamp stamp
}

// statChunk is how many names one goroutine stats before it takes more.
const statChunk = 256

// statAll stats names in an open directory, which spares the kernel the way to
// it: 1.8 us a name. 10,000 in one directory are divided among the CPUs.
func statAll(f *os.File, dir string, names []string) ([]node, error) {
	fd := int(f.Fd())
	nodes := make([]node, len(names))
	err := parallel((len(names)+statChunk-1)/statChunk, func(chunk int) error {
		var st unix.Stat_t
		lo := chunk * statChunk
		for i := lo; i < min(lo+statChunk, len(names)); i++ {
			if err := unix.Fstatat(fd, names[i], &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return vanished(path.Join(dir, names[i]), err)
			}
			nodes[i] = node{st.Mode & unix.S_IFMT, stampOfStat(&st)}
		}
		return nil
	})
	return nodes, err
}

// vanished makes of an error the one to report: what was there a moment ago
// and is not now, or is something else, shows a tree that is being changed.
func vanished(name string, err error) error {
	if err = goneOr(name, err); isUnsteady(err) {
		return err
	}
	return fmt.Errorf("%s: %w", strings.TrimPrefix(name, "./"), err)
}

// goneOr is vanished that doesn't name what can't be read.
func goneOr(name string, err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE} {
		if errors.Is(err, e) {
			return unsteady("%s changed while it was read", name)
		}
	}
	return withoutPath(err)
}

// parallel calls do for 0 to n-1 on as many goroutines as there are CPUs, at
// most eight: more do not make a directory faster.
func parallel(n int, do func(i int) error) error {
	workers := min(n, runtime.GOMAXPROCS(0), 8)
	if workers <= 1 {
		for i := range n {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	var g errgroup.Group
	var next atomic.Int64
	for range workers {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					next.Store(int64(n))
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
