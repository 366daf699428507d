package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pointsman/reconcile/lab"
)

// sequence gives the next sequence numbers of a connection that is at rest:
// what the client will send and what it waits for. No NAT of ours changes them.
func sequence(t *testing.T, c *lab.Conn) (send, receive uint32) {
	t.Helper()
	raw := must[syscall.RawConn](t)(c.Conn.(*net.TCPConn).SyscallConn())
	var failed error
	err := raw.Control(func(fd uintptr) {
		set := func(option, value int) {
			failed = errors.Join(failed, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, value))
		}
		next := func(queue int) uint32 {
			set(unix.TCP_REPAIR_QUEUE, queue)
			n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
			failed = errors.Join(failed, err)
			return uint32(n)
		}
		const receiveQueue, sendQueue, offWithoutProbe = 1, 2, -1
		set(unix.TCP_REPAIR, 1)
		receive, send = next(receiveQueue), next(sendQueue)
		set(unix.TCP_REPAIR, offWithoutProbe)
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return send, receive
}

// inject sends one TCP segment from a host.
func inject(t *testing.T, h *lab.Host, from, to netip.AddrPort, seq, ack uint32) {
	t.Helper()
	const payload = "stray"
	s := make([]byte, 20, 20+len(payload))
	binary.BigEndian.PutUint16(s[0:], from.Port())
	binary.BigEndian.PutUint16(s[2:], to.Port())
	binary.BigEndian.PutUint32(s[4:], seq)
	binary.BigEndian.PutUint32(s[8:], ack)
	s[12], s[13] = 5<<4, 0x18 // five words of header; ACK and PSH
	binary.BigEndian.PutUint16(s[14:], 1000)
	s = append(s, payload...)
	sum := uint32(unix.IPPROTO_TCP + len(s))
	for _, part := range [][]byte{from.Addr().AsSlice(), to.Addr().AsSlice(), append(s[:len(s):len(s)], 0)} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(s[16:], ^uint16(sum))
	if err := h.Do(func() error {
		family, peer := unix.AF_INET, unix.Sockaddr(nil)
		if to.Addr().Is4() {
			peer = &unix.SockaddrInet4{Addr: to.Addr().As4()}
		} else {
			family, peer = unix.AF_INET6, &unix.SockaddrInet6{Addr: to.Addr().As16()}
		}
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, s, 0, peer)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestC07OutOfWindow: a segment of the backend's that is out of the window
// ends the connection, unless the operator has made conntrack liberal: then the
// connection carries on.
func TestC07OutOfWindow(t *testing.T) {
	t.Parallel()
	for family, test := range map[string]stray{
		"ip":  {vip: addrPort("10.96.0.20:80"), backend: addrPort("10.20.0.11:8080")},
		"ip6": {vip: addrPort("[2001:db8:96::20]:80"), backend: addrPort("[2001:db8:20::11]:8080")},
	} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			test.run(t, family)
		})
	}
}

// stray is a test of a segment from nowhere.
type stray struct{ vip, backend netip.AddrPort }

func (s stray) run(t *testing.T, family string) {
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", s.vip.Addr().String(), s.backend.Addr().String())
	w.agent(w.Nodes[0])
	const ahead = 1 << 30
	page := strings.Repeat("x", 60_000)
	for _, mode := range []struct {
		liberal string
		want    lab.Outcome
	}{{"0", lab.Reset}, {"1", lab.OK}} {
		w.Nodes[0].Sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", mode.liberal)
		open := must[*lab.Conn](t)(w.Client.Dial(t.Context(), lab.TCP, s.vip, 0))
		t.Cleanup(func() { open.Close() })
		var seen netip.AddrPort
		for range 5 {
			got := open.Ask(page, deadline)
			if got.Outcome != lab.OK {
				t.Fatal(got)
			}
			seen = got.Source
		}
		send, receive := sequence(t, open)
		sh(t, w.Client, fmt.Sprintf("nft 'table %[1]s stray%[2]s { counter n { }; chain c { type filter hook prerouting priority -300; %[1]s saddr %[3]s tcp sequence %[4]d counter name n; }; }'",
			family, mode.liberal, s.vip.Addr(), receive+ahead))
		inject(t, w.Backends[0], s.backend, seen, receive+ahead, send)
		if got := open.Ask(page, deadline); got.Outcome != mode.want {
			t.Errorf("liberal = %s: %s (%v), want %s", mode.liberal, got.Outcome, got.Err, mode.want)
		}
		// Only where it's translated the client has got it.
		arrived := !strings.Contains(sh(t, w.Client, "nft list counters table "+family+" stray"+mode.liberal), "packets 0 ")
		if arrived != (mode.want == lab.OK) {
			t.Errorf("liberal = %s: the segment has come to the client: %t", mode.liberal, arrived)
		}
		for range 20 {
			if mode.want != lab.OK {
				break
			}
			if got := open.Ask(page, deadline); got.Outcome != lab.OK || got.Payload != page {
				t.Fatalf("after the segment: %s (%v)", got.Outcome, got.Err)
			}
		}
	}
}
