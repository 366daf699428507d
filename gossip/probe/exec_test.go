package probe

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pointsman/state"
)

func TestExec(t *testing.T) {
	target := netip.MustParseAddrPort("[fd00::1]:53")
	sh := func(script string) state.Probe { return state.Probe{Exec: []string{"sh", "-c", script}} }
	t.Setenv("POINTSMAN_SECRET", "x")
	for _, tt := range []struct {
		name   string
		probe  state.Probe
		want   state.Failure
		detail string
	}{
		{"success", sh("exit 0"), state.NoFailure, ""},
		{"failure", sh("echo bad news; echo worse >&2; exit 3"), state.ExitCode, "exit status 3: bad news worse"},
		{"endpoint", sh("echo $POINTSMAN_ADDRESS $POINTSMAN_PORT [$POINTSMAN_SECRET]; exit 1"), state.ExitCode, "fd00::1 53 []"},
		{"signal", sh("kill -TERM $$"), state.ExitCode, "signal: terminated"},
		{"much output", sh("head -c 1000000 /dev/zero | tr '\\0' a; exit 1"), state.ExitCode, "aaa"},
		{"no such program", state.Probe{Exec: []string{"/nonexistent/probe"}}, state.OtherFailure, "no such file"},
		{"what it leaves behind", sh("sleep 1000 & exit 0"), state.NoFailure, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := try(t, target, tt.probe)
			expect(t, got, tt.want, tt.detail)
			if len(got.detail) > maxDetail {
				t.Errorf("%d bytes of detail", len(got.detail))
			}
		})
	}
	out := New(Config{}).work(t.Context(), &state.Check{Target: target, Probe: &state.Probe{Exec: []string{"true"}, Timeout: time.Minute}})
	expect(t, out, state.OtherFailure, "--allow-exec-probes")
}

// At the timeout the command dies with its children.
func TestExecTimeout(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	p := state.Probe{Exec: []string{"sh", "-c", fmt.Sprintf("sleep 1000 & echo $! > %s; wait", pids)}}
	expect(t, tryFor(t, netip.MustParseAddrPort("192.0.2.1:80"), p, 500*time.Millisecond), state.TimedOut, "killed")
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	// Whoever reaps it may take its time; killed it is.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ") {
		t.Errorf("the child lives on: %s", stat)
	}
}
