package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"pointsman/state/gitsync"
	"pointsman/state/manifest"
)

// maxHistory bounds what is read of a commit, in bytes, as a directory's files
// are bounded.
const maxHistory = 512 << 20

// committed gives the manifests of a directory as a git commit has them: nil
// for no commit, where the directory is not part of it, and, for HEAD, where
// there's none yet. Git is asked, and not its files read, for it knows packs,
// worktrees and whose repository it may trust.
func committed(ctx context.Context, dir, commit string) (*manifest.Snapshot, error) {
	if commit == "" {
		return nil, nil
	}
	if _, err := git(ctx, dir, "rev-parse", "--git-dir"); err != nil {
		return nil, err
	}
	hash, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}")
	switch {
	case err != nil && commit == lastCommit:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("git knows no commit %q", commit)
	}
	id := strings.TrimSpace(string(hash))
	if _, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", id+":./"); err != nil {
		return nil, nil
	}
	archive, err := git(ctx, dir, "archive", "--format=tar", id) // of dir alone
	if err != nil {
		return nil, err
	}
	files, err := untar(archive)
	if err != nil {
		return nil, err
	}
	s := manifest.NewSnapshot(files)
	s.Commit = id
	return s, nil
}

// untar gives the manifests of a tar archive.
func untar(archive []byte) ([]*manifest.File, error) {
	var files []*manifest.File
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("git archive: %w", err)
		}
		if h.Typeflag != tar.TypeReg || !manifest.IsManifest(h.Name) {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("git archive: %w", err)
		}
		files = append(files, &manifest.File{Path: h.Name, Data: data})
	}
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

// git runs git in a directory and gives its output. In a hook the environment
// names the repository that the hook is of, which dir need not be in.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	hooks := []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(hooks, name)
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	out, errs := gitsync.NewCapped(maxHistory), gitsync.NewCapped(4096)
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	switch {
	case out.Over():
		return nil, fmt.Errorf("git %s gives more than %d MiB", args[0], maxHistory>>20)
	case errors.As(err, new(*exec.ExitError)):
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return nil, &gitError{"git " + args[0] + ": " + strings.TrimPrefix(first, "fatal: ")}
	}
	return out.Bytes(), err
}
