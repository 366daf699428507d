package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// gitLocks are the files git holds while it writes a work tree. index.lock
// appears before the first file is touched and goes when the last is written
// (git 2.39: 352 ms for 2,000 files), so with it absent on both sides of a
// reading, and the index the same, no checkout can have passed in between.
var gitLocks = []string{"index.lock", "HEAD.lock", "ORIG_HEAD.lock"}

// gitUnfinished are left by an operation that stopped half-way, with conflict
// marks in the files: such a tree holds still and is not meant to be read.
var gitUnfinished = []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"}

// gitMark is what must not change of a repository while its tree is read.
type gitMark struct {
	dir   string // the git directory of the work tree
	head  string // HEAD and the branch it names
	index stamp
}

// lookGit says at which state the work tree around or in dir is. It looks at
// files only: git need not be installed, and running it in a tree that
// belongs to someone else executes that one's configuration (CVE-2022-24765).
func lookGit(gitDir string) (gitMark, error) {
	for _, name := range gitLocks {
		if exists(filepath.Join(gitDir, name)) {
			return gitMark{}, unsteady("git is at work, or was killed: %s is there", filepath.Join(gitDir, name))
		}
	}
	for _, name := range gitUnfinished {
		if exists(filepath.Join(gitDir, name)) {
			return gitMark{}, unsteady("git is in the middle of a merge or rebase: %s is there", filepath.Join(gitDir, name))
		}
	}
	mark := gitMark{dir: gitDir, head: gitHead(gitDir)}
	if info, err := os.Lstat(filepath.Join(gitDir, "index")); err == nil {
		mark.index = stampOf(info)
	}
	return mark, nil
}

// gitHead returns HEAD and what its branch points to. A branch that has no
// file of its own is packed; the stamp of packed-refs then stands for it,
// since that file may be megabytes long.
func gitHead(gitDir string) string {
	head, err := readSmall(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return ""
	}
	ref, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: ")
	if !ok || !filepath.IsLocal(ref) {
		return string(head)
	}
	common := gitCommonDir(gitDir)
	if tip, err := readSmall(filepath.Join(common, ref)); err == nil {
		return string(head) + string(tip)
	}
	if info, err := os.Lstat(filepath.Join(common, "packed-refs")); err == nil {
		return string(head) + fmt.Sprint(stampOf(info))
	}
	return string(head)
}

// gitCommonDir returns where the branches are: a linked work tree shares them
// with its main repository.
func gitCommonDir(gitDir string) string {
	data, err := readSmall(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return gitDir
	}
	return joinAbs(gitDir, strings.TrimSpace(string(data)))
}

// gitDirAbove returns the git directory of the work tree that dir is in, or
// the empty string. The manifests are often a folder of a larger repository.
func gitDirAbove(dir string) (string, error) {
	for {
		found, err := gitDirIn(dir)
		if found != "" || err != nil {
			return found, err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", nil
		}
		dir = up
	}
}

// gitDirIn returns the git directory that belongs to a work tree's top, or the
// empty string where dir is none. Linked work trees and submodules have a file
// .git that names it; where that leads nowhere (git-sync's volume seen from
// another container) there is nothing to look at, and the stamps must do.
//
// A .git that may not be searched is an error: without the locks a checkout in
// place could be read half-way and nobody would know.
func gitDirIn(dir string) (string, error) {
	dot := filepath.Join(dir, ".git")
	info, err := os.Stat(dot)
	if err != nil {
		return "", onlyDenied(err)
	}
	if !info.IsDir() {
		data, err := readSmall(dot)
		if err != nil {
			return "", onlyDenied(err)
		}
		target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
		if !ok {
			return "", nil
		}
		dot = joinAbs(dir, target)
	}
	if _, err := os.Stat(filepath.Join(dot, "HEAD")); err != nil {
		return "", onlyDenied(err)
	}
	return dot, nil
}

// onlyDenied keeps the error of a missing permission and drops all others.
func onlyDenied(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("cannot tell whether git is at work here: %w", err)
	}
	return nil
}

// maxGitFile is more than the files hold that are read of git, in bytes.
const maxGitFile = 64 << 10

// readSmall gives the first 64 KiB of a file.
func readSmall(path string) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxGitFile))
}

// OpenRegular opens a file to read it, and nothing else: opening a pipe would
// wait for its writer.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("no regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// joinAbs makes a path that may be relative to dir absolute.
func joinAbs(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// exists reports whether there is something of that name.
func exists(path string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil
}
