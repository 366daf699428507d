package gossip

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTroubles(t *testing.T) {
	all := troubles{}
	if !all.note(Trouble{Kind: UDPBlocked, Member: "n1"}, today) || all.note(Trouble{Kind: UDPBlocked, Member: "n1"}, today.Add(time.Second)) {
		t.Error("the first is new, and no other")
	}
	if !all.set(CannotListen, os.ErrPermission, today) || all.set(CannotListen, os.ErrPermission, today) {
		t.Error("the first is new, and no other")
	}
	if list := all.list(nil); len(list) != 2 || list[1].Count != 2 || !list[1].Since.Equal(today) {
		t.Errorf("%+v", list)
	}
	if all.fade(today.Add(30*time.Second)) || !all.fade(today.Add(2*time.Minute)) || len(all) != 1 {
		t.Errorf("what fades: %+v", all.list(nil))
	}
	if !all.set(CannotListen, nil, today) || len(all) != 0 {
		t.Error("it doesn't end")
	}
	all.note(Trouble{Kind: CannotJoin, Address: netip.MustParseAddr("10.0.0.7")}, today)
	all.note(Trouble{Kind: UDPBlocked, Member: "n7"}, today)
	if all.over(CannotJoin, "n7", "10.0.0.7"); len(all) != 1 {
		t.Errorf("after it joined: %+v", all.list(nil))
	}
	clear(all)
	for i := range 2 * maxTroubles {
		all.note(Trouble{Kind: UDPBlocked, Member: fmt.Sprint("n", i)}, today)
	}
	if len(all) != maxTroubles {
		t.Error(len(all), "troubles")
	}
}

// Whoever sends a packet chooses the name in it.
func TestTroublesAreShownOnTerminals(t *testing.T) {
	all := troubles{}
	all.note(Trouble{Kind: NotAdmitted, Member: "n1\x1b[2J\n" + strings.Repeat("n", 1<<16), Detail: "its name\nis\r\xff"}, today)
	got := all.list(nil)[0]
	if text := got.Member + got.Detail; oneLine(text) != text || len(got.Member) != maxName || got.Detail != "its name is \ufffd" {
		t.Errorf("%.100q, %d bytes: %q", got.Member, len(got.Member), got.Detail)
	}
}

// A host that came while it was asked in vain is no trouble.
func TestCannotJoin(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.7:7946")
	for alive, want := range map[bool]int{true: 0, false: 1} {
		c := &Cluster{troubles: troubles{}, members: &members{self: "n1", all: map[string]*memberEntry{"n7": {alive: alive, address: at}}}}
		if c.cannotJoin(target{"n7", at}, os.ErrDeadlineExceeded); len(c.troubles) != want {
			t.Errorf("alive %v: %+v", alive, c.troubles.list(nil))
		}
	}
}
