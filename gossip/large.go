package gossip

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Where an MTU is in the way, large packets are lost and small ones aren't. Pings
// are small, and what gossip loses is fetched over TCP: nothing would show it but
// news that are late. So now and then this host sends some member a packet as
// large as they get, for which thanks come over TCP.
const (
	largeInterval = 10 * time.Second // for 130 bytes a second
	largePatience = time.Second
	largeTries    = 3

	// largeSize is what leaves 100 of the 1400 bytes of a packet to memberlist.
	largeSize = 1300
)

// trySizes sends large packets to one member after another until ctx is done. One
// that they don't reach is tried again until they do.
func (c *Cluster) trySizes(ctx context.Context, list *memberlist.Memberlist) {
	to, again := "", false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(largeInterval/2 + rand.N(largeInterval)):
		}
		if !again {
			to = c.memberAfter(to)
		}
		again = to != "" && !c.reaches(ctx, list, to) && c.noteSize(to)
	}
}

// memberAfter gives the name of the live member that follows one, by name, this
// host left out; empty if there's none.
func (c *Cluster) memberAfter(last string) string {
	c.mu.Lock()
	names := c.members.others()
	c.mu.Unlock()
	if len(names) == 0 {
		return ""
	}
	at, found := slices.BinarySearch(names, last)
	if found {
		at++
	}
	return names[at%len(names)]
}

// reaches reports whether one of a few large packets reaches a member.
func (c *Cluster) reaches(ctx context.Context, list *memberlist.Memberlist, to string) bool {
	for range largeTries {
		c.mu.Lock()
		node := c.members.node(to)
		c.mu.Unlock()
		if node == nil {
			return true // it's not a member any more
		}
		if err := list.SendBestEffort(node, largeMessage(c.cfg.NodeName)); err != nil {
			c.cfg.Log.Debug("gossip: large packet", "to", to, "error", err)
		}
		if c.thanked(ctx, to) {
			return true
		}
	}
	return ctx.Err() != nil
}

// thanked waits a while for the thanks of a member.
func (c *Cluster) thanked(ctx context.Context, by string) bool {
	patience := time.NewTimer(largePatience)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-patience.C:
			return false
		case name := <-c.thanks:
			if name == by {
				return true
			}
		}
	}
}

// noteSize notes that large packets don't reach a member, if small ones do.
func (c *Cluster) noteSize(to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.members.all[to]
	if e == nil || !e.alive || e.missed > 0 {
		return false // that's another trouble
	}
	c.noteLocked(Trouble{Kind: LargeBlocked, Member: to, Address: e.address.Addr(),
		Detail: "it answers pings over UDP, and packets of 1,300 bytes don't reach it: an MTU or a firewall is in the way, or there this host is no member"})
	return true
}

func largeMessage(from string) []byte {
	m := appendStr8(begin(kindLarge), from)
	return append(m, make([]byte, largeSize-len(m))...)
}

// thank answers a large packet, or takes notice of such an answer.
func (c *Cluster) thank(k kind, from string, now time.Time) {
	switch {
	case k == kindThanks:
		select {
		case c.thanks <- from:
		default: // nobody waits
		}
	case c.members.ask(from, k, now):
		c.send(reply{from, [][]byte{appendStr8(begin(kindThanks), c.cfg.NodeName)}})
	}
}
