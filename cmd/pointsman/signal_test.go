package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSecondSignal: what doesn't listen to a signal, such as to read a pipe that
// nobody writes to, is ended by the second.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("pointsman", "render", "--health", pipe, "../../examples/quickstart/manifests")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Who opens it to write waits for who reads.
	writer := must[*os.File](t)(os.OpenFile(pipe, os.O_WRONLY, 0))
	defer writer.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	defer time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() }).Stop()
	for done := false; !done; {
		_ = cmd.Process.Signal(unix.SIGINT)
		select {
		case <-ended:
			done = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGINT {
		t.Errorf("it ended as %v", cmd.ProcessState)
	}
}

// TestSignalWhileSettingsAreRead: a pipe that nobody writes to is waited for until the
// first signal.
func TestSignalWhileSettingsAreRead(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	interrupted := errors.New("interrupted")
	ctx, interrupt := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := readConfig(ctx, pipe)
		ended <- err
	}()
	writer := must[*os.File](t)(os.OpenFile(pipe, os.O_WRONLY, 0)) // waits for who reads
	defer writer.Close()
	interrupt(interrupted)
	select {
	case err := <-ended:
		if !errors.Is(err, interrupted) {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Error("it's still read")
	}
}
