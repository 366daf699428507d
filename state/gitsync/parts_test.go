package gitsync

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestParseRemote(t *testing.T) {
	t.Parallel()
	for repo, want := range map[string]remote{
		"/srv/fleet.git":                       {"file:///srv/fleet.git", "file", "", ""},
		"/srv/a b%2f":                          {"file:///srv/a%20b%252f", "file", "", ""},
		"file:///srv/fleet.git":                {"file:///srv/fleet.git", "file", "", ""},
		"https://git.example.org/fleet":        {"https://git.example.org/fleet", "https", "git.example.org", ""},
		"https://bot@git.example.org:8443/a/b": {"https://bot@git.example.org:8443/a/b", "https", "git.example.org:8443", "bot"},
		"ssh://git@git.example.org:22/fleet":   {"ssh://git@git.example.org:22/fleet", "ssh", "git.example.org:22", "git"},
		"git@git.example.org:a/fleet.git":      {"git@git.example.org:a/fleet.git", "ssh", "git.example.org", "git"},
		"git.example.org:fleet":                {"git.example.org:fleet", "ssh", "git.example.org", ""},
	} {
		got, err := parseRemote(repo)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", repo, got, err)
		}
	}
	for repo, want := range map[string]string{
		"": "neither", "fleet": "neither", "./fleet": "neither", "-oProxyCommand=x:y": "neither", "git@-oProxyCommand=x:y": "neither",
		"ext::sh -c x": "neither", "git://git.example.org/x": "git:// is none of", "ssh://-oProxyCommand=x/y": "begins with -",
		"https:///x": "names no host", "https://a:secret@git.example.org/x": "give a token file", "https://a b:secret@x/\x7f": "is no URL",
	} {
		_, err := parseRemote(repo)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v; want %q", repo, err, want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	good := Config{Repo: "https://git.example.org/fleet", Ref: "main", Path: "a/b", Dest: "/dest"}
	for _, path := range []string{good.Path, "", ".", ".github/manifests", "./.gitops"} {
		c := good
		if c.Path = path; c.Validate() != nil {
			t.Errorf("path %q: %v", path, c.Validate())
		}
	}
	for name, x := range map[string]struct {
		set  func(c *Config)
		want string
	}{
		"no ref":         {func(c *Config) { c.Ref = "" }, "ref"},
		"an option":      {func(c *Config) { c.Ref = "--upload-pack=x" }, "ref"},
		"a refspec":      {func(c *Config) { c.Ref = "main:refs/heads/x" }, "ref"},
		"a glob":         {func(c *Config) { c.Ref = "*" }, "ref"},
		"a revision":     {func(c *Config) { c.Ref = "main~1" }, "ref"},
		"up":             {func(c *Config) { c.Path = "../x" }, "path"},
		"git's own":      {func(c *Config) { c.Path = "./.git/refs" }, "path"},
		"absolute":       {func(c *Config) { c.Path = "/x" }, "path"},
		"relative":       {func(c *Config) { c.Dest = "dest" }, "dest"},
		"nothing to ask": {func(c *Config) { c.Verify.Signers = "/x" }, "ssh or gpg"},
		"nobody to ask":  {func(c *Config) { c.Verify.Method = "ssh" }, "allowed signers"},
		"x509":           {func(c *Config) { c.Verify.Method = "x509" }, "ssh or gpg"},
		"a key":          {func(c *Config) { c.Access.SSHKey = "/key" }, "of no use"},
		"a token":        {func(c *Config) { c.Repo, c.Access.TokenFile = "git@x:y", "/token" }, "of no use"},
		"a variable":     {func(c *Config) { c.Repo, c.Access.SSHKey = "git@x:y", "/a$(b)" }, "without blanks"},
	} {
		c := good
		x.set(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %q", name, err, x.want)
		}
	}
}

// A secret is in the environment alone, for its server alone.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := parseRemote("https://git.example.org:8443/fleet")
	if err != nil {
		t.Fatal(err)
	}
	outside := map[string]string{"PATH": "/bin", "https_proxy": "http://proxy:1", "HOME": "/root", "GIT_DIR": "/x", "LD_PRELOAD": "/x"}
	env, err := r.environment(Access{TokenFile: token}, func(name string) string { return outside[name] })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"PATH=/bin", "https_proxy=http://proxy:1", "HOME=/nonexistent", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_KEY_0=http.https://git.example.org:8443/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:s3cret")),
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if text := strings.Join(env, "\n"); strings.Contains(text, "LD_PRELOAD") || strings.Contains(text, "GIT_DIR") || strings.Contains(text, "s3cret") {
		t.Errorf("%q", env)
	}
	for _, bad := range []string{"", "\n", "two words", "a\nb", "\x01"} {
		if err := os.WriteFile(token, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readToken(token); err == nil {
			t.Errorf("%q is taken for a token", bad)
		}
	}
}

func TestParseGeneration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"generation: 42\n": 42, "# grows\n---\ngeneration:   7 # seven\n": 7, "generation:1": 1, "generation: 9223372036854775807": 1<<63 - 1,
		"": 0, "# none": 0, "generation: 0": 0, "generation: -1": 0, "generation: 0x10": 0, "generation: 1e3": 0,
		"generation: 1\ngeneration: 2": 0, "generation: 9223372036854775808": 0, "Generation: 1": 0, "generation: 1\nother: 2": 0,
	} {
		got, err := parseGeneration(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
}

// Without git nothing is known, of our repository either: it stays.
func TestWithoutGit(t *testing.T) {
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "web"})
	w.mustSync()
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	if err := w.sync(); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
	w.wantCurrent(id)
	if _, err := os.Stat(filepath.Join(w.cfg.Dest, repoDir, "HEAD")); err != nil {
		t.Error(err)
	}
	t.Setenv("PATH", path)
	w.mustSync()
}

func TestTelling(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"": "", "fatal: no such ref\n": "no such ref", "warning: x\nhint\n": "warning: x",
		"remote: hello\nfatal: denied\n": "denied",
		"Host key verification failed.\nfatal: Could not read from remote repository.\n\nPlease make sure": "Could not read from remote repository. (Host key verification failed.)",
		"error: object file is empty\n":             "object file is empty",
		"fatal: \x1b]0;title\x07 \xff\x1b[31mred\n": " ]0;title  ? [31mred",
	} {
		if got := telling(said); got != want {
			t.Errorf("%q: %q; want %q", said, got, want)
		}
	}
}

// Hosts keep apart, each to its own time, and none waits for much longer than
// a period.
func TestUntilTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		period := time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(rt, "period"))
		now := time.Unix(0, rapid.Int64Range(0, 1<<61).Draw(rt, "now"))
		host := rapid.StringMatching(`[a-z0-9]{1,9}`).Draw(rt, "host")
		wait := untilTurn(now, period, host)
		if wait <= period/2 || wait > period+period/2 {
			rt.Fatalf("%v of %v", wait, period)
		}
		if next := untilTurn(now.Add(wait), period, host); next != period {
			rt.Fatalf("after its turn the next is in %v, not in %v", next, period)
		}
	})
	turns := map[time.Duration]bool{}
	for _, host := range []string{"n1", "n2", "n3", "n4", "n5"} {
		turns[untilTurn(epoch, time.Minute, host).Round(time.Second)] = true
	}
	if len(turns) < 4 {
		t.Errorf("five hosts have %d turns", len(turns))
	}
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		wake, ended := make(chan struct{}), make(chan struct{})
		var calls atomic.Int64
		go func() {
			Loop(ctx, time.Minute, "n1", wake, func() { calls.Add(1) })
			close(ended)
		}()
		synctest.Wait()
		if calls := calls.Load(); calls != 1 {
			t.Fatalf("%d calls at the start", calls)
		}
		wake <- struct{}{}
		synctest.Wait()
		if calls := calls.Load(); calls != 2 {
			t.Fatalf("%d calls after one was asked for", calls)
		}
		select {
		case <-time.After(10 * time.Minute):
		case <-ended:
		}
		if calls := calls.Load(); calls < 11 || calls > 13 {
			t.Errorf("%d calls after ten minutes", calls)
		}
		stop()
		<-ended
	})
}
