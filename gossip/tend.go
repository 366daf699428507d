package gossip

import (
	"context"
	"maps"
	"time"

	"pointsman/state/event"
)

// tend does what is to be done at times, until ctx is done.
func (c *Cluster) tend(ctx context.Context) {
	var t tending
	for {
		wait := c.tendOnce(&t, time.Now())
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			_ = c.saveDrains() // it told
			return
		case <-c.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// tending is when things were last done.
type tending struct{ said, asserted, polled time.Time }

// tendOnce does what is due, and gives how long there's nothing else to do.
func (c *Cluster) tendOnce(t *tending, now time.Time) time.Duration {
	wait := keyringInterval
	if now.Sub(t.polled) >= keyringInterval {
		t.polled = now
		c.pollKeyring()
		c.noteClocks()
	}
	if c.wantsIncarnation() {
		if left := assertInterval - now.Sub(t.asserted); left > 0 {
			wait = min(wait, left)
		} else {
			t.asserted = now
			c.takeIncarnation()
		}
	}
	if left := sayInterval - now.Sub(t.said); left > 0 {
		wait = min(wait, left)
	} else if c.say() {
		t.said = now
	}
	next := c.expire(now)
	_ = c.saveDrains() // it told
	if !next.IsZero() {
		wait = min(wait, max(next.Sub(now), time.Millisecond))
	}
	return wait
}

func (c *Cluster) pollKeyring() {
	changed, err := c.keys.poll()
	if changed {
		c.cfg.Log.Info("gossip: the keyring changed", "reason", event.KeyringChanged, "keys", len(c.keys.ring.GetKeys()))
	}
	c.trouble(BadKeyring, err)
}

func (c *Cluster) wantsIncarnation() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.own.wanted > c.store.own.incarnation
}

// takeIncarnation makes this host heard again where something newer is held
// under its name. The number is on disk before anybody sees it.
func (c *Cluster) takeIncarnation() {
	c.mu.Lock()
	wanted := c.store.own.wanted
	c.mu.Unlock()
	err := c.disk.saveIncarnation(wanted)
	c.cfg.Log.Info("gossip: others hold something newer of this host", "incarnation", wanted)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubleLocked(BadState, err)
	c.store.own.restart(wanted)
	c.unsaid = c.speaks
	// Once, soon after the start, is what an older state dir takes.
	if c.assertions++; c.assertions > 1 || time.Since(c.started) > time.Minute {
		c.noteLocked(Trouble{Kind: NameConflict, Member: c.cfg.NodeName, Detail: "another host speaks under this host's name"})
	}
}

// say tells the others what this host has to say, and whether there was
// anything.
func (c *Cluster) say() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unsaid {
		return false
	}
	c.unsaid = false
	for _, m := range c.store.say(c.statement) {
		c.queues.say(m)
	}
	c.changedLocked()
	return true
}

// expire lets go of what's over, and gives when there will be more.
func (c *Cluster) expire(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members.expire(now)
	fleet := c.fleetTime()
	ended := c.store.drains.expire(fleet)
	c.drainsDirty = c.drainsDirty || ended
	if t, over := c.store.drains.ofEarlierBoot(c.cfg.NodeName, c.cfg.BootID, fleet); over {
		c.acceptDrain(c.store.drains.undrain(t, c.cfg.NodeName, fleet), fleet)
	}
	if c.troubles.fade(now) || ended || c.view != nil && len(c.view.Drains) != len(c.store.drains.active(fleet, 0)) {
		c.changedLocked()
	}
	next := c.store.drains.next(fleet)
	if next.IsZero() {
		return next
	}
	return now.Add(next.Sub(fleet))
}

// saveDrains writes the drains to disk if they changed.
func (c *Cluster) saveDrains() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	all, dirty := maps.Clone(c.store.drains), c.drainsDirty
	c.drainsDirty = false
	c.mu.Unlock()
	if !dirty {
		return nil
	}
	err := c.disk.saveDrains(all)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainsDirty = c.drainsDirty || err != nil
	c.troubleLocked(BadState, err)
	return err
}
