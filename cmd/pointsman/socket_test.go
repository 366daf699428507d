package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pointsman/reconcile/lab"
	"pointsman/state"
)

// stranger and circle are nobody's ids.
const (
	stranger = 64123
	circle   = 64200
)

// TestSocketRights: the file is as it's asked for, whatever the umask; a group
// that it can't be given to is named, with the cure.
func TestSocketRights(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run", "sock")
	for _, want := range []socketRights{{0o666, circle}, {0o660, os.Getegid()}, {0o600, circle}} {
		l := must[net.Listener](t)(want.listen(t.Context(), path))
		info := must[os.FileInfo](t)(os.Stat(path))
		if got := (socketRights{info.Mode().Perm(), int(info.Sys().(*syscall.Stat_t).Gid)}); got != want {
			t.Errorf("it's %+v, not %+v", got, want)
		}
		if _, err := want.listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another agent answers there") {
			t.Errorf("two sockets: %v", err)
		}
		l.Close()
	}
	for _, make := range []func() error{func() error { return os.WriteFile(path, nil, 0o600) }, func() error { return os.Mkdir(path, 0o700) }} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if _, err := (socketRights{0o660, os.Getegid()}).listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "there's something else, no socket") {
			t.Errorf("no socket: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Errorf("what is no socket is removed: %v", err)
		}
	}
	unprivileged(t, func() {
		dir := must[string](t)(os.MkdirTemp("", "sock-"))
		defer os.RemoveAll(dir)
		_, err := socketRights{0o660, circle}.listen(t.Context(), filepath.Join(dir, "sock"))
		if err == nil || !strings.Contains(err.Error(), "can't be given to the group 64200; an agent that isn't root must be in it") {
			t.Errorf("another's group: %v", err)
		}
	})
}

// unprivileged does something as a stranger, on a thread that ends with it.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(call, stranger, stranger, stranger); errno != 0 {
				done <- errno
				return
			}
		}
		do()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// as gives what is put before a command for others than root.
func as(ids string) string {
	return fmt.Sprintf("setpriv --reuid=%d %s pointsman ", stranger, ids)
}

// TestControlSocket: who may open the socket may ask; root, and the members of its
// group, may also change something. Those who watch see each change once, and an
// agent that is restarted answers them again. Nobody holds it up.
func TestControlSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.Backends[0].Serve(lab.TCP, 8080)
	b2 := w.Backends[1].Serve(lab.TCP, 8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeTCP), slice("web/1", http8080, "10.20.0.11", "10.20.0.12"))
	w.write("db.yaml", service("db", "clusterIP: 10.96.0.21, "+http80), slice("db/1", http8080, "10.20.0.12"))
	a := w.agent(w.Nodes[0], "--socket-mode", "0666", "--socket-group", fmt.Sprint(circle))
	for _, dir := range []string{filepath.Dir(w.dir), w.dir, a.state} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	many := make([]string, 0, 80)
	for i := range 80 { // more than are read at first
		many = append(many, fmt.Sprint(63000+i))
	}
	for _, c := range []struct {
		ids string
		may bool
	}{
		{fmt.Sprintf("--regid=%d --clear-groups", stranger), false},
		{fmt.Sprintf("--regid=%d --groups=%s", stranger, strings.Join(many, ",")), false},
		{fmt.Sprintf("--regid=%d --clear-groups", circle), true},
		{fmt.Sprintf("--regid=%d --groups=%s,%d", stranger, strings.Join(many, ","), circle), true},
	} {
		sh(t, a.node, as(c.ids)+"status --socket "+a.socket())
		for _, change := range []string{"drain endpoint 10.20.0.99 --force", "undrain endpoint 10.20.0.99", "reload"} {
			out, err := a.node.Run(t.Context(), "sh", "-c", as(c.ids)+change+" --socket "+a.socket())
			if c.may != (err == nil) {
				t.Errorf("%s: %s: %v\n%s", c.ids, change, err, out)
			}
			verb, _, _ := strings.Cut(change, " ")
			if want := fmt.Sprintf("pointsman: the agent says: reading is allowed, %s isn't: you are uid %d and not in group %d", verb, stranger, circle); err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: %v", c.ids, change, err)
			}
		}
	}
	for _, address := range []string{"10.20.0.11:8080", "10.20.0.12:8080"} {
		a.votesUp(address)
	}
	watchEndpoints(t, a, b2)
	stalled(t, a)
	a.args = append(a.args, "--socket-mode", "0660")
	a.restart(syscall.SIGINT)
	_, err := a.node.Run(t.Context(), "sh", "-c", as(fmt.Sprintf("--regid=%d --clear-groups", stranger))+"status --socket "+a.socket())
	if err == nil || !strings.Contains(err.Error(), "permission denied; are you root, or in the socket's group?") {
		t.Errorf("mode 0660: %v", err)
	}
}

// votesUp waits until an endpoint has been probed, and answers.
func (a *daemon) votesUp(address string) {
	a.t.Helper()
	eventually(a.t, func() error {
		var answer endpointsAnswer
		if err := a.ask(&answer, "endpoints?name=web"); err != nil {
			return err
		}
		for _, e := range answer.Endpoints {
			if e.Address == address && len(e.Votes) == 1 && e.Votes[0].Verdict == state.Up.String() {
				return nil
			}
		}
		return fmt.Errorf("%+v", answer)
	})
}

// watchEndpoints watches the endpoints of one Service and, as objects, of all while an
// endpoint goes down and the agent is restarted.
func watchEndpoints(t *testing.T, a *daemon, b2 *lab.Backend) {
	t.Helper()
	start := func(args ...string) *lab.Process {
		t.Helper()
		return must[*lab.Process](t)(a.node.Start("pointsman", append([]string{"get"}, append(args, "-w", "--socket", a.socket())...)...))
	}
	rows, objects := start("endpoints", "web"), start("ep", "-o", "json")
	reads := func(p *lab.Process, want int) {
		t.Helper()
		eventually(t, func() error {
			if n := strings.Count(p.Output(), "\n"); n != want {
				return fmt.Errorf("%d lines, not %d:\n%s", n, want, p.Output())
			}
			return nil
		})
	}
	reads(rows, 3)
	reads(objects, 2) // one of each Service
	b2.Close()
	reads(rows, 4)
	reads(objects, 3)
	lines := strings.Split(rows.Output(), "\n")
	if at := strings.Index(lines[0], "READY"); !strings.Contains(lines[3], "10.20.0.12:8080") || strings.Index(lines[3], "false") != at || strings.Contains(rows.Output(), "db") {
		t.Errorf("what went down is shown as\n%s", rows.Output())
	}
	var event struct {
		Type   string
		Object struct{ Metadata struct{ Name string } }
	}
	last := strings.Split(objects.Output(), "\n")[2]
	if err := json.Unmarshal([]byte(last), &event); err != nil || event.Type != "MODIFIED" || event.Object.Metadata.Name != "web.http.8080.ipv4" {
		t.Errorf("%v: %s", err, last)
	}

	a.restart(syscall.SIGINT)
	eventually(t, func() error {
		if !strings.Contains(rows.Output(), "trying again") || !strings.Contains(rows.Output(), "the agent answers again") {
			return fmt.Errorf("no word of the restart:\n%s", rows.Output())
		}
		return nil
	})
	if n := strings.Count(rows.Output(), "10.20.0.11"); n != 1 {
		t.Errorf("the endpoint that nothing happened to is told %d times:\n%s", n, rows.Output())
	}
	for _, p := range []*lab.Process{rows, objects} {
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("interrupted: %v", err)
		}
	}
}

// stalled asks again and again and never reads an answer; others get theirs.
func stalled(t *testing.T, a *daemon) {
	t.Helper()
	for range 20 {
		conn := must[net.Conn](t)(net.Dial("unix", a.socket()))
		t.Cleanup(func() { conn.Close() })
		if err := conn.(*net.UnixConn).SetReadBuffer(1); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := fmt.Fprint(conn, "GET /v1/endpoints?wait=20s HTTP/1.1\r\nHost: pointsman\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	var answer statusAnswer
	if err := a.ask(&answer, "status"); err != nil || !answer.Health.Healthy {
		t.Errorf("while others don't read: %v", err)
	}
}
