package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

const (
	fetchTimeout = 10 * time.Minute // a first clone, over a slow line
	localTimeout = 2 * time.Minute  // what only reads what is here

	// maxFile bounds each file that git writes, so a pack of a history that can't
	// be one of manifests doesn't fill the disk.
	maxFile = 2 << 30

	maxOutput = 64 << 20
	maxErrors = 4 << 10
)

// git runs the host's git in our repository.
type git struct {
	dir    string // of the bare repository
	env    []string
	config []string // -c options
	held   *os.File // the lock, which a git that outlives us goes on holding

	largest uint64 // bytes of a file that it may write
}

// settings has every key on the command line that would have git run or trust
// something: whatever our repository's own configuration says comes second.
func settings(transport string) []string {
	keys := []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=false", "core.attributesFile=/dev/null",
		"core.excludesFile=/dev/null", "core.useReplaceRefs=false", "core.alternateRefsCommand=", "core.gitProxy=",
		"core.askPass=/bin/false", "core.fsync=all", "core.logAllRefUpdates=false", "credential.helper=",
		"protocol.allow=never", "protocol." + transport + ".allow=always", "transfer.fsckObjects=true",
		"fetch.fsckObjects=true", "transfer.bundleURI=false", "transfer.credentialsInUrl=die", "fetch.recurseSubmodules=false",
		"submodule.recurse=false", "fetch.writeCommitGraph=false", "gc.autoDetach=false", "maintenance.auto=false",
		"safe.bareRepository=explicit", "http.followRedirects=false", "http.sslVerify=true", "http.lowSpeedLimit=1000",
		"http.lowSpeedTime=60", "log.showSignature=false",
		"gpg.program=/bin/false", "gpg.x509.program=/bin/false", "gpg.ssh.program=/bin/false", "gpg.minTrustLevel=fully",
	}
	var args []string
	for _, k := range keys {
		args = append(args, "-c", k)
	}
	return args
}

// gitError is a git that ended by itself, and not well.
type gitError struct {
	command string
	code    int
	text    string // the first line that says something
}

func (e *gitError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("git %s: exit code %d", e.command, e.code)
	}
	return "git " + e.command + ": " + e.text
}

// failed reports whether git answered no, by the exit code that means it.
func failed(err error, code int) bool {
	var e *gitError
	return errors.As(err, &e) && e.code == code
}

// output gives what git prints. The first argument is the command's name.
func (g *git) output(ctx context.Context, args ...string) ([]byte, error) {
	out := NewCapped(maxOutput)
	err := g.run(ctx, call{args: args, limit: localTimeout, stdout: out})
	if err == nil && out.Over() {
		err = fmt.Errorf("git %s gives more than %d MiB", args[0], maxOutput>>20)
	}
	return out.Bytes(), err
}

// line gives the one line that git prints.
func (g *git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.output(ctx, args...)
	return strings.TrimSpace(string(out)), err
}

// call is one run of git. The first argument is the command's name.
type call struct {
	args   []string
	limit  time.Duration
	stdin  io.Reader // nil: empty
	stdout io.Writer // nil: discarded

	progress func(text string) // nil: not told
}

// run runs git to its end, or to the end of the time it has, and then all that it
// started ends, too. Should we be killed, git dies with us. What it started ends
// when it next looks for git, or when the server has been silent for a minute:
// each has the lock open, so nobody else begins while one of them still writes.
func (g *git) run(ctx context.Context, c call) error {
	timed, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	full := append([]string{"--git-dir=" + g.dir}, g.config...)
	cmd := exec.CommandContext(timed, "git", append(full, c.args...)...)
	errs := NewCapped(maxErrors)
	said := &progressReader{rest: errs, tell: c.progress}
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.env, c.stdin, c.stdout, said
	cmd.Dir = "/"
	if g.held != nil {
		cmd.ExtraFiles = []*os.File{g.held}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	// The death signal comes when this thread ends, not the process (Go issue 27505).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	// git has the network to wait for before it writes.
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: g.largest, Max: g.largest}, nil)
	err := cmd.Wait()
	said.flush()
	return explain(timed, c, err, errs.String())
}

// explain makes of a command's end an error that says what git said.
func explain(ctx context.Context, c call, err error, said string) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("git %s: not done after %s", c.args[0], c.limit)
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	case errors.As(err, &exit):
		return &gitError{command: c.args[0], code: exit.ExitCode(), text: telling(said)}
	}
	return fmt.Errorf("git %s: %w", c.args[0], err)
}

// telling gives the first error line of what git printed, without its prefix.
// What the server says ("remote: ...") may come before it, and so may warnings.
// ssh and index-pack speak before git does, and know more.
func telling(said string) string {
	lines := printable(said)
	for _, prefix := range []string{"fatal: ", "error: "} {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, prefix) })
		switch {
		case i < 0:
			continue
		case i > 0 && prefix == "fatal: " && !strings.HasPrefix(lines[i-1], "remote:"):
			return lines[i][len(prefix):] + " (" + strings.TrimPrefix(lines[i-1], "error: ") + ")"
		}
		return lines[i][len(prefix):]
	}
	return strings.Join(lines[:min(len(lines), 1)], "")
}

// printable gives the lines that aren't empty, without what a server may have put
// there for somebody's terminal.
func printable(said string) []string {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(said, "?")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line))
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
