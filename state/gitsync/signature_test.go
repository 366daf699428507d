package gitsync

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sshKey makes a key, and gives its file and the line of an allowed signers
// file.
func sshKey(t *testing.T, who string) (file, line string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, who + ` namespaces="git" ` + string(public)
}

// signing is how the origin's git signs with an SSH key.
func signing(key string) []string {
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + key}
}

// signed makes a signed commit.
func (w *world) signed(key string, content files) string {
	w.Helper()
	w.write(content)
	w.git("add", "-A")
	w.git(append(signing(key), "commit", "-q", "-S", "--allow-empty", "-m", "signed")...)
	return w.head()
}

func newSignedWorld(t *testing.T) (w *world, ann, eve string) {
	w = newWorld(t, t.TempDir())
	ann, line := sshKey(t, "ann@example.org")
	eve, _ = sshKey(t, "ann@example.org") // says she is Ann
	w.cfg.Verify = Verification{Method: "ssh", Signers: filepath.Join(t.TempDir(), "allowed_signers")}
	w.must(os.WriteFile(w.cfg.Verify.Signers, []byte("# who may\n"+line), 0o644))
	return w, ann, eve
}

const nobody = "nobody among the allowed signers (ssh) has signed it"

func TestSSHSignatures(t *testing.T) {
	t.Parallel()
	w, ann, eve := newSignedWorld(t)
	w.wantRefused(w.commit(files{"web.yaml": "0"}), nobody) // the very first, too
	w.signed(ann, files{"web.yaml": "1"})
	w.mustSync()
	w.wantCurrent(w.head())
	record, err := readRecord(filepath.Join(w.cfg.Dest, "current"))
	if err != nil || record.Signer != "ann@example.org" {
		t.Errorf("%+v, %v", record, err)
	}
	w.wantRefused(w.commit(files{"web.yaml": "2"}), nobody)
	w.wantRefused(w.signed(eve, files{"web.yaml": "3"}), nobody)
	// Who signs answers for all that is below.
	w.signed(ann, files{"web.yaml": "4"})
	w.mustSync()
	w.wantCurrent(w.head())
}

// A signature is one of a commit: another commit that carries it isn't signed.
func TestSSHSignatureOfSomethingElse(t *testing.T) {
	t.Parallel()
	w, ann, _ := newSignedWorld(t)
	w.signed(ann, files{"web.yaml": "1"})
	w.mustSync()
	w.signed(ann, files{"web.yaml": "2"})
	text := w.git("cat-file", "commit", "HEAD")
	forged := filepath.Join(t.TempDir(), "commit")
	w.must(os.WriteFile(forged, []byte(strings.Replace(text, "\n\nsigned", "\n\nforged", 1)+"\n"), 0o644))
	w.git("reset", "-q", "--hard", w.git("hash-object", "-t", "commit", "-w", forged))
	w.wantRefused(w.head(), nobody)
}

func TestSignedTags(t *testing.T) {
	t.Parallel()
	w, ann, eve := newSignedWorld(t)
	w.cfg.Ref = "refs/tags/prod"
	first := w.commit(files{"web.yaml": "1"})
	w.git(append(signing(eve), "tag", "-s", "-f", "-m", "1", "prod")...)
	w.wantRefused(first, nobody)
	w.git("tag", "-a", "-f", "-m", "1", "prod")
	w.wantRefused(first, nobody)
	w.git(append(signing(ann), "tag", "-s", "-f", "-m", "1", "prod")...)
	w.mustSync()
	w.wantCurrent(first)
	// A tag that Ann signed by another name isn't this one.
	second := w.commit(files{"web.yaml": "2"})
	w.git(append(signing(ann), "tag", "-s", "-m", "2", "draft")...)
	w.git("update-ref", "refs/tags/prod", "refs/tags/draft")
	w.wantRefused(second, nobody)
	// The commit's own signature does as well as the tag's.
	third := w.signed(ann, files{"web.yaml": "3"})
	w.git("tag", "-a", "-f", "-m", "3", "prod")
	w.mustSync()
	w.wantCurrent(third)
}

func TestSignersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w, ann, _ := newSignedWorld(t)
	w.signed(ann, files{"web.yaml": "1"})
	file := w.cfg.Verify.Signers
	for _, content := range []string{"", " \n", "nonsense\n"} {
		w.must(os.WriteFile(file, []byte(content), 0o644))
		if err := w.sync(); err == nil {
			t.Errorf("%q", content)
		}
	}
	w.must(os.Remove(file))
	if err := w.sync(); err == nil || !strings.Contains(err.Error(), "verification: ") {
		t.Error(err)
	}
	w.wantCurrent("")
}

// A key that is taken off the list is refused from then on, also for the commit
// that is published; that one stays.
func TestSignerIsTakenOffTheList(t *testing.T) {
	t.Parallel()
	w, ann, _ := newSignedWorld(t)
	id := w.signed(ann, files{"web.yaml": "1"})
	w.mustSync()
	_, line := sshKey(t, "bob@example.org")
	w.must(os.WriteFile(w.cfg.Verify.Signers, []byte(line), 0o644))
	w.wantRefused(id, nobody)
}

// gpgKey makes a key in a home of its own, and gives its public half.
func gpgKey(t *testing.T, who string) (home string, public []byte) {
	t.Helper()
	home = t.TempDir()
	gpg := func(args ...string) []byte {
		cmd := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("gpg %q: %v", args, err)
		}
		return out
	}
	gpg("--quick-generate-key", who, "ed25519", "sign", "never")
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	return home, gpg("--armor", "--export", who)
}

func TestGPGSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	ann, public := gpgKey(t, "Ann <ann@example.org>")
	eve, _ := gpgKey(t, "Ann <ann@example.org>")
	w.cfg.Verify = Verification{Method: "gpg", Signers: filepath.Join(t.TempDir(), "keys.asc")}
	w.must(os.WriteFile(w.cfg.Verify.Signers, public, 0o644))
	commit := func(home string, content files) string {
		program := filepath.Join(home, "gpg.sh")
		w.must(os.WriteFile(program, []byte("#!/bin/sh\nexec gpg --homedir "+home+" \"$@\"\n"), 0o755))
		w.write(content)
		w.git("add", "-A")
		w.git("-c", "gpg.program="+program, "-c", "user.signingkey=ann@example.org", "commit", "-q", "-S", "-m", "signed")
		return w.head()
	}
	const nobody = "nobody among the allowed signers (gpg) has signed it"
	w.wantRefused(w.commit(files{"web.yaml": "0"}), nobody)
	w.wantRefused(commit(eve, files{"web.yaml": "1"}), nobody)
	key, _ := sshKey(t, "ann@example.org")
	w.wantRefused(w.signed(key, files{"web.yaml": "2"}), nobody)
	id := commit(ann, files{"web.yaml": "3"})
	w.mustSync()
	w.wantCurrent(id)
	record, err := readRecord(filepath.Join(w.cfg.Dest, "current"))
	if err != nil || record.Signer != "Ann <ann@example.org>" {
		t.Errorf("%+v, %v", record, err)
	}
	w.must(os.WriteFile(w.cfg.Verify.Signers, []byte("no key"), 0o644))
	if err := w.sync(); err == nil || !strings.Contains(err.Error(), "verification: ") {
		t.Error(err)
	}
}
