package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
)

// The protocols that backends serve and clients speak.
const (
	TCP  = "tcp"
	UDP  = "udp"
	SCTP = "sctp"
)

// Backend is a server on a host. It answers every request (a line, a datagram)
// with its name, the source address that it saw, and the request:
//
//	b1 192.0.2.50:40000 hello
//
// and never closes a connection first.
type Backend struct {
	Name  string
	Proto string
	Port  uint16

	received atomic.Int64
	mute     atomic.Bool
	stop     []func() error
}

// Serve starts a backend, named like the host, on each of the addresses (all
// that the host was given so far, where none are named): not on the wildcard
// address, because a datagram must be answered from where it was sent to.
func (h *Host) Serve(proto string, port uint16, addrs ...netip.Addr) *Backend {
	if len(addrs) == 0 {
		for _, p := range h.addrs {
			addrs = append(addrs, p.Addr())
		}
	}
	b := &Backend{Name: h.Name, Proto: proto, Port: port}
	h.lab.onClose(b.Close)
	for _, a := range addrs {
		h.lab.check(h.Do(func() error { return b.listen(netip.AddrPortFrom(a, port)) }))
	}
	return b
}

// Received is the number of requests that came in.
func (b *Backend) Received() int { return int(b.received.Load()) }

// Mute stops the answers (or lets them go on); requests are still counted.
func (b *Backend) Mute(mute bool) { b.mute.Store(mute) }

// Close closes the listeners: the host then refuses connections. Those that
// were accepted go on.
func (b *Backend) Close() {
	for _, stop := range b.stop {
		_ = stop() // closing twice is no harm
	}
}

func (b *Backend) listen(at netip.AddrPort) error {
	if b.Proto == TCP {
		l, err := net.Listen(TCP, at.String())
		if err != nil {
			return fmt.Errorf("lab: %s: %w", b.Name, err)
		}
		b.stop = append(b.stop, l.Close)
		go b.accept(l)
		return nil
	}
	listen := net.ListenPacket
	if b.Proto == SCTP {
		listen = listenSCTP
	}
	conn, err := listen(b.Proto, at.String())
	if err != nil {
		return fmt.Errorf("lab: %s: %w", b.Name, err)
	}
	b.stop = append(b.stop, conn.Close)
	go b.datagrams(conn)
	return nil
}

// accept serves connections until the listener is closed.
func (b *Backend) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go b.lines(conn)
	}
}

// lines answers the lines of one connection until the client closes it.
func (b *Backend) lines(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for in.Scan() {
		answer, ok := b.answer(conn.RemoteAddr(), in.Text())
		if !ok {
			continue
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// datagrams answers datagrams until the socket is closed.
func (b *Backend) datagrams(conn net.PacketConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer, ok := b.answer(from, string(buf[:n])); ok {
			_, _ = conn.WriteTo(answer, from) // the client may be gone
		}
	}
}

func (b *Backend) answer(from net.Addr, request string) ([]byte, bool) {
	b.received.Add(1)
	line := fmt.Sprintf("%s %s %s\n", b.Name, from, strings.TrimSuffix(request, "\n"))
	return []byte(line), !b.mute.Load()
}
