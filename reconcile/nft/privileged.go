package nft

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"
)

// privileged lends CAP_NET_ADMIN to the nft that it runs. A process that isn't
// root hands a capability on through its ambient set, and there it would be
// handed to every other child, too: exec probes are somebody else's programs.
// So the set is empty but for the time that nft is started in, on the thread
// that starts it. (knftables makes its own exec.Cmd, so SysProcAttr.AmbientCaps
// is out of reach.)
type privileged struct{ knftables.Interface }

func openPrivileged(f Family) (k knftables.Interface, err error) {
	err = lend(func() error {
		k, err = knftables.New(knftables.Family(f), TableName)
		return err
	})
	return privileged{k}, err
}

func (p privileged) Run(ctx context.Context, tx *knftables.Transaction) error {
	return lend(func() error { return p.Interface.Run(ctx, tx) })
}

func (p privileged) Check(ctx context.Context, tx *knftables.Transaction) error {
	return lend(func() error { return p.Interface.Check(ctx, tx) })
}

// lend calls run on a thread whose children have CAP_NET_ADMIN, if this
// process has it. Threads that the runtime makes meanwhile are clones of
// another one.
func lend(run func() error) error {
	if os.Geteuid() == 0 { // root's children have everything anyway
		return run()
	}
	runtime.LockOSThread()
	raised, err := raise()
	if err == nil {
		err = run()
	}
	if raised {
		if lower := ambient(unix.PR_CAP_AMBIENT_LOWER); lower != nil {
			return fmt.Errorf("take CAP_NET_ADMIN back: %w", lower) // the thread ends with the goroutine: it stays locked
		}
	}
	runtime.UnlockOSThread()
	return err
}

// raise puts CAP_NET_ADMIN into the thread's ambient set, which wants it in the
// inheritable one. There's nothing to raise where it isn't permitted; nft says
// so then.
func raise() (raised bool, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false, fmt.Errorf("capabilities: %w", err)
	}
	if sets[0].Permitted&(1<<unix.CAP_NET_ADMIN) == 0 {
		return false, nil
	}
	// It's inheritable where systemd gave it, whose filter forbids capset.
	if sets[0].Inheritable&(1<<unix.CAP_NET_ADMIN) == 0 {
		sets[0].Inheritable |= 1 << unix.CAP_NET_ADMIN
		if err := unix.Capset(&header, &sets[0]); err != nil {
			return false, fmt.Errorf("make CAP_NET_ADMIN inheritable: %w", err)
		}
	}
	if err := ambient(unix.PR_CAP_AMBIENT_RAISE); err != nil {
		return false, fmt.Errorf("lend CAP_NET_ADMIN to nft: %w", err)
	}
	return true, nil
}

func ambient(operation uintptr) error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, operation, unix.CAP_NET_ADMIN, 0, 0)
}
