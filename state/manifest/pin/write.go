package pin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pointsman/state/manifest"
)

// Write puts a file's new bytes in the place of the old ones, in the directory
// that was read: whole, or not at all. It keeps mode and owner, and what a
// symbolic link leads to is replaced, not the link. A file that is not as it
// was read any more stays as it is, and that is an error.
func (f File) Write(dir string) error {
	if err := f.write(filepath.Join(dir, filepath.FromSlash(f.Path))); err != nil {
		return fmt.Errorf("%s: %w", f.Path, bare(err))
	}
	return nil
}

// bare takes the path off an error: it may be a temporary file's.
func bare(err error) error {
	var perr *fs.PathError
	var lerr *os.LinkError
	switch {
	case errors.As(err, &perr):
		return perr.Err
	case errors.As(err, &lerr):
		return lerr.Err
	}
	return err
}

func (f File) write(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, f.Before) {
		return errors.New("it changed while values were chosen for it: run pin again")
	}
	return replace(path, info, f.After)
}

// replace puts a new file in the place of an old one, with its owner and mode.
func replace(path string, old fs.FileInfo, data []byte) error {
	return manifest.ReplaceFile(path, func(f *os.File) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := keepOwner(f, old); err != nil {
			return err
		}
		return f.Chmod(old.Mode().Perm()) // after chown, which clears bits
	})
}

// keepOwner gives a file the owner and group of another one, where they differ:
// who may not do that must not take the file away from somebody.
func keepOwner(f *os.File, like fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, okIs := info.Sys().(*syscall.Stat_t)
	want, okWant := like.Sys().(*syscall.Stat_t)
	if !okIs || !okWant || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("its owner can't be kept: %w", bare(err))
	}
	return nil
}
