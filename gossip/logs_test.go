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
