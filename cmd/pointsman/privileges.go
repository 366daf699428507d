package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropAmbient empties the ambient set that systemd gives a service of another
// user than root (AmbientCapabilities=), on all threads: what it holds, every
// child would have, and exec probes are somebody else's programs. What this
// process itself may do stays; package nft lends nft what it needs.
func dropAmbient() error {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	if held, err := ambientSet(string(status)); err != nil || held == 0 {
		return err
	}
	// The runtime can't reach threads that C made.
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno == syscall.ENOTSUP {
		return errors.New("a program built with cgo can't give its ambient capabilities up: build it with CGO_ENABLED=0, or start it without them")
	}
	if errno != 0 {
		return fmt.Errorf("clear the ambient capabilities: %w", errno)
	}
	return nil
}

// ambientSet reads the set from a /proc/PID/status; kernels before 4.3 have
// none.
func ambientSet(status string) (uint64, error) {
	_, rest, found := strings.Cut(status, "\nCapAmb:")
	if !found {
		return 0, nil
	}
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("ambient capabilities: %w", err)
	}
	return set, nil
}
