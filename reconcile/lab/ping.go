package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

const pingRepeat = 100 * time.Millisecond

// Ping sends echo requests until one is answered or ctx ends. It is a raw
// socket's business: not every machine has the ping command.
func (h *Host) Ping(ctx context.Context, to netip.Addr) error {
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if to.Is6() {
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	var conn net.Conn
	err := h.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, to.String())
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	for ctx.Err() == nil {
		if err = echo(conn.(*net.IPConn), request, reply); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return errors.Join(ctx.Err(), err)
}

// echo sends one echo request and waits a little for a reply.
func echo(conn *net.IPConn, request, reply byte) error {
	p := []byte{request, 0, 0, 0, 0x70, 0x6d, 0, 1}
	// The kernel fills in ICMPv6 checksums. This packet's sum has no carries.
	sum := uint16(0)
	for i := 0; i < len(p); i += 2 {
		sum += binary.BigEndian.Uint16(p[i:])
	}
	binary.BigEndian.PutUint16(p[2:], ^sum)
	if _, err := conn.Write(p); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(pingRepeat)); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFromIP(buf)
		if err != nil || n > 0 && buf[0] == reply {
			return err
		}
	}
}
