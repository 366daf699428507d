package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// DefaultPort is memberlist's.
const DefaultPort = 7946

// ClusterConfig says how this host takes part.
type ClusterConfig struct {
	NodeName string // unique in the fleet

	// Bind is where this host listens, TCP and UDP: one particular address and
	// port. It may appear later. The zero value is for a host alone: it hears
	// nobody, and has only its drains.
	Bind netip.AddrPort

	// Advertise is where others reach it, at the same port; zero means Bind's.
	Advertise netip.Addr

	// Join are hosts to look for members at, as HOST[:PORT], beside the peers.
	Join []string

	// KeyringFile has a key a line: base64 of 32 bytes. The first encrypts, all
	// decrypt. It's read again when it changes. Empty: nothing is encrypted, which
	// is refused on other than loopback addresses unless Insecure is set.
	KeyringFile string
	Insecure    bool

	Fleet    string // fleets of different names never mix
	StateDir string // for the incarnation and the drains; empty: they're lost at exit
	BootID   string // of the kernel; ends the drain that an earlier boot's shutdown set

	// Answer answers a question of another member (Ask), with at most 32 KiB. It's
	// called for one at a time. Nil leaves them unanswered.
	Answer func(ctx context.Context, question []byte) []byte

	Transport memberlist.NodeAwareTransport // nil: the network
	Clock     func() time.Time              // of day; nil: the machine's
	Log       *slog.Logger

	// lookup is net.Resolver.LookupNetIP; nil: the host's.
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// maxFleet is the most bytes of a fleet's name; it's in each packet.
const maxFleet = 64

// ParseBind reads ADDRESS[:PORT] for ClusterConfig.Bind. memberlist itself
// takes a name, or an address with a typing error, for "all addresses", and
// tells the others to reach this host at [::].
func ParseBind(s string) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		addr, addrErr := netip.ParseAddr(strings.Trim(s, "[]"))
		if addrErr != nil {
			return netip.AddrPort{}, fmt.Errorf("gossip address %q: want an IP address of this host, with or without :PORT", s)
		}
		ap = netip.AddrPortFrom(addr, DefaultPort)
	}
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	return ap, checkBind(ap)
}

func checkBind(ap netip.AddrPort) error {
	switch a := ap.Addr(); {
	case !a.IsValid():
		return errors.New("gossip address: none given")
	case a.IsUnspecified():
		return fmt.Errorf("gossip address %v: others can't reach this host there; give one of its own addresses", ap)
	case a.IsMulticast():
		return fmt.Errorf("gossip address %v: a multicast address", ap)
	case a.Zone() != "":
		return fmt.Errorf("gossip address %v: an address with a zone means something else on each host", ap)
	case ap.Port() == 0:
		return fmt.Errorf("gossip address %v: the port is 0", ap)
	}
	return nil
}

// check says what's wrong with a configuration, and fills in what was left out.
func (c *ClusterConfig) check() error {
	if !plain(c.NodeName) || len(c.NodeName) > maxName {
		return fmt.Errorf("gossip: node name %q: want 1 to %d bytes, printable and without blanks", c.NodeName, maxName)
	}
	if len(c.Fleet) > maxFleet {
		return fmt.Errorf("gossip: fleet name %q: more than %d bytes", c.Fleet, maxFleet)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.lookup == nil {
		c.lookup = net.DefaultResolver.LookupNetIP
	}
	if c.alone() {
		return nil
	}
	if err := checkBind(c.Bind); err != nil {
		return err
	}
	if !c.Advertise.IsValid() {
		c.Advertise = c.Bind.Addr()
	}
	if err := checkBind(netip.AddrPortFrom(c.Advertise, c.Bind.Port())); err != nil {
		return fmt.Errorf("advertised %w", err)
	}
	for _, j := range c.Join {
		if _, _, err := splitJoin(j, c.Bind.Port()); err != nil {
			return err
		}
	}
	if c.KeyringFile == "" && !c.Insecure && !c.Bind.Addr().IsLoopback() {
		return fmt.Errorf("gossip at %v needs a keyring: without one, whoever reaches the port can switch off every Service (or say that it's insecure)", c.Bind)
	}
	return nil
}

func (c *ClusterConfig) alone() bool { return c.Bind == netip.AddrPort{} }

// splitJoin reads HOST[:PORT]; HOST is a name or an address.
func splitJoin(s string, port uint16) (string, uint16, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().String(), ap.Port(), nil
	}
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.String(), port, nil
	}
	host := s
	if name, digits, found := strings.Cut(s, ":"); found {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("gossip: join %q: port %q isn't one", s, digits)
		}
		host, port = name, uint16(n)
	}
	if host == "" || strings.ContainsAny(host, "/ []") {
		return "", 0, fmt.Errorf("gossip: join %q: want HOST[:PORT]", s)
	}
	return host, port, nil
}

// How often things are done. The figures are those of gossip.md: a flip reaches
// a thousand hosts in half a second, for under 1 KB/s a host when idle.
const (
	gossipInterval = 100 * time.Millisecond
	gossipNodes    = 4
	retransmitMult = 4
	probeInterval  = 500 * time.Millisecond
	probeTimeout   = 250 * time.Millisecond

	sayInterval       = 100 * time.Millisecond // news of this host are said together
	assertInterval    = 5 * time.Second        // from one new incarnation to the next
	keyringInterval   = 3 * time.Second
	rejoinInterval    = 10 * time.Second
	maxMembers        = 2048 // without a list of peers
	forgetMemberAfter = 24 * time.Hour
)

// exchangePace is for what is gossiped, memberPace for who is a member: that's
// found by a whole push/pull, of 100 KB each way in a fleet of a thousand.
func exchangePace() pace { return pace{time.Second, time.Second, 30 * time.Second} }
func memberPace() pace   { return pace{3 * time.Second, 5 * time.Second, 5 * time.Minute} }

// memberlistConfig is memberlist's, but for logger, transport and delegates.
func (c *ClusterConfig) memberlistConfig(ring *memberlist.Keyring) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Name = c.NodeName
	m.BindAddr, m.BindPort = c.Bind.Addr().String(), int(c.Bind.Port())
	m.AdvertiseAddr, m.AdvertisePort = c.Advertise.String(), int(c.Bind.Port())
	m.Label = "pointsman/" + c.Fleet
	m.Keyring = ring
	m.EnableCompression = false // LZW of each packet costs more than it saves
	m.UDPBufferSize = 1400
	m.GossipInterval, m.GossipNodes, m.RetransmitMult = gossipInterval, gossipNodes, retransmitMult
	m.ProbeInterval, m.ProbeTimeout = probeInterval, probeTimeout
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = 3, 6
	m.IndirectChecks = 3
	m.TCPTimeout = 3 * time.Second
	// The rare push/pull of memberlist's own is for what the hash of members
	// doesn't show.
	m.PushPullInterval = time.Minute
	m.GossipToTheDeadTime = 60 * time.Second
	// A host that comes back under another address is accepted after this, and
	// not only once the dead one is reaped (memberlist#157, cortex#2130).
	m.DeadNodeReclaimTime = 30 * time.Second
	m.HandoffQueueDepth = 8192
	m.DelegateProtocolVersion, m.DelegateProtocolMin, m.DelegateProtocolMax = 1, 1, 1
	return m
}
