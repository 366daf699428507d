package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudoterminal that somebody types at.
type terminal struct {
	t      *testing.T
	master *os.File

	mu  sync.Mutex
	out strings.Builder
}

// onTerminal starts a command on a terminal of its own, which ends with the test.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	tty, slave := openTerminal(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	slave.Close()
	return tty
}

// openTerminal gives a terminal and the side of it that programs see.
func openTerminal(t *testing.T) (tty *terminal, slave *os.File) {
	t.Helper()
	master := must[*os.File](t)(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))
	t.Cleanup(func() { master.Close() })
	number := must[int](t)(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))
	for _, err := range []error{
		unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	slave = must[*os.File](t)(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))
	tty = &terminal{t: t, master: master}
	go tty.read()
	return tty, slave
}

// read ends when the terminal does.
func (tty *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := tty.master.Read(buffer)
		tty.mu.Lock()
		tty.out.Write(buffer[:n])
		tty.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// shown is all that has been.
func (tty *terminal) shown() string {
	tty.mu.Lock()
	defer tty.mu.Unlock()
	return tty.out.String()
}

func (tty *terminal) press(keys string) {
	tty.t.Helper()
	if _, err := tty.master.WriteString(keys); err != nil {
		tty.t.Fatal(err)
	}
}

// shows waits until the terminal shows something more than it did, and gives
// what it shows from there.
func (tty *terminal) shows(since int, found func(string) bool) string {
	tty.t.Helper()
	ctx, cancel := context.WithTimeout(tty.t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if text := tty.shown()[since:]; found(text) {
			return text
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tty.t.Fatalf("the terminal shows %q", tty.shown()[since:])
		}
	}
}
