package gitsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// session is one run.
type session struct {
	cfg    Config
	now    time.Time
	remote remote
	git    *git
	last   *Published // nil before the first
	status *Status
}

// Sync publishes what the ref points to, if it's any better than what is
// published. It gives what is published then, be it new or not. On an error the
// published tree is what it was; a *Refusal is an error about a commit, which
// stays one until somebody does something about it, ErrLocked one that concerns
// nobody but the caller.
func Sync(ctx context.Context, cfg Config, now time.Time) (Published, error) {
	if err := cfg.Validate(); err != nil {
		return Published{}, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := openDest(cfg.Dest); err != nil {
		return Published{}, err
	}
	held, err := lock(cfg.Dest)
	if err != nil {
		return Published{}, err
	}
	defer unlock(held)
	status, _ := ReadStatus(cfg.Dest) // what isn't readable is replaced
	s := &session{cfg: cfg, now: now, status: &status}
	status.Repo, status.Ref, status.Attempted = cfg.Repo, cfg.Ref, now
	p, err := s.run(ctx, held)
	s.conclude(p, err)
	if failed := writeStatus(cfg.Dest, status); failed != nil {
		cfg.Log.Warn("the status can't be written", "error", failed)
	}
	return p, err
}

// openDest makes the directory. In one of somebody else's root would leave files
// that its owner's next sync can't write.
func openDest(dest string) error {
	if err := os.MkdirAll(filepath.Join(dest, commitsDir), 0o755); err != nil {
		return err
	}
	for _, dir := range []string{dest, filepath.Join(dest, commitsDir)} {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, and this is user %d: run it as its owner", dir, st.Uid, os.Geteuid())
		}
	}
	return nil
}

// conclude puts a run's outcome into the status.
func (s *session) conclude(p Published, err error) {
	s.status.Error, s.status.Refused = "", nil
	if p.Commit != "" {
		s.status.Published = &p
	}
	if err == nil {
		s.status.Succeeded = s.now
		return
	}
	s.status.Error = err.Error()
	errors.As(err, &s.status.Refused)
}

// run does the work. A repository of ours that turns out to be damaged is made
// anew, once.
func (s *session) run(ctx context.Context, held *os.File) (Published, error) {
	last, err := lastPublished(s.cfg.Dest, *s.status)
	if err != nil {
		return Published{}, err
	}
	s.last = last
	if s.remote, err = parseRemote(s.cfg.Repo); err != nil {
		return s.former(), err
	}
	env, err := s.remote.environment(s.cfg.Access, os.Getenv)
	if err != nil {
		return s.former(), err
	}
	s.git = &git{dir: filepath.Join(s.cfg.Dest, repoDir), env: env, config: settings(s.remote.transport), held: held, largest: maxFile}
	p, err := s.update(ctx)
	if err == nil || ctx.Err() != nil || errors.As(err, new(*Refusal)) || s.sound(ctx) {
		return p, err
	}
	s.cfg.Log.Warn("the repository is damaged, and is fetched anew", "dir", s.git.dir, "error", err)
	if err := os.RemoveAll(s.git.dir); err != nil {
		return s.former(), err
	}
	return s.update(ctx)
}

// former is what was published before this run.
func (s *session) former() Published {
	if s.last == nil {
		return Published{}
	}
	return *s.last
}

// update fetches, and publishes what came if it may be. A draft that doesn't
// become anything isn't left on the disk, which may be full.
func (s *session) update(ctx context.Context) (Published, error) {
	if err := s.openRepository(ctx); err != nil {
		return s.former(), err
	}
	t, err := s.fetch(ctx)
	if err != nil {
		return s.former(), err
	}
	s.status.Fetched = t.commit
	p, files, err := s.admit(ctx, t)
	if err != nil {
		return s.former(), err
	}
	if s.standing(p, files) {
		p = s.former()
	} else if err := s.replace(ctx, &p, files); err != nil {
		_ = os.RemoveAll(s.draft())
		return s.former(), err
	}
	s.tidy(ctx, p.Commit)
	return p, nil
}

// admit decides whether a commit may follow the published one, by all that can
// be said before its manifests are read.
func (s *session) admit(ctx context.Context, t tip) (Published, []entry, error) {
	p := Published{Commit: t.commit, Ref: s.cfg.Ref, Path: s.cfg.subdir(), Time: s.now}
	var err error
	if p.Signer, err = s.verify(ctx, t); err != nil {
		return p, nil, err
	}
	if p.Generation, err = s.generation(ctx, t.commit); err != nil {
		return p, nil, err
	}
	if last := s.last; last != nil && last.Commit != t.commit && !s.cfg.AllowRewind {
		if err := s.descends(ctx, last.Commit, t.commit); err != nil {
			return p, nil, err
		}
		if err := grows(last.Generation, p.Generation); err != nil {
			return p, nil, &Refusal{t.commit, err.Error()}
		}
	}
	var files []entry
	files, p.Skipped, err = s.content(ctx, t.commit)
	return p, files, err
}

// standing reports whether that very tree is published, undamaged.
func (s *session) standing(p Published, files []entry) bool {
	if s.last == nil || s.last.Commit != p.Commit || s.last.Path != p.Path || s.cfg.Strict && s.last.Errors > 0 {
		return false
	}
	link := filepath.Join(s.cfg.Dest, CurrentLink)
	target, err := os.Readlink(link)
	if err != nil || target != filepath.Join(commitsDir, p.Commit) {
		return false
	}
	tree := filepath.Join(s.cfg.Dest, target)
	_, err = readRecord(tree)
	return err == nil && intact(tree, files)
}

const maxFindings = 20

// errorsText counts errors, and gives the first.
func errorsText(errs []string) string {
	if len(errs) == 1 {
		return "an error: " + errs[0]
	}
	return fmt.Sprintf("%d errors: %s", len(errs), errs[0])
}

// replace writes the tree, has it judged, and publishes it.
func (s *session) replace(ctx context.Context, p *Published, files []entry) error {
	s.cfg.progress("writing %d files", len(files))
	s.cfg.step("extract")
	if err := s.write(ctx, p.Commit, files, s.draft()); err != nil {
		return err
	}
	s.cfg.progress("judging %d files", len(files))
	s.cfg.step("check")
	v, err := s.cfg.Check(ctx, s.draft())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &Refusal{p.Commit, "its manifests can't be read: " + err.Error()}
	case s.cfg.Strict && len(v.Errors) > 0:
		return &Refusal{p.Commit, "it has " + errorsText(v.Errors)}
	case v.Services == 0:
		return &Refusal{p.Commit, "it has no Service that could be served" + firstOf(v.Errors)}
	}
	p.Services, p.Errors = v.Services, len(v.Errors)
	p.Findings = v.Errors[:min(len(v.Errors), maxFindings)]
	return s.publish(*p)
}

func firstOf(errs []string) string {
	if len(errs) == 0 {
		return ""
	}
	return ": " + errs[0]
}
