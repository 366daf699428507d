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
		{drains, `msg=drained target="node n1" by=n2 until=` + today.UTC().Format("2006-01-02T15:04:05Z") + ` reason="kernel upgrade"`},
		{drains, ""},
		{nil, `msg="a drain is over" target="node n1"`},
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
