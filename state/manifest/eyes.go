package manifest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// eyes watch a tree by inotify. They are the spotter of every scan that is
// made with them, and so have every directory watched before it is listed.
type eyes struct {
	fs    *fsnotify.Watcher
	dirty chan<- struct{} // of capacity 1

	mu      sync.Mutex
	round   int            // the scan that is being made
	watched map[string]int // directories with a watch, and the last scan that asked for it
	dirs    map[string]int // directories of which every event counts
	named   map[string]int // names in other directories that count
	failure error          // a watch could not be added
	broken  error          // events were lost
}

// newWatcher opens an inotify instance.
type newWatcher func() (*fsnotify.Watcher, error)

func openEyes(open newWatcher, dirty chan<- struct{}) (*eyes, error) {
	w, err := open()
	if err != nil {
		return nil, err
	}
	e := &eyes{fs: w, dirty: dirty, watched: map[string]int{}, dirs: map[string]int{}, named: map[string]int{}}
	go e.stare()
	return e, nil
}

// stare takes the events as fast as they come and does nothing but set a bit:
// the kernel's queue holds 16,384, and that it ran over is only told behind
// all that was in it. It ends when the watcher is closed.
func (e *eyes) stare() {
	for {
		select {
		case ev, ok := <-e.fs.Events:
			if !ok {
				return
			}
			if e.matters(ev.Name) {
				poke(e.dirty)
			}
		case err, ok := <-e.fs.Errors:
			if !ok {
				return
			}
			e.mu.Lock()
			e.broken = err
			e.mu.Unlock()
			poke(e.dirty)
		}
	}
}

// matters tells an event of the tree from one of a neighbour: the directory
// that holds the tree may be /tmp. What kind of event it is tells nothing;
// some file systems report a swapped link as a write
// (jimmidyson/configmap-reload#190).
func (e *eyes) matters(name string) bool {
	if strings.HasPrefix(name, "//") { // fsnotify's name for what is in /
		name = name[1:]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, in := range []map[string]int{e.named, e.dirs} {
		if _, ok := in[name]; ok {
			return true
		}
	}
	_, ok := e.dirs[filepath.Dir(name)]
	return ok
}

// names has the directories of the paths watched for these names only.
func (e *eyes) names(paths []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range paths {
		e.named[p] = e.round
		e.watch(filepath.Dir(p))
	}
}

// dir has a directory watched.
func (e *eyes) dir(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dirs[path] = e.round
	e.watch(path)
}

// watch adds a watch, once a scan even if there is one: the directory may be
// another of the same name and the same, reused inode number, and the kernel
// dropped the watch with the first. One that has gone meanwhile or may not be
// read is no failure; the scan sees the first, and for the second (a directory
// on the way to the tree) there is the slow poll.
func (e *eyes) watch(dir string) {
	if e.failure != nil || e.watched[dir] == e.round {
		return
	}
	err := e.fs.Add(dir)
	switch {
	case err == nil:
		e.watched[dir] = e.round
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission),
		errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
	default:
		e.failure = err
	}
}

// begin starts a scan.
func (e *eyes) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.round++
}

// sweep ends a scan that was whole: what it did not ask for is watched no more.
func (e *eyes) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for dir, round := range e.watched {
		if round != e.round {
			_ = e.fs.Remove(dir) // the kernel may have been first
			delete(e.watched, dir)
		}
	}
	for _, m := range []map[string]int{e.dirs, e.named} {
		for p, round := range m {
			if round != e.round {
				delete(m, p)
			}
		}
	}
}

// state returns the number of watches, and why these eyes are of no more use:
// watches could not be had, or events were lost and new eyes are needed.
func (e *eyes) state() (watches int, failure, broken error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.watched), e.failure, e.broken
}

func (e *eyes) close() { _ = e.fs.Close() }

// poke sets a bit.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// remote are the file systems on which other machines or processes write
// without inotify hearing of it (fsnotify/fsnotify#306), by their magic
// numbers of statfs(2).
var remote = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	unix.V9FS_MAGIC:        "9p",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
}

// remoteFS names the file system of a directory if events are not to be relied
// on there. Type is signed on some architectures and the numbers are 32 bits.
func remoteFS(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return ""
	}
	return remote[uint32(st.Type)]
}
