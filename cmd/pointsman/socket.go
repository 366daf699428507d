package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// socketFlag names the control socket.
func socketFlag() *cli.StringFlag {
	return stringFlag("socket", defaultSocket, "the agent's control socket, a `FILE`")
}

// socketFlags say who may open it.
func socketFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("socket-mode", "0660", "the `MODE` of the control socket, in octal: who may write to the file may ask, and with 0666 everybody may"),
		stringFlag("socket-group", "", "the `GROUP` (a name or a number) that the control socket belongs to, whose members may also drain, approve and reload (default: the agent's own)"),
	}
}

// socketRights are the control socket's mode and group.
type socketRights struct {
	mode  os.FileMode
	group int
}

func socketRightsOf(c *cli.Context) (r socketRights, err error) {
	mode, err := strconv.ParseUint(c.String("socket-mode"), 8, 32)
	if err != nil || os.FileMode(mode)&^os.ModePerm != 0 {
		return r, usage("--socket-mode: %q is no mode of a file such as 0660", c.String("socket-mode"))
	}
	r.mode = os.FileMode(mode)
	r.group, err = groupID(c.String("socket-group"))
	return r, err
}

// groupID reads a group's name or number; without one it's this process's.
func groupID(name string) (int, error) {
	if name == "" {
		return os.Getegid(), nil
	}
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, usage("--socket-group: %q is no group of this host", name)
	}
	return strconv.Atoi(g.Gid)
}

// groupText names a group for a person.
func groupText(id int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
		return g.Name
	}
	return strconv.Itoa(id)
}

// listen makes the socket. One that nobody answers is left over from an agent
// that was killed.
func (r socketRights) listen(ctx context.Context, path string) (net.Listener, error) {
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("%s: another agent answers there", path)
	} else if info, gone := os.Stat(path); gone == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s: there's something else, no socket", path) // which refuses connections as well
	} else if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{Control: closed}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := r.apply(path); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// closed keeps all out until the socket has its group and mode: the file is
// made with the mode that the socket has by then.
func closed(_, _ string, conn syscall.RawConn) error {
	var err error
	if failed := conn.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0) }); failed != nil {
		return failed
	}
	return err
}

// apply gives the socket its group and mode. Where it has the group already,
// nothing is asked of the kernel, which a unit forbids (SystemCallFilter=).
func (r socketRights) apply(path string) error {
	var now unix.Stat_t
	if err := unix.Stat(path, &now); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if int(now.Gid) != r.group {
		if err := os.Chown(path, -1, r.group); err != nil {
			return fmt.Errorf("%w: it can't be given to the group %s; an agent that isn't root must be in it, and its unit must allow it (SupplementaryGroups=%[2]s, SystemCallFilter=@chown)", err, groupText(r.group))
		}
	}
	return os.Chmod(path, r.mode)
}
