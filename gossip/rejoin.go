package gossip

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// target is where a member may be found.
type target struct {
	name    string // empty if it isn't known
	address netip.AddrPort
}

// String is what memberlist's Join reads; it's never left to resolve a name.
func (t target) String() string {
	if t.name == "" {
		return t.address.String()
	}
	return t.name + "/" + t.address.String()
}

// keepJoined looks for the peers that aren't members, and for the hosts to join.
// memberlist itself never asks again after a dead member, so two halves of a
// fleet would stay apart for ever (metallb#589). As in Serf, the fewer are
// missing the rarer it's tried, so that a dead host isn't asked for by all.
//
// A host that has just started always tries: when many start at once, memberlist
// loses some of their alive messages, as it sends each only as often as is
// enough for the members that are known so far.
func (c *Cluster) keepJoined(ctx context.Context, list *memberlist.Memberlist) {
	tries, round, hosts := 3, 0, c.resolveJoin(ctx)
	timer := time.NewTimer(c.rejoinWait(round))
	defer timer.Stop()
	for {
		for range tries {
			c.joinOne(ctx, list, hosts)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.rejoin:
			hosts = c.resolveJoin(ctx)
			tries = max(c.tries(hosts), 1)
		case name := <-c.sync:
			tries = 0
			c.syncMembers(list, name)
		case <-timer.C:
			hosts = c.resolveJoin(ctx)
			if tries = c.tries(hosts); round < freshRounds {
				round, tries = round+1, max(tries, 1)
			}
			timer.Reset(c.rejoinWait(round))
		}
	}
}

// rejoinWait differs, so that hosts that started together don't ask together. One
// that has just started and found nobody asks sooner: the others may be about to
// listen.
func (c *Cluster) rejoinWait(round int) time.Duration {
	wait := rejoinInterval
	if c.alive.Load() <= 1 && round < freshRounds {
		wait = min(wait, time.Second<<round)
	}
	return wait/2 + rand.N(wait)
}

// freshRounds is how often a host that has just started always tries.
const freshRounds = 4

// tries says how many joins are tried now.
func (c *Cluster) tries(hosts []netip.AddrPort) int {
	absent := len(c.absentTargets(hosts))
	others := int(c.alive.Load()) - 1
	switch {
	case others <= 0:
		return 3
	case rand.N(others) < absent:
		return 1
	}
	return 0
}

// syncMembers has a push/pull with a member, now.
func (c *Cluster) syncMembers(list *memberlist.Memberlist, name string) {
	c.mu.Lock()
	node := c.members.node(name)
	c.counts.MemberSyncs++
	c.mu.Unlock()
	if node == nil {
		return
	}
	if _, err := list.Join([]string{name + "/" + node.Address()}); err != nil {
		c.cfg.Log.Debug("gossip: push/pull", "with", name, "error", err)
	}
}

func (c *Cluster) joinOne(ctx context.Context, list *memberlist.Memberlist, hosts []netip.AddrPort) {
	targets := c.absentTargets(hosts)
	if len(targets) == 0 || ctx.Err() != nil {
		return
	}
	t := targets[rand.N(len(targets))]
	_, err := list.Join([]string{t.String()})
	if cause := errors.Unwrap(err); cause != nil { // of one address there's one error, in a list of several lines
		err = cause
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.counts.Rejoins++
		return
	}
	c.counts.RejoinsFailed++
	c.cfg.Log.Debug("gossip: join", "at", t, "error", err)
	c.cannotJoin(t, err)
}

// cannotJoin takes notice of it, unless the host has come by itself meanwhile.
func (c *Cluster) cannotJoin(t target, err error) {
	if c.members.aliveAt(t.address) {
		return
	}
	c.view = nil
	c.troubles.note(Trouble{Kind: CannotJoin, Member: t.name, Address: t.address.Addr(), Detail: err.Error()}, time.Now())
}

// absentTargets gives where members may be found that aren't known to be alive:
// those of the manifests, and the hosts to join.
func (c *Cluster) absentTargets(hosts []netip.AddrPort) []target {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []target
	for _, name := range c.members.absent() {
		for _, a := range c.members.peers[name].Addresses {
			if a.Is4() == c.cfg.Bind.Addr().Is4() {
				all = append(all, target{name, netip.AddrPortFrom(a, c.cfg.Bind.Port())})
			}
		}
	}
	self := netip.AddrPortFrom(c.cfg.Advertise, c.cfg.Bind.Port())
	for _, h := range hosts {
		if h != self && h != c.cfg.Bind && !c.members.aliveAt(h) {
			all = append(all, target{c.members.at(h.Addr()), h})
		}
	}
	return all
}

func (m *members) aliveAt(a netip.AddrPort) bool {
	for name, e := range m.all {
		if e.alive && e.address == a && m.known(name) {
			return true
		}
	}
	return false
}

const resolveTimeout = 2 * time.Second

// resolveJoin gives the addresses of the hosts to join, of this host's family.
func (c *Cluster) resolveJoin(ctx context.Context) []netip.AddrPort {
	var all []netip.AddrPort
	for _, j := range c.cfg.Join {
		host, port, err := splitJoin(j, c.cfg.Bind.Port())
		if err != nil {
			continue // NewCluster refused it
		}
		for _, a := range c.lookup(ctx, host) {
			ap := netip.AddrPortFrom(a.Unmap(), port)
			if ap.Addr().Is4() == c.cfg.Bind.Addr().Is4() && !slices.Contains(all, ap) {
				all = append(all, ap)
			}
		}
	}
	return all
}

func (c *Cluster) lookup(ctx context.Context, host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}
	}
	limited, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := c.cfg.lookup(limited, "ip", host)
	if err != nil && ctx.Err() == nil { // also if no resolver answers in time
		c.mu.Lock()
		defer c.mu.Unlock()
		c.noteLocked(Trouble{Kind: CannotJoin, Member: host, Detail: err.Error()})
	}
	return addrs
}
