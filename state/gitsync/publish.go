package gitsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// keptTrees is how many trees stay, the published one included: a reader may be
// in the former one.
const keptTrees = 3

// The names of trees that nobody is to look at: one that is being written, and
// one that is being removed.
const (
	draftTree = ".new"
	trashTree = ".old"
)

func (s *session) draft() string { return filepath.Join(s.cfg.Dest, commitsDir, draftTree) }

// publish makes the draft the current tree. What was there before is so until
// the last rename, and everything is on the disk before that.
func (s *session) publish(p Published) error {
	record, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	s.cfg.step("record")
	if err := writeFile(filepath.Join(s.draft(), recordFile), append(record, '\n')); err != nil {
		return err
	}
	if err := syncFilesystem(s.draft()); err != nil {
		return err
	}
	commits := filepath.Join(s.cfg.Dest, commitsDir)
	s.cfg.step("tree")
	if err := place(s.draft(), filepath.Join(commits, p.Commit), exchange); err != nil {
		return err
	}
	if err := syncDir(commits); err != nil {
		return err
	}
	return s.link(filepath.Join(commitsDir, p.Commit))
}

// link points current to a tree.
func (s *session) link(target string) error {
	link := filepath.Join(s.cfg.Dest, CurrentLink)
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	temp := filepath.Join(s.cfg.Dest, "."+CurrentLink)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.cfg.step("link")
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	s.cfg.step("swap")
	if err := os.Rename(temp, link); err != nil {
		return err
	}
	s.cfg.step("swapped")
	return syncDir(s.cfg.Dest)
}

// place gives a tree its name. One that has it already was damaged, or is of
// another path of the commit; it may be the current one, so the two change
// places in one step.
func place(tree, name string, exchange func(a, b string) error) error {
	err := os.Rename(tree, name)
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	err = exchange(tree, name)
	if err == nil {
		return os.RemoveAll(tree)
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("exchange %s and %s: %w", tree, name, err)
	}
	// Not every filesystem can. A damaged tree isn't worth more.
	if err := discard(name); err != nil {
		return err
	}
	return os.Rename(tree, name)
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// discard removes a tree. First it loses its name, for half a tree must have
// none.
func discard(tree string) error {
	trash := filepath.Join(filepath.Dir(tree), trashTree)
	if err := os.RemoveAll(trash); err != nil {
		return err
	}
	if err := os.Rename(tree, trash); err != nil {
		return err
	}
	return os.RemoveAll(trash)
}

// prune removes all but the last trees. The current one is never among those,
// whatever the clock said when it was published.
func (s *session) prune(current string) error {
	commits := filepath.Join(s.cfg.Dest, commitsDir)
	names, err := os.ReadDir(commits)
	if err != nil {
		return err
	}
	var trees []Published
	for _, d := range names {
		switch d.Name() {
		case current:
			continue
		case draftTree, trashTree:
			if err := os.RemoveAll(filepath.Join(commits, d.Name())); err != nil {
				return err
			}
			continue
		}
		p, _ := readRecord(filepath.Join(commits, d.Name())) // without one it's the oldest
		p.Commit = d.Name()
		trees = append(trees, p)
	}
	slices.SortStableFunc(trees, func(a, b Published) int { return b.Time.Compare(a.Time) })
	for i, p := range trees {
		if i < keptTrees-1 && isCommit(p.Commit) && !p.Time.IsZero() {
			continue
		}
		s.cfg.step("prune")
		if err := discard(filepath.Join(commits, p.Commit)); err != nil {
			return err
		}
	}
	return nil
}

// syncFilesystem forces all of a filesystem to the disk. One call for a tree of
// 10,000 files, where each by itself would take milliseconds.
func syncFilesystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
