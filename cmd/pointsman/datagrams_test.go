package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pointsman/reconcile/lab"
)

// TestC85Fragments: datagrams larger than the MTU, both ways, also when their
// fragments come in reverse order: only the first of them has port numbers.
func TestC85Fragments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	for _, b := range w.Backends {
		b.Serve(lab.UDP, 53)
	}
	const port = "{name: dns, port: 53, protocol: UDP}"
	w.write("dns.yaml", service("dns", `ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, clusterIP: 10.96.0.53,
		clusterIPs: [10.96.0.53, "2001:db8:96::53"], externalIPs: [192.0.2.210, "2001:db8::210"], ports: [`+port+"]"),
		slice("dns/v4", port, "10.20.0.11", "10.20.1.21"), slice("dns/v6", port, "2001:db8:20::11", "2001:db8:20:1::21"))
	w.route(w.Nodes[0], "192.0.2.210", "2001:db8::210")
	w.agent(w.Nodes[0])
	large := strings.Repeat("x", 4000)
	for i, to := range []string{"10.96.0.53:53", "192.0.2.210:53", "[2001:db8:96::53]:53", "[2001:db8::210]:53"} {
		from := uint16(40000 + i)
		conn := must[*lab.Conn](t)(w.Client.Dial(t.Context(), lab.UDP, addrPort(to), from))
		defer conn.Close()
		for n := range 100 {
			if got := conn.Ask(large+fmt.Sprint(n), lab.Patience); got.Outcome != lab.OK {
				t.Fatalf("%s: datagram %d: %s", to, n, got)
			}
		}
		reversed(t, w.Client, conn, addrPort(to), strings.Repeat("y", 4000)+"\n")
		if n := flows(t, w.Nodes[0], addrPort(to).Addr()); n != 1 {
			t.Errorf("%s: conntrack has %d entries, want 1", to, n)
		}
	}
}

// flows counts conntrack's entries for an address.
func flows(t *testing.T, h *lab.Host, to netip.Addr) int {
	t.Helper()
	family := "ipv4"
	if to.Is6() {
		family = "ipv6"
	}
	out := sh(t, h, fmt.Sprintf("conntrack -L -f %s -p udp --orig-dst %s 2>/dev/null", family, to))
	return strings.Count(out, "\n")
}

// reversed sends a datagram of a connected socket by hand, its last fragment
// first, and waits for the answer.
func reversed(t *testing.T, h *lab.Host, conn *lab.Conn, to netip.AddrPort, payload string) {
	t.Helper()
	from := addrPort(conn.LocalAddr().String())
	p := datagram(from, to, payload)
	const size = 1400
	var fragments [][]byte
	for at := 0; at < len(p); at += size {
		end := min(at+size, len(p))
		fragments = append([][]byte{fragment(from.Addr(), to.Addr(), at, p[at:end], end < len(p))}, fragments...)
	}
	if err := h.Do(func() error { return sendRaw(to.Addr(), fragments) }); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	n, err := conn.Read(buf)
	if err != nil || !bytes.Contains(buf[:n], []byte(payload)) {
		t.Errorf("reversed fragments to %s: %d bytes, %v", to, n, err)
	}
}

// datagram gives a UDP datagram.
func datagram(from, to netip.AddrPort, payload string) []byte {
	p := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(p[0:], from.Port())
	binary.BigEndian.PutUint16(p[2:], to.Port())
	binary.BigEndian.PutUint16(p[4:], uint16(8+len(payload)))
	p = append(p, payload...)
	pseudo := append(append(from.Addr().AsSlice(), to.Addr().AsSlice()...), 0, unix.IPPROTO_UDP, p[4], p[5])
	binary.BigEndian.PutUint16(p[6:], checksum(append(pseudo, p...)))
	return p
}

func checksum(p []byte) uint16 {
	sum := uint32(0)
	for i, b := range p {
		sum += uint32(b) << (8 * uint(1-i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// fragment gives a packet with the part of a datagram that begins at an
// offset.
func fragment(from, to netip.Addr, at int, part []byte, more bool) []byte {
	const id = 0x706d
	offset := uint16(at)
	if from.Is4() {
		offset /= 8
	}
	if more && from.Is4() {
		offset |= 1 << 13
	} else if more {
		offset |= 1
	}
	var h []byte
	if from.Is4() {
		h = []byte{0x45, 0, 0, 0, id >> 8, id & 0xff, byte(offset >> 8), byte(offset), 64, unix.IPPROTO_UDP, 0, 0}
	} else {
		length := 8 + len(part)
		h = []byte{0x60, 0, 0, 0, byte(length >> 8), byte(length), unix.IPPROTO_FRAGMENT, 64}
	}
	h = append(append(h, from.AsSlice()...), to.AsSlice()...)
	if !from.Is4() {
		h = append(h, unix.IPPROTO_UDP, 0, byte(offset>>8), byte(offset), 0, 0, id>>8, id&0xff)
	}
	return append(h, part...)
}

// sendRaw sends packets as they are; the kernel completes IPv4's header.
func sendRaw(to netip.Addr, packets [][]byte) error {
	domain, sockaddr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: to.As16()})
	if to.Is4() {
		domain, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Addr: to.As4()}
	}
	s, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	for _, p := range packets {
		if err := unix.Sendto(s, p, 0, sockaddr); err != nil {
			return err
		}
	}
	return nil
}
