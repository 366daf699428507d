package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"pointsman/state"
	"pointsman/state/event"
)

// What is logged of what others cause, members or drains: this many lines at
// once, and so many a second.
const (
	lineBurst = 64
	lineRate  = 1
)

// tellMember logs that a member is there, or isn't any more, and takes back what
// was wrong with reaching it. Of a large fleet that starts, most is logged at
// debug only.
func (c *Cluster) tellMember(n *memberlist.Node, alive bool, now time.Time) {
	level, text, reason := slog.LevelWarn, n.Name+" is dead", event.NodeDead
	if alive {
		level, text, reason = slog.LevelInfo, n.Name+" is alive", event.NodeAlive
		c.troubles.over(CannotJoin, n.Name, n.Addr.String())
		if n.Name == c.cfg.NodeName {
			return
		}
	}
	if !c.memberLog.take(now, lineRate, lineBurst) {
		level = slog.LevelDebug
	}
	c.cfg.Log.Log(context.Background(), level, "gossip: "+text, "reason", reason, "object", "Node "+n.Name, "address", n.Address())
}

// tellRemoved logs which members are none any more as others may be: else a host
// would vanish without a word.
func (c *Cluster) tellRemoved(peers map[string]Peer) {
	if peers == nil {
		return
	}
	now := time.Now()
	for name := range c.members.all {
		if _, stays := peers[name]; stays || name == c.cfg.NodeName || !c.members.known(name) || !c.memberLog.take(now, lineRate, lineBurst) {
			continue
		}
		c.cfg.Log.Info("gossip: "+name+" is no member any more: no Node manifest names it", "reason", event.NodeRemoved, "object", "Node "+name)
	}
}

// tellTrouble logs what is wrong with another host.
func (c *Cluster) tellTrouble(t Trouble) {
	object, address := "", ""
	if t.Member != "" {
		object = "Node " + t.Member
	}
	if t.Address.IsValid() {
		address = t.Address.String()
	}
	c.cfg.Log.Warn("gossip: "+string(t.Kind), "reason", event.FleetTrouble, "object", object, "member", t.Member, "address", address, "detail", t.Detail)
}

// tellFlaps logs that what this host sees of a target isn't told the fleet for now.
func (a *Agent) tellFlaps(target netip.AddrPort, stable time.Duration) {
	a.cfg.Log.Warn(fmt.Sprintf("%s goes up and down: what is seen of it here counts when it's been the same for %s", target, stable),
		"reason", event.EndpointFlaps, "endpoint", target)
}

// tellDrains logs what is drained now and wasn't, and the other way round.
func (a *Agent) tellDrains(next map[state.DrainTarget]*state.Drain) {
	last := map[state.DrainTarget]*state.Drain{}
	if h := a.health.Load(); h != nil {
		last = h.Drains
	}
	now := time.Now()
	for t, d := range next {
		if last[t] == nil && a.lines.take(now, lineRate, lineBurst) {
			a.cfg.Log.Info("drained: "+t.String(), "reason", event.DrainSet, "object", object(t), "endpoint", endpoint(t),
				"by", d.By, "until", d.Until.UTC().Format(time.RFC3339), "why", d.Reason)
		}
	}
	for t := range last {
		if next[t] == nil && a.lines.take(now, lineRate, lineBurst) {
			a.cfg.Log.Info("no longer drained: "+t.String(), "reason", event.DrainEnded, "object", object(t), "endpoint", endpoint(t))
		}
	}
}

// object names a drained node or Service as events do, "" for an endpoint.
func object(t state.DrainTarget) string {
	switch {
	case t.Node != "":
		return "Node " + t.Node
	case t.Service != state.ObjectName{}:
		return "Service " + t.Service.String()
	}
	return ""
}

// endpoint names a drained endpoint, "" for what is none.
func endpoint(t state.DrainTarget) string {
	switch {
	case !t.Endpoint.IsValid():
		return ""
	case t.Endpoint.Port() == 0:
		return t.Endpoint.Addr().String()
	}
	return t.Endpoint.String()
}

// tellIsolated logs that this host begins to judge alone, or ends it.
func (a *Agent) tellIsolated(why string) {
	last := ""
	if s := a.status.Load(); s != nil {
		last = s.Isolated
	}
	switch {
	case why == last:
	case why != "":
		a.cfg.Log.Warn("gossip: this host judges by itself alone", "reason", event.Isolated, "why", why)
	default:
		a.cfg.Log.Info("gossip: this host judges with the fleet again", "reason", event.Rejoined)
	}
}
