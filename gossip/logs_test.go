package gossip

import (
	"strings"
	"testing"
	"time"
)

func TestLogHints(t *testing.T) {
	for line, want := range map[string]struct {
		kind    TroubleKind
		member  string
		from    string
		suspect string
		missed  string
	}{
		"[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=10.0.0.7:7946\n":                {kind: CannotDecrypt, from: "10.0.0.7"},
		"[ERR] memberlist: failed to receive: encryption is configured but remote state is not encrypted from=[2001:db8::7]:33124": {kind: CannotDecrypt, from: "2001:db8::7"},
		"[ERR] memberlist: Push/Pull with n7 failed: no installed keys could decrypt the message":                                  {kind: CannotDecrypt, member: "n7"},
		"[ERR] memberlist: Failed fallback TCP ping: timeout 500ms: no installed keys could decrypt the message":                   {},
		"[WARN] memberlist: Was able to connect to n7 over TCP but UDP probes failed, network may be misconfigured":                {kind: UDPBlocked, member: "n7"},
		"[ERR] memberlist: discarding packet with unacceptable label \"pointsman/other\": from=10.0.0.7:7946":                      {kind: OtherFleet, from: "10.0.0.7"},
		"[INFO] memberlist: Suspect n7 has failed, no acks received":                                                               {suspect: "n7"},
		"[DEBUG] memberlist: Stream connection from=10.0.0.7:7946":                                                                 {},
		"[DEBUG] memberlist: Failed UDP ping: n7 (timeout reached)":                                                                {missed: "n7"},
		"Err: Could not set the deadline: x":                                                                                       {},
		"":                                                                                                                         {},
	} {
		l := parseLog(line)
		h := l.hint()
		got := h.trouble
		if got.Kind != want.kind || got.Member != want.member || h.suspect != want.suspect || h.missed != want.missed {
			t.Errorf("%s: %+v", line, h)
		}
		if want.from != "" && got.Address.String() != want.from {
			t.Errorf("%s: from %v", line, got.Address)
		}
	}
}

// What this package says by itself is in memberlist's words at debug only, and
// what it doesn't keeps its level.
func TestLogTold(t *testing.T) {
	for line, want := range map[string]bool{
		"[INFO] memberlist: Suspect n7 has failed, no acks received":                                                                true,
		"[INFO] memberlist: Marking n7 as failed, suspect timeout reached (1 peer confirmations)":                                   true,
		"[WARN] memberlist: Refuting a suspect message (from: n7)":                                                                  true,
		"[WARN] memberlist: ignoring alive message for 'n7': no Node manifest names it":                                             true,
		"[ERR] memberlist: failed to receive: no installed keys could decrypt the message from=10.0.0.7:33124":                      true,
		"[ERR] memberlist: Conflicting address for n1. Mine: 10.0.0.1:7946 Theirs: 10.0.0.2:7946 Old state: 0":                      true,
		"[ERR] memberlist: Failed fallback TCP ping: timeout 500ms: read tcp 10.0.0.1:49294->10.0.0.7:7946: i/o timeout":            true,
		"[ERR] memberlist: Failed to send gossip to 10.0.0.7:7946: write udp 10.0.0.1:7946->10.0.0.7:7946: operation not permitted": false,
	} {
		if got := parseLog(line).toldBetter(); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestLogGate(t *testing.T) {
	g := logGate{}
	a := parseLog("[INFO] memberlist: Suspect n7 has failed, no acks received").template()
	b := parseLog("[INFO] memberlist: Suspect n8 has failed, no acks received").template()
	if a != b {
		t.Errorf("%q and %q", a, b)
	}
	var passed, dropped int
	for i := range 21 {
		if n, pass := g.pass(a, today.Add(time.Duration(i)*time.Second)); pass {
			passed++
			dropped += n
		}
	}
	if passed != 3 || dropped != 18 {
		t.Errorf("%d passed, which told of %d dropped", passed, dropped)
	}
	for i := range 10 * maxTemplates {
		g.pass(strings.Repeat("x", i), today)
	}
	if len(g) > maxTemplates {
		t.Error(len(g), "templates")
	}
}
