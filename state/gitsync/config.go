// Package gitsync publishes a commit of a git repository as a directory. What
// is published was verified, judged and written to the disk before anybody can
// see it, and stays until something better takes its place by one rename.
//
// git itself is the host's: it has the transports and knows the signatures. It
// works in a bare repository of ours, which no checkout ever comes out of, and
// with a configuration that holds nothing but what is given here. Of a
// repository's contents nothing is run: no hook, no filter, no submodule.
//
// The directory DEST holds
//
//	current         a link to the published tree: commits/<commit>
//	commits/        the trees of the last three commits
//	status.json     what was published, and why something newer was not (Status)
//	repository.git  what was fetched
//	lock            held by the one who syncs
package gitsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"strings"
)

// Config says what is published where.
type Config struct {
	Repo string // an absolute path, or what git takes: https://, http://, ssh://, file://, user@host:path
	Ref  string // a branch, or a full name such as refs/tags/v1
	Path string // the directory of the commit that is published, "" for all of it
	Dest string // an absolute path

	Verify Verification
	Access Access

	// AllowRewind publishes a commit that doesn't descend from the published one,
	// or whose generation didn't grow. It's for one run, at somebody's wish.
	AllowRewind bool
	// Strict refuses a tree in which anything is wrong.
	Strict bool

	// Check judges a tree that is not published yet.
	Check func(ctx context.Context, dir string) (Verdict, error)
	Log   *slog.Logger

	// Progress is told in a few words what goes on; nil for nobody.
	Progress func(text string)

	// at is called before each step that changes the disk; a test may end the
	// process there.
	at func(step string)
}

// Verdict is what Check says of a tree it could read. One that it couldn't is
// an error.
type Verdict struct {
	Services int
	Errors   []string // each confined to one object: the others can be served
}

// Verification says whose signature a commit needs.
type Verification struct {
	Method  string // "ssh", "gpg", or "" for none
	Signers string // ssh: an allowed signers file (ssh-keygen(1)); gpg: exported public keys
}

// Access is how a private repository is read. Everything is in files: a command
// line is shown to everybody, and a URL ends up in logs.
type Access struct {
	SSHKey     string
	KnownHosts string
	TokenFile  string // the password of an HTTP(S) server
}

// Refusal says why a commit was fetched and is not published.
type Refusal struct {
	Commit string `json:"commit"`
	Reason string `json:"reason"`
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("commit %.12s is refused: %s", r.Commit, r.Reason)
}

// ErrLocked says that another process syncs to the same directory.
var ErrLocked = errors.New("another sync is at work")

// Validate reports what of the settings can't be meant, before anything is
// touched.
func (c Config) Validate() error {
	if _, err := parseRemote(c.Repo); err != nil {
		return err
	}
	if err := checkRef(c.Ref); err != nil {
		return err
	}
	if top, _, _ := strings.Cut(c.subdir(), "/"); c.Path != "" && (!filepath.IsLocal(c.Path) || top == ".git") {
		return fmt.Errorf("path %q is no directory of a commit", c.Path)
	}
	if !filepath.IsAbs(c.Dest) {
		return fmt.Errorf("dest %q is no absolute path", c.Dest)
	}
	switch c.Verify.Method {
	case "":
		if c.Verify.Signers != "" {
			return errors.New("allowed signers are given, and nothing that verifies: ssh or gpg?")
		}
	case "ssh", "gpg":
		if c.Verify.Signers == "" {
			return errors.New("nobody can be verified without a file of allowed signers")
		}
	default:
		return fmt.Errorf("%q verifies nothing: ssh or gpg", c.Verify.Method)
	}
	return c.Access.validate(c.Repo)
}

// checkRef takes names that mean the same to git on both sides. A short name
// is a branch here. To git it may be a tag as well, and the tag would win: then
// who may push a tag could stand in for a branch that is protected.
func checkRef(ref string) error {
	bad := ref == "" || strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "/") || strings.HasSuffix(ref, "/") ||
		strings.HasSuffix(ref, ".lock") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") ||
		strings.ContainsAny(ref, " ~^:?*[\\+\x7f") || strings.ContainsFunc(ref, func(r rune) bool { return r < ' ' })
	if bad {
		return fmt.Errorf("ref %q is no name of a branch, nor one such as refs/tags/v1", ref)
	}
	return nil
}

// fullRef gives the ref's name on the other side.
func (c Config) fullRef() string {
	if strings.HasPrefix(c.Ref, "refs/") {
		return c.Ref
	}
	return "refs/heads/" + c.Ref
}

// subdir is the published directory's path in the commit, "." for all of it.
func (c Config) subdir() string { return path.Clean("./" + filepath.ToSlash(c.Path)) }

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

func (c Config) step(name string) {
	if c.at != nil {
		c.at(name)
	}
}
