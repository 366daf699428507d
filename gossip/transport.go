package gossip

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// meter counts what this host sends.
type meter struct {
	memberlist.NodeAwareTransport
	traffic *traffic
}

// traffic is what was sent and taken.
type traffic struct {
	packets, packetBytes, streams, streamBytes, messages atomic.Uint64
}

// WriteToAddress sends a packet.
func (m meter) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	m.traffic.packets.Add(1)
	m.traffic.packetBytes.Add(uint64(len(b)))
	return m.NodeAwareTransport.WriteToAddress(b, a)
}

const streamTimeout = 10 * time.Second

// DialAddressTimeout opens a stream.
func (m meter) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	m.traffic.streams.Add(1)
	c, err := m.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	// memberlist v0.7.0 sets no deadline for user messages, nor for the label: a
	// frozen host would keep a sender for as long as TCP tries.
	if err := c.SetDeadline(time.Now().Add(streamTimeout)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return meteredConn{c, m.traffic}, nil
}

// meteredConn counts what is written to a stream that this host opened.
type meteredConn struct {
	net.Conn
	traffic *traffic
}

func (c meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.traffic.streamBytes.Add(uint64(n))
	return n, err
}
