package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/reconcile/conformance/reading"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// patience is for what should happen at once: the machine may be busy.
const patience = 30 * time.Second

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
		return slices.ContainsFunc(c.want.Fates, func(fate string) bool { return !strings.Contains(fate, "<-") && fate != reading.Uplink })
	})
}

// sample is how many combinations the kernel is asked about. They are the same
// in every run.
const sample = 28

// TestKernelCombinations: the kernel does with drawn fields what the reading
// says.
func TestKernelCombinations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	drawn := rapid.Custom(drawCombination)
	for seed := range sample {
		c := drawn.Example(seed)
		told := cluster(c.settings, c.services...)
		if err := b.load(both(told)); err != nil {
			t.Fatal(err)
		}
		b.all(t.Context(), c.checks(told, seed), patience, func(err error) { t.Errorf("%d: %s\n%s", seed, c, err) })
	}
}

// checks are a combination's connections from everywhere to everything: by TCP
// in one family and by UDP in the other.
func (c combination) checks(told *reading.Cluster, seed int) (out []check) {
	for i, f := range families {
		for _, from := range reading.Clients {
			for _, to := range c.targets {
				conn := reading.Connection{From: from, Proto: []state.Protocol{state.TCP, state.UDP}[(i+seed)%2], To: target(to, f.IPv6)}
				out = append(out, check{f, conn, reading.Expect(f.World, told, conn)})
			}
		}
	}
	return out
}
