package gossip

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// Peer is a node that may be a member.
type Peer struct {
	Name      string
	Addresses []netip.Addr // where it may be; none: anywhere
}

// MemberState is what this host thinks of a member.
type MemberState uint8

// The states of members.
const (
	Alive   MemberState = iota
	Suspect             // this host itself got no answer from it; the fleet still has it alive
	Dead
)

// String gives the state in lower case.
func (s MemberState) String() string {
	return [...]string{"alive", "suspect", "dead"}[min(s, Dead)]
}

// Member is a host of the fleet, this one among them.
type Member struct {
	Name    string
	Address netip.AddrPort
	State   MemberState
	Since   time.Time // when this host first saw it so
	Meta    Meta      // zero until it is heard
}

// memberEntry is what's known of a member from memberlist.
type memberEntry struct {
	address   netip.AddrPort
	alive     bool
	since     time.Time
	suspected time.Time // when it last didn't answer this host; zero if it did since
	sum       uint64    // its part of the members' sum; 0 if it isn't alive
	missed    int       // how many pings in a row it didn't answer this host
	missing   time.Time // when it didn't answer the first of them
	clock     time.Time // of day, as it last told; zero if it didn't
	clockRead time.Time // when that was
	asks      map[kind]*tokens
}

// miss takes notice of a ping that wasn't answered.
func (m *memberEntry) miss(now time.Time) {
	if m.missed == 0 {
		m.missing = now
	}
	m.missed++
}

// manyMissed is how many pings are lost in a row only if something is wrong.
const manyMissed = 3

// unanswering gives a Trouble for each live member that doesn't answer this
// host: others do reach it, so a way between the two is blocked, or one-way.
func (m *members) unanswering() []Trouble {
	var all []Trouble
	for name, e := range m.all {
		if e.alive && e.missed >= manyMissed && m.known(name) {
			all = append(all, Trouble{Kind: NoAnswer, Member: name, Address: e.address.Addr(), Count: e.missed, Since: e.missing,
				Detail: "it doesn't answer this host's pings over UDP, while others have it alive: the way there or back is blocked"})
		}
	}
	return all
}

// suspectFor is how long a missed answer is shown, if memberlist doesn't find
// the member dead, nor alive, before.
const suspectFor = 30 * time.Second

func (m *memberEntry) state(now time.Time) (MemberState, time.Time) {
	switch {
	case !m.alive:
		return Dead, m.since
	case !m.suspected.IsZero() && now.Sub(m.suspected) < suspectFor:
		return Suspect, m.suspected
	}
	return Alive, m.since
}

// members is the table of who is there. It's kept from memberlist's callbacks,
// as memberlist's own list can't be read without a data race, nor from within
// them. It isn't safe for concurrent use.
type members struct {
	self  string
	all   map[string]*memberEntry
	peers map[string]Peer // nil: whoever holds the key
	sum   uint64          // hash of who is alive, and where
}

// may says why a node may not be a member.
func (m *members) may(n *memberlist.Node) error {
	address, err := nodeAddress(n)
	switch {
	case err != nil:
		return err
	case n.Name == m.self:
		return nil // this host, or a conflict that memberlist finds
	case !plain(n.Name):
		return errors.New("its name isn't one that could be shown")
	case !compatible(n):
		return fmt.Errorf("it speaks protocol %d-%d (%d), delegate %d-%d (%d)", n.PMin, n.PMax, n.PCur, n.DMin, n.DMax, n.DCur)
	case m.peers == nil && m.all[n.Name] == nil && len(m.all) >= maxMembers:
		return fmt.Errorf("there are %d members already", maxMembers)
	case m.peers == nil:
		return nil
	}
	peer, known := m.peers[n.Name]
	switch {
	case !known:
		return errors.New("no Node manifest names it")
	case len(peer.Addresses) > 0 && !slices.Contains(peer.Addresses, address.Addr()):
		return fmt.Errorf("its Node manifest has the addresses %v", peer.Addresses)
	}
	return nil
}

// plain reports whether a name is made of printable characters, none of them a
// blank: whoever holds the key chooses it, and it's shown on terminals.
func plain(name string) bool {
	return name != "" && oneLine(name) == name && !strings.Contains(name, " ")
}

// compatible tells whether a node's protocol versions agree with this host's.
// One alive member whose versions don't makes every push/pull in the fleet
// fail: memberlist looks for versions that all have in common.
func compatible(n *memberlist.Node) bool {
	const protocol, delegate = memberlist.ProtocolVersion2Compatible, 1
	return n.PMin <= protocol && protocol <= n.PMax && memberlist.ProtocolVersionMin <= n.PCur && n.PCur <= memberlist.ProtocolVersionMax &&
		n.DMin <= delegate && delegate <= n.DMax && n.DCur == delegate
}

func nodeAddress(n *memberlist.Node) (netip.AddrPort, error) {
	a, ok := netip.AddrFromSlice(n.Addr)
	if !ok || n.Port == 0 || n.Name == "" || len(n.Name) > maxName {
		return netip.AddrPort{}, errors.New("its name or address is malformed")
	}
	return netip.AddrPortFrom(a.Unmap(), n.Port), nil
}

// set takes what memberlist says of a node, and tells whether it came or went.
func (m *members) set(n *memberlist.Node, alive bool, now time.Time) bool {
	address, err := nodeAddress(n)
	if err != nil {
		return false
	}
	e := m.all[n.Name]
	if e == nil {
		e = &memberEntry{asks: map[kind]*tokens{}}
		m.all[n.Name] = e
	}
	m.sum ^= e.sum
	if e.sum = 0; alive {
		e.sum = sum64(append(appendStr8(nil, n.Name), address.String()...))
	}
	m.sum ^= e.sum
	changed := e.alive != alive || e.since.IsZero()
	if changed {
		e.alive, e.since = alive, now
	}
	e.address, e.suspected, e.missed = address, time.Time{}, 0
	return changed
}

// known tells whether a name is a member's, and one that may be.
func (m *members) known(name string) bool {
	_, peer := m.peers[name]
	return m.all[name] != nil && (m.peers == nil || peer || name == m.self)
}

// alive counts the members that are alive, this host among them.
func (m *members) alive() int {
	n := 0
	for name, e := range m.all {
		if e.alive && m.known(name) {
			n++
		}
	}
	return n
}

// others gives the live members but this host, by name.
func (m *members) others() []string {
	var names []string
	for name, e := range m.all {
		if e.alive && name != m.self && m.known(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// expire forgets members that have been dead for long, but for peers: one that
// nobody remembers would be taken for one that has no agent, and what can't be
// asked on it (UDP) for alive (jury.fleetNow).
func (m *members) expire(now time.Time) {
	maps.DeleteFunc(m.all, func(name string, e *memberEntry) bool {
		_, peer := m.peers[name]
		return !e.alive && !peer && now.Sub(e.since) > forgetMemberAfter
	})
}

// node gives what memberlist needs to send to a member.
func (m *members) node(name string) *memberlist.Node {
	e := m.all[name]
	if e == nil || !m.known(name) {
		return nil
	}
	return &memberlist.Node{Name: name, Addr: net.IP(e.address.Addr().AsSlice()), Port: e.address.Port()}
}

// ask bounds how often a member gets an answer to one kind of question.
func (m *members) ask(name string, k kind, now time.Time) bool {
	e := m.all[name]
	if e == nil || !m.known(name) {
		return false
	}
	if e.asks[k] == nil {
		e.asks[k] = &tokens{}
	}
	if k == kindQuestion {
		return e.asks[k].take(now, maxQuestions, 2*maxQuestions)
	}
	return e.asks[k].take(now, 1, 4)
}

// at gives the name of the member at an address, or of the peer that should be
// there; empty if there's none.
func (m *members) at(a netip.Addr) string {
	for name, e := range m.all {
		if e.address.Addr() == a {
			return name
		}
	}
	for name, p := range m.peers {
		if slices.Contains(p.Addresses, a) {
			return name
		}
	}
	return ""
}
