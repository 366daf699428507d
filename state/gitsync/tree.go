package gitsync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// What a published tree may hold. The loader of manifests takes no more.
const (
	maxEntries = 200_000
	maxBlob    = 64 << 20
	maxTree    = 512 << 20
	maxLink    = 4096
)

// entry is a file, a link or a submodule in a commit.
type entry struct {
	mode string // 100644, 100755, 120000, 160000
	id   string
	size int64
	path string
}

func (e entry) regular() bool   { return e.mode == "100644" || e.mode == "100755" || e.mode == "100664" }
func (e entry) link() bool      { return e.mode == "120000" }
func (e entry) submodule() bool { return e.mode == "160000" }

// list lists a tree with all that is below it.
func (s *session) list(ctx context.Context, tree string, args ...string) ([]entry, error) {
	out, err := s.git.output(ctx, append([]string{"ls-tree", "-r", "-l", "-z", "--full-tree", tree}, args...)...)
	if err != nil {
		return nil, err
	}
	return parseList(out)
}

// content lists what is published of a commit, and the submodules in it, which
// are not.
func (s *session) content(ctx context.Context, commit string) (files []entry, skipped []string, err error) {
	tree := commit + "^{tree}"
	if dir := s.cfg.subdir(); dir != "." {
		tree = commit + ":" + dir
		kind, err := s.git.line(ctx, "cat-file", "-t", tree)
		if err != nil && !s.lacks(ctx, err) {
			return nil, nil, err
		}
		if kind != "tree" {
			return nil, nil, &Refusal{commit, "it has no directory " + dir}
		}
	}
	all, err := s.list(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	if err := checkContent(all); err != nil {
		return nil, nil, &Refusal{commit, err.Error()}
	}
	for _, e := range all {
		switch {
		case e.submodule():
			skipped = append(skipped, e.path)
		case !s.ours(e.path):
			files = append(files, e)
		}
	}
	return files, skipped, nil
}

// ours reports whether a name is not for the tree: the number is told to sync
// and is no manifest, and the record is written by sync alone.
func (s *session) ours(name string) bool {
	return name == recordFile || name == generationFile && s.cfg.subdir() == "."
}

// parseList reads what git ls-tree -l -z prints.
func parseList(out []byte) ([]entry, error) {
	var entries []entry
	for len(out) > 0 {
		line, rest, ended := bytes.Cut(out, []byte{0})
		meta, name, named := strings.Cut(string(line), "\t")
		fields := strings.Fields(meta)
		if !ended || !named || len(fields) != 4 {
			return nil, fmt.Errorf("git ls-tree: %q is no entry", line)
		}
		e := entry{mode: fields[0], id: fields[2], path: name}
		if fields[3] != "-" {
			size, err := strconv.ParseInt(fields[3], 10, 64)
			if err != nil || size < 0 {
				return nil, fmt.Errorf("git ls-tree: %q is no entry", line)
			}
			e.size = size
		}
		if entries = append(entries, e); len(entries) > maxEntries {
			return nil, fmt.Errorf("git ls-tree: more than %d files", maxEntries)
		}
		out = rest
	}
	return entries, nil
}

// checkContent says why a tree can't be written to a disk. git's own checks
// (fsckObjects) come first and know more; these don't depend on them.
func checkContent(entries []entry) error {
	total := int64(0)
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if err := e.check(); err != nil {
			return fmt.Errorf("%q: %w", e.path, err)
		}
		if seen[e.path] {
			return fmt.Errorf("%q is there twice", e.path)
		}
		seen[e.path] = true
		if total += e.size; total > maxTree {
			return fmt.Errorf("more than %d MiB of files", maxTree>>20)
		}
	}
	return nil
}

func (e entry) check() error {
	if !filepath.IsLocal(e.path) || path.Clean(e.path) != e.path {
		return errors.New("no path within the tree")
	}
	for part := range strings.SplitSeq(e.path, "/") {
		if strings.EqualFold(part, ".git") {
			return errors.New(".git is no name for a file")
		}
	}
	switch {
	case !e.regular() && !e.link() && !e.submodule():
		return fmt.Errorf("mode %s is neither a file, nor a link, nor a submodule", e.mode)
	case e.link() && e.size > maxLink:
		return errors.New("a link longer than any path")
	case e.size > maxBlob:
		return fmt.Errorf("larger than %d MiB", maxBlob>>20)
	}
	return nil
}
