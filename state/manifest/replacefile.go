package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Unfinished is the file that ReplaceFile writes before it takes a file's place. Its
// name is none of a manifest, and always the same: of all processes that were
// killed while they wrote one file is left, until the next one writes.
func Unfinished(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// ReplaceFile replaces a file by what write writes, so that the old or the new
// one is there as a whole, whenever the power fails. It's for its owner alone,
// unless write sees to that. Of two at once for one file, one is refused.
func ReplaceFile(path string, write func(*os.File) error) error {
	f, err := openUnfinished(Unfinished(path))
	if err != nil {
		return err
	}
	defer f.Close() // and with it the lock ends, once the file has its place
	err = errors.Join(write(f), f.Sync())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openUnfinished makes such a file. One that is left over is removed and not written
// over: it may have another owner and mode, and in a directory that others write
// to it may be a link.
func openUnfinished(name string) (*os.File, error) {
	const anew = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	f, err := os.OpenFile(name, anew, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err = removeUnfinished(name); err == nil {
			f, err = os.OpenFile(name, anew, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := takeHold(f); err != nil {
		f.Close()
		return nil, inTheWay(name, err)
	}
	return f, nil
}

func removeUnfinished(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		defer f.Close()
		if err = takeHold(f); err == nil {
			err = os.Remove(name)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return inTheWay(name, err)
	}
	return nil
}

func inTheWay(name string, err error) error { return fmt.Errorf("%s is in the way: %v", name, err) }

var errBeingWritten = errors.New("another process is writing it")

// takeHold locks a file that is being written, and makes sure that it still has its
// name: only the one who has the lock renames or removes it. The kernel gives the
// lock up when the process ends. Where the file system has no locks, two at once
// are not told apart.
func takeHold(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errBeingWritten
	}
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(f.Name()); err != nil || !os.SameFile(there, opened) {
		return errBeingWritten
	}
	return nil
}
