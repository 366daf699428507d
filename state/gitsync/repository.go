package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Our repository's refs. The published commit has one so that git keeps it, also
// when the branch is forced to something else.
const (
	fetchedRef   = "refs/pointsman/fetched"
	publishedRef = "refs/pointsman/published"
)

// tip is what the ref points to.
type tip struct {
	object string // a commit, or the tag that names it
	tag    bool
	commit string
}

// openRepository clears up after a git that was killed, and makes a repository
// where there is none. One that is half made has another name.
func (s *session) openRepository(ctx context.Context) error {
	dir := s.git.dir
	switch _, err := os.Stat(dir); {
	case err == nil:
		return clearLeftovers(dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	fresh := *s.git
	fresh.dir = filepath.Join(s.cfg.Dest, "."+repoDir)
	if err := os.RemoveAll(fresh.dir); err != nil {
		return err
	}
	s.cfg.step("init")
	if _, err := fresh.output(ctx, "init", "--quiet", "--bare", "--template=", "--initial-branch=none"); err != nil {
		return err
	}
	s.cfg.step("init-rename")
	return os.Rename(fresh.dir, dir)
}

// clearLeftovers removes locks and half a pack. Nobody else is at work: we hold
// the lock, and each git that we started held it, too.
func clearLeftovers(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasSuffix(name, ".lock") || strings.HasPrefix(d.Name(), "tmp_") {
			return os.Remove(name)
		}
		return nil
	})
}

// fetch brings the ref and all its history. A shallow history couldn't show that
// one commit descends from another.
func (s *session) fetch(ctx context.Context) (tip, error) {
	s.cfg.step("fetch")
	s.cfg.progress("fetching")
	loud, progress := "--quiet", (func(string))(nil)
	if s.cfg.Progress != nil {
		loud, progress = "--progress", func(text string) { s.cfg.progress("fetching: %s", text) }
	}
	args := []string{"fetch", loud, "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
		"--no-auto-maintenance", "--no-show-forced-updates", "--end-of-options", s.remote.address,
		"+" + s.cfg.fullRef() + ":" + fetchedRef}
	if err := s.git.run(ctx, call{args: args, limit: fetchTimeout, progress: progress}); err != nil {
		return tip{}, err
	}
	return s.resolve(ctx)
}

func (s *session) resolve(ctx context.Context) (tip, error) {
	var t tip
	var err error
	if t.object, err = s.git.line(ctx, "rev-parse", "--verify", "--end-of-options", fetchedRef); err != nil {
		return t, err
	}
	if t.commit, err = s.git.line(ctx, "rev-parse", "--verify", "--end-of-options", fetchedRef+"^{commit}"); err != nil {
		return t, err
	}
	if !isCommit(t.commit) {
		return t, fmt.Errorf("git rev-parse gives %q for a commit", t.commit)
	}
	t.tag = t.object != t.commit
	return t, nil
}

// isCommit reports whether a text is a commit's full name.
func isCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// sound reports whether our repository holds all it should. A power cut, a full
// disk or a hand may have seen to it that it doesn't. A git that can't be run
// says nothing of it.
func (s *session) sound(ctx context.Context) bool {
	_, err := s.git.output(ctx, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	var no *gitError
	return !errors.As(err, &no) || no.code < 0
}

// tidy has git hold on to the published commit, and removes what is no longer
// needed. None of that makes a sync fail.
func (s *session) tidy(ctx context.Context, commit string) {
	_, err := s.git.output(ctx, "update-ref", publishedRef, commit)
	if err == nil {
		_, err = s.git.output(ctx, "gc", "--auto", "--quiet")
	}
	if err = errors.Join(err, s.prune(commit)); err != nil {
		s.cfg.Log.Warn("tidying up", "dest", s.cfg.Dest, "error", err)
	}
}

// descends refuses a commit that doesn't follow the published one. git says 1
// for no; for more than that it may miss something it should have.
func (s *session) descends(ctx context.Context, published, next string) error {
	_, err := s.git.output(ctx, "merge-base", "--is-ancestor", published, next)
	switch {
	case err == nil:
		return nil
	case !failed(err, 1) && !s.lacks(ctx, err):
		return err
	}
	if _, older := s.git.output(ctx, "merge-base", "--is-ancestor", next, published); older == nil {
		return &Refusal{next, fmt.Sprintf("it is older than the published commit %.12s", published)}
	}
	return &Refusal{next, fmt.Sprintf("it doesn't descend from the published commit %.12s", published)}
}

// lacks reports whether git failed since there's no such thing, and not since our
// repository lost it.
func (s *session) lacks(ctx context.Context, err error) bool { return failed(err, 128) && s.sound(ctx) }

// generation reads the number in a commit, 0 where it has none.
func (s *session) generation(ctx context.Context, commit string) (uint64, error) {
	entries, err := s.list(ctx, commit, "--", generationFile)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	e := entries[0]
	if e.path != generationFile || !e.regular() || e.size > maxGenerationFile {
		return 0, &Refusal{commit, generationFile + " is no small file"}
	}
	text, err := s.git.output(ctx, "cat-file", "blob", e.id)
	if err != nil {
		return 0, err
	}
	n, err := parseGeneration(string(text))
	if err != nil {
		return 0, &Refusal{commit, generationFile + ": " + err.Error()}
	}
	return n, nil
}

// lock takes DEST for this process. The kernel gives it up when this process and
// each git that it started have ended, however that was.
func lock(dest string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dest, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked", ErrLocked, f.Name())
		}
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return f, nil
}

// unlock gives DEST up, in so many words: a process that is being started may
// have the file open for another moment.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}
