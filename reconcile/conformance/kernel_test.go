package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/conformance/reading"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// patience is for what should happen at once: the machine may be busy.
const patience = 5 * time.Second

// both gives the rulesets of each node in both families.
func both(c *reading.Cluster) map[string][]*nft.Table {
	out := map[string][]*nft.Table{}
	for _, f := range families {
		for n, t := range f.tables(c) {
			out[n] = append(out[n], t)
		}
	}
	return out
}

// checks are a scenario's rows in both families.
func (s scenario) checks(protocols ...state.Protocol) (out []check) {
	told := cluster(s.settings, s.services...)
	for _, f := range families {
		for _, r := range s.rows {
			for _, p := range protocols {
				conn := reading.Connection{From: r.from, Proto: p, To: target(r.to, f.IPv6)}
				out = append(out, check{f, conn, reading.Expect(f.World, told, conn)})
			}
		}
	}
	return out
}

// TestKernel: the kernel does what the table says.
func TestKernel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if err := b.load(both(cluster(s.settings, s.services...))); err != nil {
				t.Fatal(err)
			}
			complain := func(err error) { t.Error(err) }
			b.all(t.Context(), s.checks(state.TCP, state.UDP), patience, complain)
			b.all(t.Context(), answered(s.checks(state.SCTP)), patience, complain)
		})
	}
}

// answered are the checks that end at servers. The lab's SCTP uses raw
// sockets, to which each refusal is everybody's.
func answered(checks []check) []check {
	return slices.DeleteFunc(checks, func(c check) bool {
		return slices.ContainsFunc(c.want.Fates, func(fate string) bool { return !strings.Contains(fate, "<-") })
	})
}
