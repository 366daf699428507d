package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LockHolder tells which process has locked a file (flock), 0 if none. It
// doesn't try the lock: a process that starts in that moment would find it
// taken.
func LockHolder(path string) (pid int, err error) {
	file, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, fmt.Errorf("list locks: %w", err)
	}
	for line := range strings.Lines(string(locks)) {
		if pid := flockOwner(line); pid > 0 && hasOpen(pid, file) {
			return pid, nil
		}
	}
	return 0, nil
}

// flockOwner is the process that a line of /proc/locks names as the owner of
// an flock: "1: FLOCK  ADVISORY  WRITE 708 fd:01:4242 0 EOF". Those that wait
// for one have an arrow in front, those of other PID namespaces no id.
func flockOwner(line string) int {
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[1] != "FLOCK" {
		return 0
	}
	pid, err := strconv.Atoi(fields[4])
	if err != nil {
		return 0
	}
	return pid
}

// hasOpen reports whether a process has a file open. The device and inode in
// /proc/locks are the inner file system's, which stat doesn't tell on overlays
// and btrfs.
func hasOpen(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, fd := range fds {
		if open, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}
