package host

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// foreign is a ruleset of somebody else's, of all sorts.
const foreign = `
table ip filter {
	chain user {
		ct status dnat accept
		ct status & dnat == dnat counter accept
		ct status snat accept
		ct status & dnat == 0 drop
		ct state established accept
		tcp dport 22 ct status dnat accept
		ct status dnat,snat log accept
		meta mark 1 return
		tcp dport 22 ct state established,related counter accept
		ct state invalid drop
		ct state new,established accept
		ct state != established accept
	}
	chain rest { counter reject; }
	chain unread { accept; }
	chain forward {
		type filter hook forward priority filter - 5; policy drop;
		counter log prefix "f" jump user
		meta l4proto tcp jump unread
		goto rest
	}
	chain nat { type nat hook prerouting priority dstnat; }
}
table inet off {
	flags dormant
	chain in { type filter hook input priority 10; policy drop; drop; }
}
table ip6 pointsman {
	chain in { type filter hook input priority 10; policy accept; drop; }
}
table netdev n { chain in { type filter hook ingress device "lo" priority 0; policy accept; }; }
table arp a { chain out { type filter hook output priority 0; policy drop; }; }
`

func TestChains(t *testing.T) {
	nft(t, foreign)
	t.Cleanup(func() { nft(t, "flush ruleset") })
	chains, err := readChains()
	if err != nil {
		t.Fatal(err)
	}
	dnat := Rule{Conditional: true, DNAT: true, Verdict: "accept"}
	later := Rule{Conditional: true, Later: true, Verdict: "accept"}
	other := func(verdict string) Rule { return Rule{Conditional: true, Verdict: verdict} }
	want := []Chain{
		{Family: "ip", Table: "filter", Name: "user", Rules: []Rule{
			dnat, dnat, other("accept"), other("drop"), later, other("accept"), dnat, other("return"), later,
			{Conditional: true, Later: true, Verdict: "drop"}, other("accept"), other("accept")}},
		{Family: "ip", Table: "filter", Name: "rest", Rules: []Rule{{Verdict: "reject"}}},
		{Family: "ip", Table: "filter", Name: "unread"},
		{Family: "ip", Table: "filter", Name: "forward", Type: "filter", Hook: "forward", Priority: -5, Drop: true, Rules: []Rule{
			{Verdict: "jump", Target: "user"}, {Conditional: true, Verdict: "jump", Target: "unread"}, {Verdict: "goto", Target: "rest"}}},
		{Family: "ip", Table: "filter", Name: "nat", Type: "nat", Hook: "prerouting", Priority: -100},
		{Family: "inet", Table: "off", Name: "in", Type: "filter", Hook: "input", Priority: 10, Drop: true, Dormant: true},
		{Family: "ip6", Table: "pointsman", Name: "in", Type: "filter", Hook: "input", Priority: 10},
		{Family: "netdev", Table: "n", Name: "in", Type: "filter", Hook: "ingress"},
		{Family: "arp", Table: "a", Name: "out", Type: "filter", Hook: "output", Drop: true},
	}
	for _, w := range want {
		i := slices.IndexFunc(chains, func(c Chain) bool { return c.Is(w.Family, w.Table) && c.Name == w.Name })
		if i < 0 {
			t.Errorf("%s %s %s is not listed", w.Family, w.Table, w.Name)
		} else if !reflect.DeepEqual(chains[i], w) {
			t.Errorf("got  %+v\nwant %+v", chains[i], w)
		}
	}
	if len(chains) != len(want) {
		t.Errorf("%d chains, want %d", len(chains), len(want))
	}
}

func TestChainsOfNothing(t *testing.T) {
	if chains, err := readChains(); err != nil || len(chains) != 0 {
		t.Errorf("%v, %v", chains, err)
	}
}

// Attributes as iptables-nft 1.8.9 sends them for
// -m comment --comment hi -m conntrack [!] --ctstate DNAT -j ACCEPT (or REJECT).
func iptablesRule(rev uint32, flags, inverted, states uint16, verdict *nl.RtAttr) []byte {
	info := make([]byte, 168)
	binary.NativeEndian.PutUint16(info[146:], flags)
	binary.NativeEndian.PutUint16(info[148:], inverted)
	binary.NativeEndian.PutUint16(info[150:], states)
	list := nl.NewRtAttr(unix.NFTA_RULE_EXPRESSIONS, nil)
	list.AddChild(compat("match", "comment", 0, []byte("hi\x00\x00")))
	list.AddChild(compat("match", "conntrack", rev, info))
	list.AddChild(expr("counter"))
	list.AddChild(verdict)
	return list.Serialize()
}

func expr(name string, data ...*nl.RtAttr) *nl.RtAttr {
	e := nl.NewRtAttr(unix.NFTA_LIST_ELEM, nil)
	e.AddRtAttr(unix.NFTA_EXPR_NAME, nl.ZeroTerminated(name))
	d := e.AddRtAttr(unix.NFTA_EXPR_DATA, nil)
	for _, a := range data {
		d.AddChild(a)
	}
	return e
}

func compat(kind, name string, rev uint32, info []byte) *nl.RtAttr {
	return expr(kind, nl.NewRtAttr(unix.NFTA_MATCH_NAME, nl.ZeroTerminated(name)),
		nl.NewRtAttr(unix.NFTA_MATCH_REV, binary.BigEndian.AppendUint32(nil, rev)), nl.NewRtAttr(unix.NFTA_MATCH_INFO, info))
}

func acceptExpr() *nl.RtAttr {
	verdict := nl.NewRtAttr(unix.NFTA_DATA_VERDICT, nil)
	verdict.AddRtAttr(unix.NFTA_VERDICT_CODE, binary.BigEndian.AppendUint32(nil, 1))
	data := nl.NewRtAttr(unix.NFTA_IMMEDIATE_DATA, nil)
	data.AddChild(verdict)
	return expr("immediate", data)
}

func TestRulesOfIptables(t *testing.T) {
	reject := compat("target", "REJECT", 0, make([]byte, 8))
	some := Rule{Conditional: true, Verdict: "accept"}
	for _, c := range []struct {
		name string
		rule []byte
		want Rule
	}{
		{"DNAT", iptablesRule(3, 1, 0, 0x80, acceptExpr()), Rule{Conditional: true, DNAT: true, Verdict: "accept"}},
		{"DNAT, rejected", iptablesRule(2, 1, 0, 0x80, reject), Rule{Conditional: true, DNAT: true, Verdict: "reject"}},
		{"! DNAT", iptablesRule(3, 1, 1, 0x80, acceptExpr()), some},
		{"RELATED,ESTABLISHED", iptablesRule(3, 1, 0, 0x06, acceptExpr()), Rule{Conditional: true, Later: true, Verdict: "accept"}},
		{"INVALID", iptablesRule(3, 1, 0, 0x01, acceptExpr()), Rule{Conditional: true, Later: true, Verdict: "accept"}},
		{"NEW,ESTABLISHED", iptablesRule(3, 1, 0, 0x0a, acceptExpr()), some},
		{"DNAT and something else", iptablesRule(3, 3, 0, 0x80, acceptExpr()), some},
		{"revision 1", iptablesRule(1, 1, 0, 0x80, acceptExpr()), some},
		{"LOG", iptablesRule(3, 1, 0, 0x80, compat("target", "LOG", 0, nil)), Rule{Conditional: true}},
		{"nothing", nil, Rule{}},
	} {
		if got := parseRule(c.rule); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestRulesCutShort: whatever the kernel sends, nothing is read past its end.
func TestRulesCutShort(t *testing.T) {
	whole := iptablesRule(3, 1, 0, 0x80, acceptExpr())
	for n := range whole {
		parseRule(whole[:n])
		parseChain(unix.NFPROTO_IPV4, whole[:n])
	}
}

func TestFamilyAndHookNames(t *testing.T) {
	for got, want := range map[string]string{
		familyName(unix.NFPROTO_BRIDGE): "bridge", familyName(99): "family 99",
		hookName("inet", 2): "forward", hookName("netdev", 1): "egress", hookName("arp", 1): "output", hookName("ip", 9): "hook 9",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if familyNumber("inet") != unix.NFPROTO_INET || familyNumber("none") != unix.NFPROTO_UNSPEC {
		t.Error("familyNumber")
	}
}
