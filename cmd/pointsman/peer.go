package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of the control socket, by the kernel's word:
// what the process was when it connected.
type peer struct {
	uid    uint32
	groups []uint32 // the primary one first
}

// asker is the key of the peer in a request's context.
type asker struct{}

// withPeer is an http.Server's ConnContext. A peer that can't be told is nobody,
// who may only ask.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*net.UnixConn); ok {
		if p, err := peerOf(c); err == nil {
			return context.WithValue(ctx, asker{}, p)
		}
	}
	return ctx
}

func peerOf(conn *net.UnixConn) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *peer
	failed := raw.Control(func(fd uintptr) { p, err = readPeer(int(fd)) })
	if failed != nil {
		return nil, failed
	}
	return p, err
}

func readPeer(fd int) (*peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	groups, err := peerGroups(fd)
	if err != nil {
		return nil, fmt.Errorf("SO_PEERGROUPS: %w", err)
	}
	return &peer{cred.Uid, append([]uint32{cred.Gid}, groups...)}, nil
}

// peerGroups reads the supplementary groups (Linux 4.13), for which x/sys has no
// function. /proc/PID/status would be that of another process by then, maybe.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for range 2 {
		size := uint32(len(groups)) * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errno != unix.ERANGE || size == 0:
			return nil, errno
		}
		groups = make([]uint32, size/4)
	}
	return nil, unix.ERANGE
}

// mayChange reports whether a peer may have the agent do something: root, the
// agent's own user, and the members of the socket's group. A nil peer may not.
func (p *peer) mayChange(owner, group int) bool {
	return p != nil && (p.uid == 0 || int(p.uid) == owner || slices.Contains(p.groups, uint32(group)))
}

// refusal says why a peer may not.
func (p *peer) refusal(what string, group int) string {
	who := "it can't be told who you are"
	if p != nil {
		who = fmt.Sprintf("you are uid %d and not in group %s", p.uid, groupText(group))
	}
	return fmt.Sprintf("reading is allowed, %s isn't: %s", what, who)
}

// privileged lets only those change something who may.
func (c *control) privileged(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, _ := r.Context().Value(asker{}).(*peer)
		if !p.mayChange(os.Geteuid(), c.group) {
			http.Error(w, p.refusal(path.Base(r.URL.Path), c.group), http.StatusForbidden)
			return
		}
		do(w, r)
	}
}
