package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links a path may pass through, as in the kernel.
const maxLinks = 40

// route is the way a path takes through the file system.
type route struct {
	real string // the path without links

	// names are the full names that were looked up on the way, links and
	// directories alike, each without a link in its own directory part. A
	// change of the path is a change of one of these names, so their
	// directories are what has to be watched: watching a link watches what it
	// led to, and inotify says nothing when the link itself is replaced.
	names []string
}

// resolvePath is filepath.EvalSymlinks which also tells the way. Where it
// fails, the names end with the one that is missing.
func resolvePath(path string) (route, error) {
	r := route{real: "/"}
	rest := strings.Split(path, "/")
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return r, err
		}
		// Not filepath.Abs, which takes link/.. for nothing at all.
		rest = append(strings.Split(wd, "/"), rest...)
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		target, err := r.enter(name)
		if err != nil {
			return r, err
		}
		if target == "" {
			continue
		}
		if links++; links > maxLinks {
			return r, &os.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
		}
		rest = append(strings.Split(target, "/"), rest...)
		if filepath.IsAbs(target) {
			r.real = "/"
		}
	}
	return r, nil
}

// enter goes one name further and returns the target if that is a link.
func (r *route) enter(name string) (string, error) {
	switch name {
	case "", ".":
		return "", nil
	case "..":
		r.real = filepath.Dir(r.real)
		return "", nil
	}
	full := filepath.Join(r.real, name)
	r.names = append(r.names, full)
	info, err := os.Lstat(full)
	if err != nil {
		return "", err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return os.Readlink(full)
	}
	r.real = full
	return "", nil
}
