package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errRunning says that another agent has the state directory.
var errRunning = errors.New("the agent is running on this host")

// The files of the state directory.
const (
	lockFile     = "lock"
	lastGoodFile = "last-good.yaml"
	pastFile     = "served.json"
)

// lockState makes the state directory and locks it. One agent at a time may
// have it, and cleanup needs it too: a running agent would put back what is
// removed. The kernel gives the lock up when the process ends, however it
// ends.
func lockState(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked", errRunning, f.Name())
		}
		return nil, fmt.Errorf("state directory: %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// hostLock is the abstract socket whose name an agent has.
const hostLock = "@pointsman/agent"

// hostLocked reports whether an agent programs this host, as far as can be read.
// Nothing is locked for it: an agent may start just now.
func hostLocked() bool {
	sockets, _ := os.ReadFile("/proc/thread-self/net/unix") // proc_net(5)
	return strings.Contains(string(sockets), " "+hostLock+"\n")
}

// lockHost makes sure that no other agent programs this host, whatever its
// state directory: two would undo each other's rules for ever. What tells them
// apart is the network namespace, and so does the name of an abstract socket
// (unix(7)). The kernel gives it up when the process ends.
func lockHost() (unlock func(), err error) {
	l, err := net.Listen("unix", hostLock)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%w, with another state directory", errRunning)
	}
	if err != nil {
		return nil, fmt.Errorf("lock this host: %w", err)
	}
	return func() { l.Close() }, nil
}
