package gossip

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func aNode(name, ip string) *memberlist.Node {
	return &memberlist.Node{Name: name, Addr: net.ParseIP(ip), Port: DefaultPort,
		PMin: 1, PMax: 5, PCur: 2, DMin: 1, DMax: 1, DCur: 1}
}

func TestWhoMayBeAMember(t *testing.T) {
	peers := map[string]Peer{
		"n1": {"n1", []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		"n2": {"n2", nil},
	}
	for name, c := range map[string]struct {
		node  *memberlist.Node
		spoil func(*memberlist.Node)
		peers map[string]Peer
		may   bool
	}{
		"a peer":                  {node: aNode("n1", "10.0.0.1"), peers: peers, may: true},
		"at another address":      {node: aNode("n1", "10.0.0.2"), peers: peers},
		"one without address":     {node: aNode("n2", "10.0.0.9"), peers: peers, may: true},
		"not a peer":              {node: aNode("n3", "10.0.0.1"), peers: peers},
		"no peers":                {node: aNode("n3", "10.0.0.1"), may: true},
		"this host":               {node: aNode("self", "10.0.0.77"), peers: peers, may: true},
		"no name":                 {node: aNode("", "10.0.0.1")},
		"a name of two words":     {node: aNode("n 3", "10.0.0.1")},
		"a name for terminals":    {node: aNode("n3\x1b[2J", "10.0.0.1")},
		"no port":                 {node: aNode("n1", "10.0.0.1"), spoil: func(n *memberlist.Node) { n.Port = 0 }},
		"no address":              {node: aNode("n1", "10.0.0.1"), spoil: func(n *memberlist.Node) { n.Addr = nil }},
		"delegate from 255 on":    {node: aNode("n1", "10.0.0.1"), spoil: func(n *memberlist.Node) { n.DMin, n.DMax = 255, 255 }},
		"delegate up to 255":      {node: aNode("n1", "10.0.0.1"), spoil: func(n *memberlist.Node) { n.DMax = 255 }, may: true},
		"speaks another delegate": {node: aNode("n1", "10.0.0.1"), spoil: func(n *memberlist.Node) { n.DMax, n.DCur = 2, 2 }},
		"protocol from 3 on":      {node: aNode("n1", "10.0.0.1"), spoil: func(n *memberlist.Node) { n.PMin = 3 }},
	} {
		m := &members{self: "self", all: map[string]*memberEntry{}, peers: c.peers}
		if c.spoil != nil {
			c.spoil(c.node)
		}
		if err := m.may(c.node); (err == nil) != c.may {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMembersAreBounded(t *testing.T) {
	m := &members{self: "self", all: map[string]*memberEntry{}}
	for i := range maxMembers {
		m.set(aNode(fmt.Sprint("n", i), "10.0.0.1"), true, today)
	}
	if m.may(aNode("more", "10.0.0.1")) == nil || m.may(aNode("n0", "10.0.0.1")) != nil {
		t.Error("not as it should be")
	}
	m.set(aNode("n0", "10.0.0.1"), false, today)
	if m.expire(today.Add(forgetMemberAfter)); len(m.all) != maxMembers {
		t.Error("forgotten too early")
	}
	if m.expire(today.Add(forgetMemberAfter + 1)); len(m.all) != maxMembers-1 || m.all["n0"] != nil {
		t.Error("not forgotten")
	}
	m.peers = map[string]Peer{"n1": {Name: "n1"}}
	m.set(aNode("n1", "10.0.0.1"), false, today)
	m.set(aNode("n2", "10.0.0.1"), false, today)
	if m.expire(today.Add(2 * forgetMemberAfter)); m.all["n1"] == nil || m.all["n2"] != nil {
		t.Error("a peer is forgotten, or one that is none isn't")
	}
}

func TestMemberStates(t *testing.T) {
	m := &members{self: "self", all: map[string]*memberEntry{}}
	state := func(later time.Duration) string {
		s, since := m.all["n1"].state(today.Add(later))
		return fmt.Sprint(s, " ", since.Sub(today))
	}
	for _, c := range []struct {
		do   func()
		want string
	}{
		{do: func() { m.set(aNode("n1", "10.0.0.1"), true, today) }, want: "alive 0s"},
		{do: func() { m.set(aNode("n1", "10.0.0.1"), true, today.Add(time.Second)) }, want: "alive 0s"},
		{do: func() { m.all["n1"].suspected = today.Add(2 * time.Second) }, want: "suspect 2s"},
		{do: func() { m.set(aNode("n1", "10.0.0.1"), false, today.Add(3*time.Second)) }, want: "dead 3s"},
		{do: func() { m.set(aNode("n1", "10.0.0.2"), true, today.Add(4*time.Second)) }, want: "alive 4s"},
	} {
		c.do()
		if got := state(5 * time.Second); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	m.all["n1"].suspected = today
	if got := state(suspectFor); got != "alive 4s" {
		t.Errorf("%s: suspected for ever", got)
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	m := &members{self: "self", all: map[string]*memberEntry{}}
	m.set(aNode("n1", "10.0.0.1"), true, today)
	answers := 0
	for range 100 {
		if m.ask("n1", kindSums, today) {
			answers++
		}
	}
	if answers == 0 || answers > 10 || !m.ask("n1", kindDigest, today) || !m.ask("n1", kindSums, today.Add(time.Second)) {
		t.Error(answers, "answers")
	}
	if m.ask("stranger", kindSums, today) {
		t.Error("a stranger gets an answer")
	}
}
