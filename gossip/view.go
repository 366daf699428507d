package gossip

import (
	"cmp"
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
	MemberSyncs                  uint64 // push/pulls since another's members differed
	Health                       int    // memberlist's opinion of this host: 0 is good
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
	fleet := c.fleetTime()
	v := &View{Drains: c.store.drains.active(fleet, c.skew), Troubles: c.troubles.list(c.members.unanswering()), Records: make(map[string]*Record, len(c.store.observers))}
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
		m.State, m.Since = e.state(now)
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
