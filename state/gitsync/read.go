package gitsync

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Extract writes what DEST's repository has of a commit to a new directory, as
// Sync would publish it, and gives the commit's full name. The commit is any
// name that git knows there, or the ref that is followed: what it pointed to
// when it was last fetched. Nothing is verified: it's to be looked at, not to be
// served.
func Extract(ctx context.Context, dest, commit, dir string) (string, error) {
	status, err := ReadStatus(dest)
	if err != nil {
		return "", err
	}
	published, err := readRecord(filepath.Join(dest, CurrentLink))
	if err != nil {
		return "", fmt.Errorf("nothing is published yet: %w", err)
	}
	s, err := reader(filepath.Join(dest, repoDir), published.Path)
	if err != nil {
		return "", err
	}
	name := commit
	if commit == status.Ref {
		name = fetchedRef
	}
	id, err := s.git.line(ctx, "rev-parse", "--verify", "--end-of-options", name+"^{commit}")
	if err != nil || !isCommit(id) {
		return "", fmt.Errorf("sync has fetched no commit %q", commit)
	}
	return id, s.read(ctx, id, dir)
}

// Tree is a directory of a commit in any repository of this host.
type Tree struct {
	GitDir string // an absolute path: git rev-parse --absolute-git-dir
	Commit string // in full
	Path   string // of the directory in the commit, "" for all of it
}

// Extract writes the tree to a new directory, as Sync would publish it. The
// repository's configuration and the user's have no say in that, and nothing is
// fetched that a partial clone lacks.
func (t Tree) Extract(ctx context.Context, dir string) error {
	s, err := reader(t.GitDir, t.Path)
	if err != nil {
		return err
	}
	return s.read(ctx, t.Commit, dir)
}

// reader is a session that reads a directory of the commits of a repository.
func reader(gitDir, path string) (*session, error) {
	here, err := parseRemote(gitDir)
	if err != nil {
		return nil, err
	}
	env, err := here.environment(Access{}, os.Getenv)
	if err != nil {
		return nil, err
	}
	g := &git{dir: gitDir, env: env, config: settings(here.transport), largest: maxFile}
	return &session{cfg: Config{Path: path}, git: g}, nil
}

func (s *session) read(ctx context.Context, commit, dir string) error {
	files, _, err := s.content(ctx, commit)
	if err != nil {
		return err
	}
	return s.write(ctx, commit, files, dir)
}
