package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"pointsman/state/gitsync"
	"pointsman/state/manifest"
)

// committed gives the manifests of a directory as a git commit has them: nil
// for no commit, where the directory is not part of it, and, for HEAD, where
// there's none yet. Git is asked for the commit, and not its files read, for it
// knows packs, worktrees and whose repository it may trust; what's in it is read
// as sync would publish it.
func committed(ctx context.Context, dir, commit string) (*manifest.Snapshot, error) {
	if commit == "" {
		return nil, nil
	}
	gitDir, err := git(ctx, dir, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, err
	}
	id, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}")
	switch {
	case err != nil && commit == lastCommit:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("git knows no commit %q", commit)
	}
	if _, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", id+":./"); err != nil {
		return nil, nil
	}
	path, err := git(ctx, dir, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	return extracted(func(tree string) (string, error) {
		return id, gitsync.Tree{GitDir: gitDir, Commit: id, Path: path}.Extract(ctx, tree)
	})
}

// extracted reads the manifests of a commit that are written to a directory for
// that, which gives the commit's full name.
func extracted(write func(tree string) (string, error)) (*manifest.Snapshot, error) {
	dir, err := os.MkdirTemp("", "pointsman-commit-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	id, err := write(tree)
	if err != nil {
		return nil, err
	}
	s, err := manifest.ReadDir(tree)
	if err == nil {
		s.Commit = id
	}
	return s, err
}

// gitError is what git says when it fails.
type gitError struct{ text string }

func (e *gitError) Error() string { return e.text }

// isNoRepository reports whether there's no history for want of a repository,
// or of git.
func isNoRepository(err error) bool {
	var e *gitError
	return errors.Is(err, exec.ErrNotFound) || errors.As(err, &e) && strings.Contains(e.text, "not a git repository")
}

// git runs git in a directory and gives the line that it prints. In a hook the
// environment names the repository that the hook is of, which dir need not be in.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	hooks := []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(hooks, name)
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	out, errs := gitsync.NewCapped(maxLineOfGit), gitsync.NewCapped(4096)
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if errors.As(err, new(*exec.ExitError)) {
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		err = &gitError{"git " + args[0] + ": " + strings.TrimPrefix(first, "fatal: ")}
	}
	return strings.TrimSuffix(out.String(), "\n"), err
}

// maxLineOfGit is more than any path has.
const maxLineOfGit = 64 << 10
