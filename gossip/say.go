package gossip

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pointsman/state"
)

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
	c.tellRemoved(byName)
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

// DrainSelf is Drain of this host, for its shutdown: it ends also when the agent
// runs with another boot id than ClusterConfig's. A drain of this host that somebody
// wants to outlast the boot stays as it is.
func (c *Cluster) DrainSelf(d state.Drain) error {
	d.Target = state.DrainTarget{Node: c.cfg.NodeName}
	return c.drain(d, c.cfg.BootID)
}

// UndrainSelf ends what DrainSelf has set, and no other drain.
func (c *Cluster) UndrainSelf() error {
	t := state.DrainTarget{Node: c.cfg.NodeName}
	return c.writeDrain(t, func(now time.Time) *drain {
		if c.store.drains.outlastsBoot(t, now) {
			return nil
		}
		return c.store.drains.undrain(t, c.cfg.NodeName, now)
	})
}

func (c *Cluster) drain(d state.Drain, boot string) error {
	now := c.cfg.Clock()
	if err := checkDrain(d, now); err != nil {
		return err
	}
	if d.Since.IsZero() {
		d.Since = now
	}
	return c.writeDrain(d.Target, func(now time.Time) *drain {
		if boot != "" && c.store.drains.outlastsBoot(d.Target, now) {
			return nil
		}
		reason := d.Reason[:min(len(d.Reason), maxReason)]
		return c.store.drains.write(drain{target: d.Target, drained: true, reason: reason, boot: boot,
			since: d.Since.Add(c.skew).Unix(), until: d.Until.Add(c.skew).Unix(), grace: int64(d.Grace / time.Second), file: d.File}, c.cfg.NodeName, now)
	})
}

// Undrain ends a drain, whoever set it. A target that isn't drained is no error.
func (c *Cluster) Undrain(t state.DrainTarget) error {
	return c.writeDrain(t, func(now time.Time) *drain { return c.store.drains.undrain(t, c.cfg.NodeName, now) })
}

// acceptDrain makes an entry that this host wrote its own, and the others'.
func (c *Cluster) acceptDrain(d *drain, now time.Time) bool {
	if d == nil || !c.store.drains.merge(d, now) {
		return false
	}
	c.queues.say(queued{"drain " + d.target.String(), d.message, false})
	c.drainsDirty = true
	c.changedLocked()
	return true
}

// writeDrain writes an entry of the drains' map, made at the fleet's time. It's
// on disk when it returns without an error, and in force in any case if that is
// the disk's.
func (c *Cluster) writeDrain(t state.DrainTarget, write func(now time.Time) *drain) error {
	c.mu.Lock()
	now := c.fleetTime()
	d := write(now)
	accepted := c.acceptDrain(d, now)
	c.mu.Unlock()
	if d != nil && !accepted {
		return fmt.Errorf("drain %v: there are %d drains already", t, maxDrains)
	}
	poke(c.wake)
	if err := c.saveDrains(); err != nil {
		return fmt.Errorf("drain %v: it's as you wished, but only the other hosts will know that after a restart of this one: %w", t, err)
	}
	return nil
}
