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
	here, err := parseRemote(dest)
	if err != nil {
		return "", err
	}
	env, err := here.environment(Access{}, os.Getenv)
	if err != nil {
		return "", err
	}
	s := &session{cfg: Config{Dest: dest, Path: published.Path}, status: &status}
	s.git = &git{dir: filepath.Join(dest, repoDir), env: env, config: settings(here.transport), largest: maxFile}
	name := commit
	if commit == status.Ref {
		name = fetchedRef
	}
	id, err := s.git.line(ctx, "rev-parse", "--verify", "--end-of-options", name+"^{commit}")
	if err != nil || !isCommit(id) {
		return "", fmt.Errorf("sync has fetched no commit %q", commit)
	}
	files, _, err := s.content(ctx, id)
	if err != nil {
		return "", err
	}
	return id, s.extract(ctx, files, dir)
}
