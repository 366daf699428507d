package main

import (
	"strings"
	"testing"
	"time"

	"pointsman/reconcile"
)

// TestCheckedText: what an endpoint's health rests on reads as one sentence,
// whether it's probed or not.
func TestCheckedText(t *testing.T) {
	for want, check := range map[string]reconcile.Checked{
		"no probe: it's good as long as its host lives, or others can connect to it":                                  {},
		"no probe: it's good as long as its host lives, or others can connect to it; down since 2026-11-30T05:00:00Z": {Verdict: "down", Since: time.Date(2026, 11, 30, 5, 0, 0, 0, time.UTC)},
		"probe: tcpSocket 10.20.0.11:80 every 1s; unknown":                                                            {Probe: "tcpSocket 10.20.0.11:80 every 1s", Verdict: "unknown"},
		"probe: tcpSocket 10.20.0.11:80 every 1s; up as last known, for nobody has a fresh word":                      {Probe: "tcpSocket 10.20.0.11:80 every 1s", Verdict: "up", Held: true},
	} {
		var p walk
		p.checked(&reconcile.Backing{Check: &check})
		if got := strings.Join(strings.Fields(p.String()), " "); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}
