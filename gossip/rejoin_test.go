package gossip

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestJoinAsksDNSOncePerRound: of the three tries of a host that is alone each
// takes a host from one answer.
func TestJoinAsksDNSOncePerRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		asked := make(chan string, 1000)
		c := s.start(0, ClusterConfig{Join: []string{"fleet.example"}, lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
			asked <- host
			return []netip.Addr{hostAddress(1).Addr(), hostAddress(2).Addr()}, nil
		}})
		time.Sleep(5 * time.Minute)
		n, tries := len(asked), int(c.View().Stats.RejoinsFailed)
		if n < 5 || 3*n > tries+3 || 3*n < tries {
			t.Errorf("%d questions for %d tries", n, tries)
		}
		s.start(1, ClusterConfig{})
		s.until("meet", time.Minute, seesAlive(2))
	})
}
