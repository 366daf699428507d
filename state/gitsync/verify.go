package gitsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const maxSigners = 8 << 20

// verify gives the one who signed the tip, as the allow-list names him. A tag's
// signature vouches for its commit, and a commit's for all that is below it: the
// tip alone is asked. So who signs a merge answers for what is merged.
func (s *session) verify(ctx context.Context, t tip) (string, error) {
	if s.cfg.Verify.Method == "" {
		return "", nil
	}
	checker, done, err := s.checker(ctx)
	if err != nil {
		return "", fmt.Errorf("verification: %w", err)
	}
	defer done()
	if t.tag {
		if signer, err := checker.tag(ctx, t.object, s.cfg.fullRef()); err == nil {
			return signer, nil
		}
	}
	signer, err := checker.commit(ctx, t.commit)
	if no := (*gitError)(nil); errors.As(err, &no) && (no.code == 0 || no.code == 1) {
		return "", &Refusal{t.commit, fmt.Sprintf("nobody among the allowed signers (%s) has signed it", s.cfg.Verify.Method)}
	}
	return signer, err
}

// checker is our git with what the signatures need: one program for the kind
// that is wanted, and false for the others, since git chooses by what it finds in
// the commit.
type checker struct{ git }

func (s *session) checker(ctx context.Context) (*checker, func(), error) {
	program := map[string]string{"ssh": "ssh-keygen", "gpg": "gpg"}[s.cfg.Verify.Method]
	if _, err := exec.LookPath(program); err != nil {
		return nil, nil, err // which to git looks like a bad signature
	}
	signers, err := readSigners(s.cfg.Verify.Signers)
	if err != nil {
		return nil, nil, err
	}
	c := &checker{*s.git}
	dir := filepath.Join(s.cfg.Dest, ".signers")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, nil, err
	}
	done := func() { _ = os.RemoveAll(dir) }
	if s.cfg.Verify.Method == "gpg" {
		err = c.useGPG(ctx, dir, signers)
	} else {
		err = c.useSSH(dir, signers)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return c, done, nil
}

// readSigners reads the file once: nobody changes it between the signature and
// the name that goes with it.
func readSigners(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxSigners:
		return nil, fmt.Errorf("%s is no file of allowed signers", file)
	}
	data, err := os.ReadFile(file)
	if err == nil && len(strings.TrimSpace(string(data))) == 0 {
		err = fmt.Errorf("%s is empty", file)
	}
	return data, err
}

func (c *checker) useSSH(dir string, signers []byte) error {
	file := filepath.Join(dir, "allowed_signers")
	c.with("gpg.format=ssh", "gpg.ssh.program=ssh-keygen", "gpg.ssh.allowedSignersFile="+file)
	return os.WriteFile(file, signers, 0o600)
}

// useGPG makes a keyring of those keys alone, so that each good signature is one
// of theirs. It asks no server for others, and starts no daemon.
func (c *checker) useGPG(ctx context.Context, home string, keys []byte) error {
	c.with("gpg.format=openpgp", "gpg.program=gpg", "gpg.openpgp.program=gpg")
	c.env = append(c.env[:len(c.env):len(c.env)], "GNUPGHOME="+home)
	const conf = "batch\nno-tty\nno-autostart\nno-auto-key-retrieve\nno-auto-key-locate\ndisable-dirmngr\ntrust-model always\n"
	if err := os.WriteFile(filepath.Join(home, "gpg.conf"), []byte(conf), 0o600); err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	cmd := exec.CommandContext(timed, "gpg", "--quiet", "--import")
	said := NewCapped(maxErrors)
	cmd.Env, cmd.Stdin, cmd.Stderr, cmd.Dir = c.env, strings.NewReader(string(keys)), said, "/"
	return explain(timed, call{args: []string{"verify: gpg --import"}, limit: localTimeout}, cmd.Run(), said.String())
}

func (c *checker) with(keys ...string) {
	c.config = c.config[:len(c.config):len(c.config)]
	for _, k := range keys {
		c.config = append(c.config, "-c", k)
	}
}

// commit checks a commit's signature. The exit code decides; the name is asked
// for in a format of ours, for what git and its helpers print for people may
// hold what the signer wrote.
func (c *checker) commit(ctx context.Context, id string) (string, error) {
	if _, err := c.output(ctx, "verify-commit", "--raw", id); err != nil {
		return "", err
	}
	line, err := c.line(ctx, "log", "-1", "--no-walk", "--format=%G?%x00%GS", "--end-of-options", id)
	if err != nil {
		return "", err
	}
	good, signer, _ := strings.Cut(line, "\x00")
	if good != "G" || signer == "" {
		return "", &gitError{command: "verify-commit", text: "no good signature"}
	}
	return signer, nil
}

// tag checks a tag's signature. Its own name is part of what was signed: another
// tag that was put in this one's place isn't what somebody released.
func (c *checker) tag(ctx context.Context, id, ref string) (string, error) {
	if _, err := c.output(ctx, "verify-tag", "--raw", id); err != nil {
		return "", err
	}
	text, err := c.output(ctx, "cat-file", "tag", id)
	if err != nil {
		return "", err
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	name, tagger := "", ""
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "tag":
			name = value
		case "tagger":
			tagger = value
		}
	}
	if ref != "refs/tags/"+name {
		return "", &gitError{command: "verify-tag", text: "the tag is called " + name}
	}
	// git gives no signer's name for a tag; the tagger's is under the signature.
	who, _, _ := strings.Cut(tagger, ">")
	return who + ">", nil
}
