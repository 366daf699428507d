package conformance

import (
	"fmt"
	"strings"
	"testing"

	"pointsman/reconcile/conformance/reading"
	"pointsman/state"
)

var protocols = []state.Protocol{state.TCP, state.UDP, state.SCTP}

// wantIn is the outcome in a family.
func (r row) wantIn(f family) string {
	four, six, differ := strings.Cut(r.want, " | ")
	if differ && f.IPv6 {
		return six
	}
	return four
}

// TestReading: the table says what the second reading says.
func TestReading(t *testing.T) {
	for _, s := range scenarios {
		c := cluster(s.settings, s.services...)
		for _, f := range families {
			for _, r := range s.rows {
				for _, p := range protocols {
					got := f.plain(reading.Expect(f.World, c, reading.Connection{From: r.from, Proto: p, To: target(r.to, f.IPv6)}))
					if want := r.wantIn(f); got != want {
						t.Errorf("%s: %s to %s/%s (%s): %q, the table says %q", s.name, r.from, r.to, p, f.Family, got, want)
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
						if fmt.Sprint(got) != fmt.Sprint(want) || f.plain(got) != r.wantIn(f) {
							t.Errorf("%s to %s/%s (%s): traced %q, read %q, table %q", r.from, r.to, p, f.Family, got, want, r.wantIn(f))
						}
						for _, m := range miscounts(f.World, rulesets, conn) {
							t.Errorf("%s to %s/%s (%s): %s", r.from, r.to, p, f.Family, m)
						}
					}
				}
			}
		})
	}
}

// TestUnknownRule: a rule that the tracer doesn't understand is an error, not
// one that does nothing.
func TestUnknownRule(t *testing.T) {
	for _, rule := range []string{
		"ct mark 1 drop", "ip daddr @cluster-ips log", "meta l4proto tcp counter drop", "dnat ip to 10.0.0.1", "masquerade",
		"reject", "ip daddr . meta mark @services", "update @affinity-0 { ip saddr }", "meta l4proto { tcp, udp",
	} {
		if got, err := (compiler{}).rule(rule); err == nil {
			t.Errorf("%q is taken for %+v", rule, got)
		}
	}
}
