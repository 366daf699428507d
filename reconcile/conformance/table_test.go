package conformance

import (
	"fmt"
	"testing"

	"pointsman/reconcile/conformance/reading"
	"pointsman/state"
)

var protocols = []state.Protocol{state.TCP, state.UDP, state.SCTP}

// TestReading: the table says what the second reading says.
func TestReading(t *testing.T) {
	for _, s := range scenarios {
		c := cluster(s.settings, s.services...)
		for _, f := range families {
			for _, r := range s.rows {
				for _, p := range protocols {
					got := f.plain(reading.Expect(f.World, c, reading.Connection{From: r.from, Proto: p, To: target(r.to, f.IPv6)}))
					if got != r.want {
						t.Errorf("%s: %s to %s/%s (%s): %q, the table says %q", s.name, r.from, r.to, p, f.Family, got, r.want)
					}
				}
			}
		}
	}
}

// TestTracer: the rulesets do what the table says.
func TestTracer(t *testing.T) {
	rules := compiler{}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			c := cluster(s.settings, s.services...)
			for _, f := range families {
				rulesets, err := rules.rulesets(f.tables(c))
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range s.rows {
					for _, p := range protocols {
						conn := reading.Connection{From: r.from, Proto: p, To: target(r.to, f.IPv6)}
						got, want := trace(f.World, rulesets, conn), reading.Expect(f.World, c, conn)
						if fmt.Sprint(got) != fmt.Sprint(want) || f.plain(got) != r.want {
							t.Errorf("%s to %s/%s (%s): traced %q, read %q, table %q", r.from, r.to, p, f.Family, got, want, r.want)
						}
					}
				}
			}
		})
	}
}
