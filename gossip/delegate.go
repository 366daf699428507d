package gossip

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. Some of it is called with memberlist's
// lock held, and all of it holds up other messages: it may take notes and answer
// from memory, and never call memberlist (memberlist#237) nor wait.
type delegate struct{ c *Cluster }

// NodeMeta is what rides in alive messages: nothing, see header.
func (d delegate) NodeMeta(int) []byte { return nil }

// NotifyMsg takes a message, whose bytes are the caller's.
func (d delegate) NotifyMsg(message []byte) { d.c.receive(slices.Clone(message)) }

// GetBroadcasts gives what a packet has room for.
func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.c.queues.take(overhead, limit)
}

// LocalState gives the hashes of what this host holds. What differs is fetched
// afterwards; all of it would be sent each time.
func (d delegate) LocalState(bool) []byte {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	return d.c.store.sumsMessage()
}

// MergeRemoteState takes what LocalState gave at the other end.
func (d delegate) MergeRemoteState(sums []byte, _ bool) { d.c.receive(slices.Clone(sums)) }

// AckPayload rides in the answer to a ping: three hashes of 8 bytes, of the
// records, the drains and who is alive; and this host's time of day in Unix
// milliseconds.
func (d delegate) AckPayload() []byte {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	return appendU64(appendU64(d.c.store.payload(), d.c.members.sum), uint64(d.c.cfg.Clock().UnixMilli()))
}

// NotifyPingComplete takes the AckPayload of a member.
func (d delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, payload []byte) {
	d.c.answered(n.Name, payload)
}

// NotifyAlive is asked whether a node may be a member.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	err := d.c.members.may(n)
	if err != nil {
		address, _ := nodeAddress(n)
		d.c.noteLocked(Trouble{Kind: NotAdmitted, Member: n.Name, Address: address.Addr(), Detail: err.Error()})
	}
	return err
}

// NotifyConflict is told of a node that uses another's name. Only members that
// the newcomer spoke to are, and the one whose name it is needn't be among them:
// so that one is told.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	address, _ := nodeAddress(other)
	d.c.conflict(existing.Name, address.Addr())
	if existing.Name != d.c.cfg.NodeName && d.c.warned.take(time.Now(), warnRate, 1) {
		d.c.send(reply{existing.Name, [][]byte{conflictMessage(d.c.cfg.NodeName, address.Addr())}})
	}
}

// warnRate is how many conflicts a second others are told of: fewer than it
// takes to be a nuisance, and one before the last fades.
const warnRate = 1.0 / 30

// conflictMessage tells a member that its name is used at another address.
func conflictMessage(self string, at netip.Addr) []byte {
	return appendStr8(appendStr8(begin(kindConflict), self), at.String())
}

func (c *Cluster) conflict(name string, at netip.Addr) {
	detail := "its name is used by another host, at " + at.String()
	if name == c.cfg.NodeName {
		detail = "this host's name is used by another, at " + at.String()
	}
	c.noteLocked(Trouble{Kind: NameConflict, Member: name, Address: at, Detail: detail})
}

func (c *Cluster) receiveConflict(r *wireReader) {
	from, text := r.name(), r.str8()
	at, err := netip.ParseAddr(text)
	if r.bad || err != nil || !c.members.ask(from, kindConflict, time.Now()) {
		c.store.refuse(kindConflict)
		return
	}
	c.conflict(c.cfg.NodeName, at)
}

// NotifyJoin, NotifyUpdate and NotifyLeave are told of members. Whether one died
// or left, memberlist doesn't tell (memberlist#293).
func (d delegate) NotifyJoin(n *memberlist.Node)   { d.c.memberIs(n, true) }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.c.memberIs(n, true) }
func (d delegate) NotifyLeave(n *memberlist.Node)  { d.c.memberIs(n, false) }

func (c *Cluster) memberIs(n *memberlist.Node, alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.members.set(n, alive, now) {
		c.tellMember(n, alive, now)
	}
	c.countAlive()
	c.changedLocked()
}

// countAlive tells the queues how many members there are.
func (c *Cluster) countAlive() { c.alive.Store(int64(c.members.alive())) }

// answered takes notice of a member's answer to a ping.
func (c *Cluster) answered(name string, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.members.all[name]; e != nil && (e.missed > 0 || !e.suspected.IsZero()) {
		e.missed, e.suspected = 0, time.Time{}
		c.changedLocked()
	}
	own := c.store.payload()
	r := &wireReader{rest: payload}
	held, who := r.take(len(own)), r.u64()
	if r.bad {
		return // it says nothing
	}
	if e := c.members.all[name]; e != nil {
		e.readClock(r, time.Now())
	}
	c.compared(name, bytes.Equal(held, own))
	// An alive message that got lost would be missing until the next push/pull.
	if c.compareWho.seen(who == c.members.sum, time.Now()) {
		select {
		case c.sync <- name:
		default:
		}
	}
}

// compared takes notice of whether a member holds the same as this host, and
// begins an exchange with it if it's time for one.
func (c *Cluster) compared(name string, equal bool) {
	if c.compare.seen(equal, time.Now()) {
		c.counts.Exchanges++
		c.send(reply{name, [][]byte{c.store.sumsMessage()}})
	}
}

// receive takes a message of any kind; it keeps it.
func (c *Cluster) receive(message []byte) {
	c.traffic.messages.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch k, r, ok := open(message); {
	case !ok:
		c.store.refuse(k)
	case gossiped(message):
		h := c.store.apply(message, now)
		c.took(k, h.news)
		if h.relay {
			c.queues.relay(queued{h.name, message, h.slow})
		}
	case k == kindItems:
		c.fetched(message, now)
	case k == kindConflict:
		c.receiveConflict(r)
	case k == kindQuestion || k == kindAnswer:
		c.receiveLetter(k, r, now)
	case k == kindLarge || k == kindThanks:
		c.thank(k, r.name(), now)
	case k == kindSums || k == kindDigest || k == kindDetails:
		if from := r.name(); c.members.ask(from, k, now) {
			c.send(c.store.answer(message))
		}
	}
}

func (c *Cluster) fetched(message []byte, now time.Time) {
	drains := c.store.drains.sum()
	news, relay := c.store.applyItems(message, now)
	for _, q := range relay {
		c.queues.relay(q)
	}
	if news > 0 {
		c.counts.Fetched += uint64(news)
		c.compare.brought()
	}
	c.took(kindItems, news > 0)
	c.drainsDirty = c.drainsDirty || drains != c.store.drains.sum()
}

// took sees to what follows from a message.
func (c *Cluster) took(k kind, news bool) {
	if news {
		c.drainsDirty = c.drainsDirty || k == kindDrain
		c.changedLocked()
	}
	if news && k >= kindDrain || c.store.own.wanted > c.store.own.incarnation {
		poke(c.wake)
	}
}

// send hands messages to a sender. If those are busy, the messages are dropped:
// the next exchange comes to the same.
func (c *Cluster) send(r reply) {
	if len(r.messages) == 0 {
		return
	}
	select {
	case c.outbox <- r:
	default:
	}
}
