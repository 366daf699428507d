package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// An SCTP (RFC 9260) small enough to read, over raw sockets: the four-way
// handshake and one DATA chunk each way are all that a NAT and conntrack see of
// an association. The kernel's own SCTP is a module that many machines lack
// (the one that this was written on among them), while conntrack's and
// nftables' support for it is compiled in: with this, SCTP is tested
// everywhere.

const (
	sctpNumber = "132"

	chunkData       = 0
	chunkInit       = 1
	chunkInitAck    = 2
	chunkAbort      = 6
	chunkCookieEcho = 10
	chunkCookieAck  = 11

	sctpHeader   = 12 // ports, verification tag, checksum
	sctpRepeat   = 250 * time.Millisecond
	paramCookie  = 7
	initLength   = 16 // tag, window, streams out, streams in, first TSN
	dataLength   = 12 // TSN, stream, sequence number, payload protocol
	wholeMessage = 3  // the flags of a DATA chunk that is no fragment
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunk is an SCTP packet with one chunk in it: we never bundle.
type chunk struct {
	from, to uint16
	tag      uint32
	kind     uint8
	body     []byte
}

func (c chunk) marshal() []byte {
	p := make([]byte, sctpHeader, sctpHeader+8+len(c.body))
	binary.BigEndian.PutUint16(p[0:], c.from)
	binary.BigEndian.PutUint16(p[2:], c.to)
	binary.BigEndian.PutUint32(p[4:], c.tag)
	flags := byte(0)
	if c.kind == chunkData {
		flags = wholeMessage
	}
	p = append(p, c.kind, flags)
	p = binary.BigEndian.AppendUint16(p, uint16(4+len(c.body)))
	p = append(p, c.body...)
	p = append(p, make([]byte, -len(c.body)&3)...)
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, castagnoli))
	return p
}

// parseChunk reads a packet. One with a wrong checksum is not read: so the tests
// notice a NAT that does not correct it.
func parseChunk(p []byte) (chunk, bool) {
	if len(p) < sctpHeader+4 {
		return chunk{}, false
	}
	sum := binary.LittleEndian.Uint32(p[8:])
	binary.LittleEndian.PutUint32(p[8:], 0)
	length := int(binary.BigEndian.Uint16(p[sctpHeader+2:]))
	if crc32.Checksum(p, castagnoli) != sum || length < 4 || sctpHeader+length > len(p) {
		return chunk{}, false
	}
	return chunk{
		from: binary.BigEndian.Uint16(p[0:]),
		to:   binary.BigEndian.Uint16(p[2:]),
		tag:  binary.BigEndian.Uint32(p[4:]),
		kind: p[sctpHeader],
		body: p[sctpHeader+4 : sctpHeader+length],
	}, true
}

// initBody is the body of an INIT or INIT ACK.
func initBody(tag uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, tag)
	b = binary.BigEndian.AppendUint32(b, 1<<16)
	b = append(b, 0, 1, 0, 1)
	return binary.BigEndian.AppendUint32(b, 1)
}

// kernelSCTP tells that the kernel would answer our packets too, with ABORT.
func kernelSCTP() error {
	if _, err := os.Stat("/proc/net/sctp"); err == nil {
		return errors.New("lab: the kernel's sctp module would answer in our place: remove it for the tests (rmmod sctp)")
	}
	return nil
}

func rawNetwork(a netip.Addr) string {
	if a.Is4() {
		return "ip4:" + sctpNumber
	}
	return "ip6:" + sctpNumber
}

// sctpListener is the server's side, shaped like a UDP socket: ReadFrom gives
// messages, WriteTo answers an association that sent one.
type sctpListener struct {
	net.PacketConn
	port uint16

	mu   sync.Mutex
	tags map[string]uint32 // the client's verification tag, by its address
}

func listenSCTP(_, address string) (net.PacketConn, error) {
	if err := kernelSCTP(); err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := net.ListenPacket(rawNetwork(at.Addr()), at.Addr().String())
	if err != nil {
		return nil, err
	}
	return &sctpListener{PacketConn: raw, port: at.Port(), tags: map[string]uint32{}}, nil
}

// serverTag is the verification tag of all our servers' associations: nobody
// here guesses tags.
const serverTag = 0x706d

// ReadFrom returns the next message, shaking hands meanwhile.
func (l *sctpListener) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := l.PacketConn.ReadFrom(b)
		if err != nil {
			return 0, nil, err
		}
		c, ok := parseChunk(b[:n])
		if !ok || c.to != l.port {
			continue
		}
		client := &sctpAddr{IPAddr: from.(*net.IPAddr), port: c.from}
		if message := l.receive(client, c); message != nil {
			return copy(b, message), client, nil
		}
	}
}

// receive answers a chunk of the handshake, or returns a message.
func (l *sctpListener) receive(client *sctpAddr, c chunk) []byte {
	switch {
	case c.kind == chunkInit && len(c.body) >= initLength:
		l.mu.Lock()
		l.tags[client.String()] = binary.BigEndian.Uint32(c.body)
		l.mu.Unlock()
		l.send(client, chunkInitAck, append(initBody(serverTag), 0, paramCookie, 0, 8, 'p', 'm', 'p', 'm'))
	case c.kind == chunkCookieEcho:
		l.send(client, chunkCookieAck, nil)
	case c.kind == chunkData && len(c.body) > dataLength:
		return c.body[dataLength:]
	}
	return nil
}

// WriteTo sends a message to a client.
func (l *sctpListener) WriteTo(b []byte, to net.Addr) (int, error) {
	l.send(to.(*sctpAddr), chunkData, append(make([]byte, dataLength), b...))
	return len(b), nil
}

func (l *sctpListener) send(to *sctpAddr, kind uint8, body []byte) {
	l.mu.Lock()
	tag := l.tags[to.String()]
	l.mu.Unlock()
	p := chunk{from: l.port, to: to.port, tag: tag, kind: kind, body: body}.marshal()
	_, _ = l.PacketConn.WriteTo(p, to.IPAddr) // a lost packet: the client repeats itself
}

// sctpAddr is a client's address.
type sctpAddr struct {
	*net.IPAddr
	port uint16
}

func (a *sctpAddr) String() string {
	return net.JoinHostPort(a.IPAddr.String(), fmt.Sprint(a.port))
}

// sctpConn is the client's side of an association.
type sctpConn struct {
	*net.IPConn
	local, remote uint16
	tag           uint32 // of the server
}

// dialSCTP sets an association up.
func dialSCTP(ctx context.Context, to netip.AddrPort, port uint16) (net.Conn, error) {
	if err := kernelSCTP(); err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, rawNetwork(to.Addr()), to.Addr().String())
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = uint16(32768 + rand.N(28232))
	}
	c := &sctpConn{IPConn: raw.(*net.IPConn), local: port, remote: to.Port()}
	if err := c.handshake(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("sctp %s: %w", to, err)
	}
	return c, nil
}

func (c *sctpConn) handshake(ctx context.Context) error {
	ack, err := c.exchange(ctx, chunkInit, initBody(rand.Uint32()|1), chunkInitAck)
	if err != nil {
		return err
	}
	if len(ack) < initLength+8 {
		return errors.New("INIT ACK without a cookie")
	}
	c.tag = binary.BigEndian.Uint32(ack)
	_, err = c.exchange(ctx, chunkCookieEcho, ack[initLength+4:initLength+8], chunkCookieAck)
	return err
}

// exchange sends a chunk, again where need be, until the wanted one comes back.
func (c *sctpConn) exchange(ctx context.Context, kind uint8, body []byte, want uint8) ([]byte, error) {
	for ctx.Err() == nil {
		if err := c.send(kind, body); err != nil {
			return nil, err
		}
		if err := c.SetReadDeadline(time.Now().Add(sctpRepeat)); err != nil {
			return nil, err
		}
		answer, err := c.receive(want)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return answer, err
		}
	}
	return nil, ctx.Err()
}

// Write sends a message.
func (c *sctpConn) Write(b []byte) (int, error) {
	return len(b), c.send(chunkData, append(make([]byte, dataLength), b...))
}

// Read returns the next message.
func (c *sctpConn) Read(b []byte) (int, error) {
	body, err := c.receive(chunkData)
	if err != nil || len(body) < dataLength {
		return 0, err
	}
	return copy(b, body[dataLength:]), nil
}

// Close aborts the association, so that conntrack forgets it soon.
func (c *sctpConn) Close() error {
	return errors.Join(c.send(chunkAbort, nil), c.IPConn.Close())
}

func (c *sctpConn) send(kind uint8, body []byte) error {
	_, err := c.IPConn.Write(chunk{from: c.local, to: c.remote, tag: c.tag, kind: kind, body: body}.marshal())
	return err
}

// receive waits for a chunk of one kind and returns its body.
func (c *sctpConn) receive(kind uint8) ([]byte, error) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := c.ReadFromIP(buf) // without the IPv4 header, unlike Read
		if err != nil {
			return nil, err
		}
		got, ok := parseChunk(buf[:n])
		if ok && got.kind == kind && got.from == c.remote && got.to == c.local {
			return got.body, nil
		}
	}
}
