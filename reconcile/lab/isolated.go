package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// isolated marks the environment of a process that Isolated started. Its
// children are in the namespace as well.
const isolated = "POINTSMAN_LAB_ISOLATED"

// Isolated runs a package's tests in a network namespace of their own, with
// nothing but lo, so that they may use the kernel's nftables without touching
// the machine's:
//
//	func TestMain(m *testing.M) { lab.Isolated(m) }
//
// The namespace ends with the test binary. Without root the tests fail: tests
// that pass by not running would be worse.
func Isolated(m interface{ Run() int }) {
	if os.Getenv(isolated) != "" {
		os.Exit(m.Run())
	}
	code, err := runIsolated()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// runIsolated runs this binary again in a new namespace. A whole process is
// moved, not a thread: the tests' goroutines and commands all follow.
func runIsolated() (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("lab: these tests use nftables in a network namespace and need root: run them under sudo")
	}
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("lab: %w", err)
	}
	// ip sets lo up in the new namespace and becomes the test binary.
	script := `ip link set lo up && exec "$0" "$@"`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death signal is the thread's, not the process's
	err = cmd.Run()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1: ended by a signal
	}
	if err != nil {
		return 1, fmt.Errorf("lab: a network namespace for the tests: %w", err)
	}
	return 0, nil
}
