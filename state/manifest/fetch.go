package manifest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// batch are files of one directory that one goroutine reads.
type batch struct {
	dir   string
	files []int // indices of the sight's entries
}

// read fills a draft: files with the stamps they had are taken over, the
// others are read.
func (t *Tree) read(root *os.Root, s *sight) (*draft, error) {
	if err := t.fits(s.entries); err != nil {
		return nil, err
	}
	d := &draft{sight: s, held: make(map[string]held, len(s.entries)), files: make([]*File, len(s.entries))}
	var changed []int
	for i, e := range s.entries {
		h := t.known[e.path]
		switch {
		case e.fault != "":
			d.files[i] = h.faulty(e.path, e.fault)
		case h.file != nil && h.file.Fault == "" && h.stamp == e.stamp:
			d.files[i] = h.file
		default:
			changed = append(changed, i)
		}
	}
	batches := inBatches(s.entries, changed)
	err := parallel(len(batches), func(k int) error { return t.fetch(root, d, batches[k]) })
	if err != nil {
		return nil, err
	}
	for i, e := range s.entries {
		d.held[e.path] = held{e.stamp, d.files[i]}
	}
	return d, nil
}

// fits checks the sizes before anything is read.
func (t *Tree) fits(entries []entry) error {
	var total int64
	for _, e := range entries {
		total += e.stamp.size
		if e.stamp.size > t.limits.size {
			return fmt.Errorf("%s: larger than %d MiB", e.path, t.limits.size>>20)
		}
		if total > t.limits.total {
			return fmt.Errorf("larger than %d MiB in total", t.limits.total>>20)
		}
	}
	return nil
}

// inBatches groups files by directory.
func inBatches(entries []entry, changed []int) []batch {
	var batches []batch
	open := make(map[string]int) // the batch of a directory that has room
	for _, i := range changed {
		dir := path.Dir(entries[i].path)
		k, ok := open[dir]
		if !ok || len(batches[k].files) == statChunk {
			k = len(batches)
			open[dir] = k
			batches = append(batches, batch{dir: dir})
		}
		batches[k].files = append(batches[k].files, i)
	}
	return batches
}

// fetch reads the files of a batch relative to their directory: where a link
// was swapped all files are new, and os.Root would open the directory again
// for each of 10,000.
func (t *Tree) fetch(root *os.Root, d *draft, b batch) error {
	dir, err := root.OpenFile(b.dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return vanished(b.dir, err)
	}
	defer dir.Close()
	for _, i := range b.files {
		e := d.sight.entries[i]
		d.files[i], err = t.file(root, int(dir.Fd()), e)
		switch {
		case isUnsteady(err):
			return err
		case err != nil:
			d.files[i] = t.known[e.path].faulty(e.path, err.Error())
		}
	}
	return nil
}

// faulty gives a file that can't be read; the one that is known, if nothing
// about that is new.
func (h held) faulty(path, fault string) *File {
	if h.file != nil && h.file.Fault == fault {
		return h.file
	}
	return &File{Path: path, Fault: fault}
}

// file reads one file, which must be what the scan saw. Contents equal to
// those known are the known file: a touch, a chmod or a checkout of the same
// text changes nothing for whoever works on it. An error that isn't of an
// unsteady tree is about this file alone.
func (t *Tree) file(root *os.Root, dir int, e entry) (*File, error) {
	fd, err := openIn(root, dir, e.path)
	if err != nil {
		return nil, goneOr(e.path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, goneOr(e.path, err)
	}
	if stampOfStat(&st) != e.stamp {
		return nil, unsteady("%s changed while it was read", e.path)
	}
	if age := time.Since(time.Unix(0, e.stamp.ctime)); age.Abs() < clockTick {
		return nil, &unsteadyError{why: e.path + " changed just now", wait: clockTick}
	}
	data := make([]byte, e.stamp.size)
	switch err := readFull(fd, data); {
	case err == io.ErrUnexpectedEOF:
		return nil, unsteady("%s changed while it was read", e.path)
	case err != nil:
		return nil, err
	}
	if was := t.known[e.path].file; was != nil && was.Fault == "" && bytes.Equal(was.Data, data) {
		return was, nil
	}
	return &File{Path: e.path, Data: data}, nil
}

// openIn opens a file in an open directory. Only for a link is the root
// needed, which lets none leave it. O_NONBLOCK is for a pipe that has taken the
// file's place.
func openIn(root *os.Root, dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat(dir, path.Base(name), flags|unix.O_NOFOLLOW, 0)
		switch err {
		case unix.EINTR: // network file systems, however signals are handled
			continue
		case unix.ELOOP:
			return openLink(root, name, flags)
		}
		return fd, err
	}
}

// openLink opens what a link leads to.
func openLink(root *os.Root, name string, flags int) (int, error) {
	f, err := root.OpenFile(name, flags, 0)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// readFull is io.ReadFull of a file descriptor.
func readFull(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Read(fd, data)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		data = data[n:]
	}
	return nil
}
