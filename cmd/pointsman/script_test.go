package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"pointsman/reconcile/lab"
)

// TestScripts runs testdata/script, each of which is a page of the manual, on
// a host of its own: n1, 192.0.2.11, with a default route.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               onHost,
		RequireExplicitExec: true,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"healthy": healthy},
	})
}

// onHost moves the script to a host. Its thread is locked and never given back,
// so that it ends with the script; all that the script runs are its children.
func onHost(env *testscript.Env) error {
	l, err := lab.Open()
	if err != nil {
		return err
	}
	env.Defer(func() { _ = l.Close() })
	n1 := l.Host("n1")
	n1.Join(l.Network("lan"), "192.0.2.11/24", "2001:db8::11/64")
	n1.IP("route add default via 192.0.2.1", "route add default via 2001:db8::1")
	if err := l.Err(); err != nil {
		return err
	}
	ns, err := os.Open(filepath.Join("/run/netns", n1.Namespace))
	if err != nil {
		return err
	}
	defer ns.Close()
	runtime.LockOSThread()
	examples, err := filepath.Abs("../../examples")
	env.Setenv("EXAMPLES", examples)
	env.Setenv("POINTSMAN_SOCKET", filepath.Join(env.WorkDir, "sock"))
	env.Setenv("GORACE", race)
	if err != nil {
		return err
	}
	return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
}

// healthy waits until /healthz of this host is 200, or with ! until it is 503;
// with an argument until it also says so.
func healthy(ts *testscript.TestScript, neg bool, args []string) {
	want := http.StatusOK
	if neg {
		want = http.StatusServiceUnavailable
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		code, body, err := askHealthz()
		if err == nil && code == want && strings.Contains(body, strings.Join(args, " ")) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("still after %s: %d %s %v", deadline, code, body, err)
		}
	}
}

// askHealthz dials by itself: an http.Client's goroutine would be on another
// thread, and so on another host.
func askHealthz() (code int, body string, err error) {
	conn, err := net.Dial("tcp", "127.0.0.1:10256")
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	var b strings.Builder
	_, err = bufio.NewReader(resp.Body).WriteTo(&b)
	return resp.StatusCode, b.String(), err
}
