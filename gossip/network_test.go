package gossip

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// network is a network in memory, for any number of hosts. Packets take a
// delay, and get lost; ways between hosts can be closed, each direction by
// itself, for packets alone or for streams too.
type network struct {
	delay time.Duration
	loss  float64
	bytes atomic.Uint64 // sent, in packets and streams

	mu     sync.Mutex
	hosts  map[netip.AddrPort]*netHost
	closed func(from, to netip.Addr, stream bool) bool // nil: all is open
}

func newNetwork() *network {
	return &network{delay: 500 * time.Microsecond, hosts: map[netip.AddrPort]*netHost{}}
}

// close sets which ways are closed; nil opens all.
func (n *network) close(closed func(from, to netip.Addr, stream bool) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = closed
}

func (n *network) setLoss(loss float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = loss
}

// way gives the host at an address, nil if a packet or stream doesn't get there.
func (n *network) way(from netip.AddrPort, to string, stream bool) *netHost {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed != nil && n.closed(from.Addr(), addr.Addr(), stream) || !stream && rand.Float64() < n.loss {
		return nil
	}
	return n.hosts[addr]
}

// host is one host's memberlist.Transport.
func (n *network) host(at netip.AddrPort) *netHost {
	h := &netHost{network: n, at: at, onWay: make(chan *memberlist.Packet, 4096), packets: make(chan *memberlist.Packet),
		streams: make(chan net.Conn, 64), down: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[at] = h
	go h.deliver()
	return h
}

type netHost struct {
	network *network
	at      netip.AddrPort
	onWay   chan *memberlist.Packet // the timestamp says when each arrives
	packets chan *memberlist.Packet
	streams chan net.Conn
	down    chan struct{} // closed by Shutdown
}

// deliver hands packets over as they arrive.
func (h *netHost) deliver() {
	for {
		select {
		case p := <-h.onWay:
			time.Sleep(time.Until(p.Timestamp))
			select {
			case h.packets <- p:
			case <-h.down:
				return
			}
		case <-h.down:
			return
		}
	}
}

func (h *netHost) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return h.at.Addr().AsSlice(), int(h.at.Port()), nil
}

func (h *netHost) WriteTo(b []byte, addr string) (time.Time, error) {
	return h.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (h *netHost) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	now := time.Now()
	h.network.bytes.Add(uint64(len(b)))
	to := h.network.way(h.at, a.Addr, false)
	if to == nil {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(h.at), Timestamp: now.Add(h.network.delay)}
	select {
	case to.onWay <- p:
	default: // its buffer is full
	}
	return now, nil
}

func (h *netHost) PacketCh() <-chan *memberlist.Packet { return h.packets }
func (h *netHost) StreamCh() <-chan net.Conn           { return h.streams }

func (h *netHost) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return h.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

func (h *netHost) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to := h.network.way(h.at, a.Addr, true)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("no way from %v to %s", h.at, a.Addr)}
	if to == nil {
		time.Sleep(min(timeout, 100*time.Millisecond))
		return nil, refused
	}
	time.Sleep(2 * h.network.delay)
	here, there := net.Pipe()
	select {
	case to.streams <- counted{there, h}:
		return counted{here, to}, nil
	default:
		return nil, refused
	}
}

// counted is an end of a stream; it knows its other end.
type counted struct {
	net.Conn
	from *netHost
}

func (c counted) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from.at) }

func (c counted) Write(b []byte) (int, error) {
	c.from.network.bytes.Add(uint64(len(b)))
	return c.Conn.Write(b)
}

// Shutdown takes the host off the network.
func (h *netHost) Shutdown() error {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	if h.network.hosts[h.at] == h {
		delete(h.network.hosts, h.at)
	}
	select {
	case <-h.down:
	default:
		close(h.down)
	}
	return nil
}

func (h *netHost) String() string { return h.at.String() }

// TestNetwork: what the simulations stand on.
func TestNetwork(t *testing.T) { synctest.Test(t, testNetwork) }

func testNetwork(t *testing.T) {
	n := newNetwork()
	a, b := n.host(netip.MustParseAddrPort("10.0.0.1:1")), n.host(netip.MustParseAddrPort("10.0.0.2:1"))
	defer func() { _, _ = a.Shutdown(), b.Shutdown() }()
	send := func() bool {
		if _, err := a.WriteToAddress([]byte("x"), memberlist.Address{Addr: b.String()}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.packets:
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	}
	if !send() {
		t.Error("a packet got lost")
	}
	n.close(func(from, to netip.Addr, stream bool) bool { return from == a.at.Addr() })
	if send() {
		t.Error("a packet took a closed way")
	}
	if _, err := a.DialTimeout(b.String(), time.Second); err == nil {
		t.Error("a stream took a closed way")
	}
	if _, err := b.DialTimeout(a.String(), time.Second); err != nil {
		t.Error("the way back is closed too:", err)
	}
}
