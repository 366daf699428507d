package gossip

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"pointsman/state"
)

// TestDrainsAreLogged: who reads the log of any host learns why its connections
// go elsewhere; and a flood of drains doesn't fill the log.
func TestDrainsAreLogged(t *testing.T) {
	var log bytes.Buffer
	a := &Agent{cfg: Config{ClusterConfig: ClusterConfig{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	node := state.DrainTarget{Node: "n1"}
	drains := map[state.DrainTarget]*state.Drain{node: {Target: node, By: "n2", Reason: "kernel upgrade", Until: today}}
	for _, step := range []struct {
		drains map[state.DrainTarget]*state.Drain
		want   string
	}{
		{drains, `msg="drained: node n1" reason=DrainSet object="Node n1" endpoint="" by=n2 until=` + today.UTC().Format("2006-01-02T15:04:05Z") + ` why="kernel upgrade"`},
		{drains, ""},
		{nil, `msg="no longer drained: node n1" reason=DrainEnded object="Node n1"`},
	} {
		log.Reset()
		a.tellDrains(step.drains)
		a.health.Store(&state.Health{Drains: step.drains})
		if got := log.String(); !strings.Contains(got, step.want) || step.want == "" && got != "" {
			t.Errorf("logged %q, not %q", got, step.want)
		}
	}
	log.Reset()
	many := map[state.DrainTarget]*state.Drain{}
	for i := range maxDrains {
		target := state.DrainTarget{Endpoint: netip.MustParseAddrPort(fmt.Sprintf("10.0.0.1:%d", i+1))}
		many[target] = &state.Drain{Target: target}
	}
	a.tellDrains(many)
	if n := strings.Count(log.String(), "\n"); n == 0 || n > lineBurst {
		t.Errorf("%d drains are %d lines", len(many), n)
	}
}

// TestRemovedMembersAreLogged: a member that no Node manifest names any more is
// told of, once; this host, those that stay and those that never were members
// are not.
func TestRemovedMembersAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := &Cluster{cfg: ClusterConfig{NodeName: "n1", Log: slog.New(slog.NewTextHandler(&log, nil))}}
	c.members = &members{self: "n1", all: map[string]*memberEntry{"n1": {}, "n2": {}, "n3": {}, "stranger": {}}}
	peers := func(names ...string) map[string]Peer {
		all := map[string]Peer{}
		for _, n := range names {
			all[n] = Peer{Name: n}
		}
		return all
	}
	for _, step := range []struct {
		before, after map[string]Peer
		want          string
	}{
		{peers("n2", "n3"), peers("n2"), `msg="gossip: n3 is no member any more: no Node manifest names it" reason=NodeRemoved object="Node n3"`},
		{peers("n2"), peers("n2", "n3"), ""},
		{peers("n2"), nil, ""},
	} {
		log.Reset()
		c.members.peers = step.before
		c.tellRemoved(step.after)
		if got := log.String(); !strings.Contains(got, step.want) || strings.Count(got, "\n") != min(1, len(step.want)) {
			t.Errorf("logged %q, not %q", got, step.want)
		}
	}
}
