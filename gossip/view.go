package gossip

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"pointsman/state"
)

// View is what this host knows of the fleet at one moment. It's immutable, and
// shares with the one before what didn't change.
type View struct {
	Members  []Member           // by name, this host among them
	Absent   []string           // peers that aren't alive, by name
	Records  map[string]*Record // by observer; the same pointer as before if it's unchanged
	Drains   map[state.DrainTarget]*state.Drain
	Troubles []Trouble
	Stats    Stats
}

// Alive counts the members that are alive or suspect, this host among them.
func (v *View) Alive() int {
	n := 0
	for _, m := range v.Members {
		if m.State == Alive || m.State == Suspect {
			n++
		}
	}
	return n
}

// Stats counts what happened since the start, and what is held.
type Stats struct {
	PacketsSent, PacketBytesSent uint64 // UDP
	StreamsOpened, StreamBytes   uint64 // TCP, by this host
	Messages                     uint64 // from others, in packets and streams
	Exchanges                    uint64 // begun by this host
	Fetched                      uint64 // news that gossip had lost
	Refused                      uint64 // messages that were malformed or beyond a bound
	Incarnation                  uint32 // of this host's record
	Queued                       int    // messages on their way to others
	RecordBytes                  int    // held
	Rejoins, RejoinsFailed       uint64
	Health                       int // memberlist's opinion of this host: 0 is good
}

// View gives what is known now.
func (c *Cluster) View() *View {
	health := 0
	if list := c.list.Load(); list != nil {
		health = list.GetHealthScore()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.view == nil {
		c.view = c.newView(time.Now())
	}
	v := *c.view
	v.Stats = c.stats()
	v.Stats.Health = health
	return &v
}

func (c *Cluster) stats() Stats {
	s := c.counts
	s.PacketsSent, s.PacketBytesSent = c.traffic.packets.Load(), c.traffic.packetBytes.Load()
	s.StreamsOpened, s.StreamBytes = c.traffic.streams.Load(), c.traffic.streamBytes.Load()
	s.Messages = c.traffic.messages.Load()
	s.Refused = uint64(c.store.refused)
	s.Incarnation, s.RecordBytes = c.store.own.incarnation, c.store.size
	s.Queued = c.queues.len()
	return s
}

func (c *Cluster) newView(now time.Time) *View {
	v := &View{Drains: c.store.drains.active(now), Troubles: c.troubles.list(), Records: make(map[string]*Record, len(c.store.observers))}
	for name, o := range c.store.observers {
		v.Records[name] = o.view()
	}
	v.Members = c.memberList(now)
	v.Absent = c.members.absent()
	return v
}

func (c *Cluster) memberList(now time.Time) []Member {
	list := make([]Member, 0, len(c.members.all))
	for name, e := range c.members.all {
		if !c.members.known(name) {
			continue
		}
		m := Member{Name: name, Address: e.address}
		if o := c.store.observers[name]; o != nil && o.header != nil {
			m.Meta = decodeMeta(o.header.meta)
		}
		m.State, m.Since = e.state(m.Meta, now)
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// absent gives the peers that aren't alive, by name.
func (m *members) absent() []string {
	var names []string
	for name := range m.peers {
		if e := m.all[name]; name != m.self && (e == nil || !e.alive) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// SetPeers says who may be a member: those with a Node manifest. Nil means
// whoever holds the key; so does an empty list. It may be called again at any
// time. More than 2,048 are more than can be handled: the last by name are left
// out.
func (c *Cluster) SetPeers(peers []Peer) {
	var byName map[string]Peer
	var names map[string]bool
	peers = slices.Clone(peers)
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	if len(peers) > 0 {
		byName, names = map[string]Peer{}, map[string]bool{}
	}
	for _, p := range peers[:min(len(peers), maxMembers)] {
		byName[p.Name] = Peer{p.Name, unmapped(p.Addresses)}
		names[p.Name] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	added := false
	for name := range byName {
		_, had := c.members.peers[name]
		added = added || !had
	}
	c.members.peers = byName
	c.store.setPeers(names)
	c.countAlive()
	c.changedLocked()
	if added {
		poke(c.rejoin)
	}
}

func unmapped(addresses []netip.Addr) []netip.Addr {
	all := make([]netip.Addr, 0, len(addresses))
	for _, a := range addresses {
		all = append(all, a.Unmap())
	}
	return all
}

// Publish replaces this host's record: what it does not call up, of all that it
// is asked about. What's left out is called up. The first call replaces what
// the process before said; an isolated host makes none. Generation is that of
// the manifests' checks it's made against. Beyond 65,536 entries the host says
// nothing about part of the keys.
func (c *Cluster) Publish(entries []Entry, generation uint64) {
	entries = slices.Clone(entries)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statement.entries, c.statement.generation = entries, generation
	c.speaks, c.unsaid = true, true
	poke(c.wake)
}

// SetMeta says what this host shows of itself, from the first Publish on.
func (c *Cluster) SetMeta(m Meta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statement.meta = appendMeta(nil, m)
	c.unsaid = c.speaks
	poke(c.wake)
}

// Drain makes a target get no new connections, on all hosts, until d.Until or
// until it's undrained. Since is now, if it's zero; By is this host.
func (c *Cluster) Drain(d state.Drain) error { return c.drain(d, "") }

// DrainSelf drains this host for its shutdown: until then, or until the agent
// runs with another boot id than ClusterConfig's.
func (c *Cluster) DrainSelf(reason string, until time.Time) error {
	return c.drain(state.Drain{Target: state.DrainTarget{Node: c.cfg.NodeName}, Reason: reason, Until: until}, c.cfg.BootID)
}

func (c *Cluster) drain(d state.Drain, boot string) error {
	now := time.Now()
	if err := checkDrain(d, now); err != nil {
		return err
	}
	if d.Since.IsZero() {
		d.Since = now
	}
	return c.writeDrain(d.Target, func() *drain {
		reason := d.Reason[:min(len(d.Reason), maxReason)]
		return c.store.drains.write(drain{target: d.Target, drained: true, reason: reason, boot: boot,
			since: d.Since.Unix(), until: d.Until.Unix()}, c.cfg.NodeName)
	})
}

// Undrain ends a drain, whoever set it. A target that isn't drained is no error.
func (c *Cluster) Undrain(t state.DrainTarget) error {
	return c.writeDrain(t, func() *drain { return c.store.drains.undrain(t, c.cfg.NodeName, time.Now()) })
}
