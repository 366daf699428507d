package gitsync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// gitServer serves a directory of repositories by HTTP to who has the password.
func gitServer(t *testing.T, root, user, password string) *httptest.Server {
	t.Helper()
	libexec, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"), Logger: nil,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// A token opens a private repository, and is in no error, status or file of ours.
func TestToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "web"})
	token := filepath.Join(t.TempDir(), "token")
	w.cfg.Repo = gitServer(t, filepath.Dir(w.origin), "x-access-token", "s3cret").URL + "/origin/.git"
	for _, wrong := range []string{"", "wrong-s3cret-too"} {
		if wrong != "" {
			w.must(os.WriteFile(token, []byte(wrong), 0o600))
			w.cfg.Access.TokenFile = token
		}
		if err := w.sync(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("with token %q: %v", wrong, err)
		}
	}
	w.must(os.WriteFile(token, []byte("s3cret\n"), 0o600))
	w.mustSync()
	w.wantCurrent(id)
	out, err := exec.Command("grep", "-r", "-l", "-e", "s3cret", "-e", "eC1hY2Nlc3", w.cfg.Dest).CombinedOutput()
	if len(out) > 0 {
		t.Errorf("%s: %v", out, err)
	}
}

// A server that sends us elsewhere isn't followed: it would be given what is for
// another one.
func TestRedirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "web"})
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/info/refs", http.StatusFound))
	t.Cleanup(first.Close)
	w.cfg.Repo = first.URL
	if err := w.sync(); err == nil || asked.Load() {
		t.Errorf("%v; asked elsewhere: %v", err, asked.Load())
	}
}

// A server that never ends is cut off together with what git started for it.
func TestStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	reached := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	w.cfg.Repo = server.URL
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-reached; stop() }()
	if _, err := Sync(ctx, w.cfg, epoch); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.cfg.Repo = w.origin // the lock is free
	w.commit(files{"web.yaml": "web"})
	w.mustSync()
}

// A sync that is killed while its git waits for a server: the lock is held until
// all that git started has ended, and nothing is left that is in the way.
func TestKilledWhileItFetches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "web"})
	w.mustSync()
	reached, end := make(chan struct{}), make(chan struct{})
	var first sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		first.Do(func() { close(reached) })
		<-end
	}))
	t.Cleanup(server.Close)
	self, err := os.Executable()
	w.must(err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), stepToDieAt+"=never", childRepo+"="+server.URL, childDest+"="+w.cfg.Dest)
	w.must(cmd.Start())
	<-reached
	w.must(cmd.Process.Kill())
	_ = cmd.Wait() // which is to say that it was killed
	close(end)
	f, err := os.Open(filepath.Join(w.cfg.Dest, "lock"))
	w.must(err)
	w.must(unix.Flock(int(f.Fd()), unix.LOCK_EX)) // waits
	unlock(f)
	w.wantCurrent(id)
	id = w.commit(files{"web.yaml": "web 2"})
	w.mustSync()
	w.wantCurrent(id)
}

// A repository of more than anybody's manifests ends the fetch before it fills
// the disk.
func TestPackThatIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	w.commit(files{"web.yaml": "web"})
	w.mustSync()
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	w.commit(files{"noise": string(noise)})
	r, err := parseRemote(w.origin)
	w.must(err)
	env, err := r.environment(Access{}, os.Getenv)
	w.must(err)
	s := &session{cfg: w.cfg, remote: r, git: &git{dir: filepath.Join(w.cfg.Dest, repoDir), env: env, config: settings("file"), largest: 1 << 16}}
	if _, err := s.fetch(t.Context()); err == nil {
		t.Error("it was fetched")
	}
	w.mustSync() // with the limit that is in force, it's small
	w.wantCurrent(w.head())
}

// sshd serves this host's repositories on loopback, and gives its port and its
// line of a known hosts file. The network namespace is the tests' own, and the
// mount namespace the server's: it wants to have /run/sshd.
func sshd(t *testing.T, clientKey string) (port int, known string) {
	t.Helper()
	dir := t.TempDir()
	hostKey, _ := sshKey(t, "host")
	keys, err := os.ReadFile(clientKey + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(hostKey + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s/authorized_keys\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\nPermitRootLogin prohibit-password\n", port, hostKey, dir)
	for name, text := range map[string]string{"authorized_keys": string(keys), "sshd_config": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := `mount --make-rprivate / && mount -t tmpfs pointsman /run && mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f "$0"`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script, filepath.Join(dir, "sshd_config"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	awaitLine(t, said, "Server listening")
	return port, "[127.0.0.1]:" + fmt.Sprint(port) + " " + string(public)
}

// awaitLine reads until a line says something, and goes on reading for the sake
// of the writer.
func awaitLine(t *testing.T, r io.Reader, want string) {
	t.Helper()
	lines := bufio.NewScanner(r)
	var said []string
	for lines.Scan() {
		if said = append(said, lines.Text()); strings.Contains(lines.Text(), want) {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return
		}
	}
	t.Fatalf("%q", said)
}

// A deploy key opens a repository, on the server that is known and no other.
func TestSSH(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	id := w.commit(files{"web.yaml": "web"})
	key, _ := sshKey(t, "deploy")
	stranger, _ := sshKey(t, "stranger")
	port, known := sshd(t, key)
	dir := t.TempDir()
	for name, text := range map[string]string{"known": known, "none": ""} {
		w.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	otherHost, err := os.ReadFile(stranger + ".pub")
	w.must(err)
	w.must(os.WriteFile(filepath.Join(dir, "other"), []byte(fmt.Sprintf("[127.0.0.1]:%d %s", port, otherHost)), 0o644))
	w.cfg.Repo = fmt.Sprintf("ssh://root@127.0.0.1:%d%s", port, w.origin)
	for _, x := range []struct{ key, known, want string }{
		{key, "none", "Host key verification failed"},
		{key, "other", "Host key verification failed"},
		{stranger, "known", "Permission denied"},
		{key, "known", ""},
	} {
		w.cfg.Access = Access{SSHKey: x.key, KnownHosts: filepath.Join(dir, x.known)}
		err := w.sync()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("with %s: %v; want %q", x.known, err, x.want)
		}
	}
	w.wantCurrent(id)
}
