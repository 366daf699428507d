package host

import (
	"fmt"
	"net/netip"
	"testing"
)

// hopTexts writes hops in a few words.
func hopTexts(hops []Hop) map[string]string {
	texts := map[string]string{}
	for _, h := range hops {
		text := fmt.Sprintf("%s %s %s %v %s", h.Link.Name, h.Link.Kind, h.Gateway, h.Carrier, h.Neighbour)
		switch {
		case h.Refusal != "":
			text = string(h.Refusal)
		case h.Local:
			text = "local"
		}
		if h.Forwarded != h.Refusal {
			text += ", forwarded: " + string(h.Forwarded)
		}
		texts[h.To.String()] = text
	}
	return texts
}

// TestReadWay: the kernel's own word for each kind of route, for what the host
// sends and for what a client does.
func TestReadWay(t *testing.T) {
	veth(t, "pmw0", "pmw1")
	ip(t, "link set pmw0 up", "link set pmw1 up", "link set lo up", "addr add 192.0.2.1/24 dev pmw0", "addr add 2001:db8::1/64 dev pmw0 nodad")
	for _, r := range []string{"unreachable 10.9.1.0/24", "blackhole 10.9.2.0/24", "prohibit 10.9.3.0/24", "unreachable fd09:1::/64", "blackhole fd09:2::/64",
		"prohibit fd09:3::/64", "10.9.4.0/24 via 192.0.2.9"} {
		ip(t, "route add "+r)
		t.Cleanup(func() { ip(t, "route del "+r) })
	}
	ip(t, "route add 10.9.0.0/16 via 192.0.2.8 table 77")
	t.Cleanup(func() { ip(t, "route flush table 77") })
	for _, r := range []string{"from 192.0.2.77 to 10.9.5.0/24 lookup 77", "iif lo to 10.9.6.0/24 unreachable"} {
		ip(t, "rule add "+r)
		t.Cleanup(func() { ip(t, "rule del "+r) })
	}
	ip(t, "route add 10.9.5.0/24 via 192.0.2.9", "route add 10.9.6.0/24 via 192.0.2.9")
	t.Cleanup(func() { ip(t, "route del 10.9.5.0/24", "route del 10.9.6.0/24") })
	ip(t, "rule add from 192.0.2.77 to 10.9.4.0/24 unreachable", "neigh add 192.0.2.20 lladdr 02:00:00:00:00:01 dev pmw0")
	t.Cleanup(func() { ip(t, "rule del from 192.0.2.77 to 10.9.4.0/24 unreachable") })
	run(t, "1", "tee", "/proc/sys/net/ipv4/ip_forward")
	q := WayQuestions{PerLink: []string{"net.ipv4.conf.%s.forwarding"}, From: netip.MustParseAddr("192.0.2.77")}
	want := map[string]string{"192.0.2.1": "local", "10.9.1.1": "an unreachable route", "10.9.2.1": "a blackhole route", "10.9.3.1": "a prohibit route",
		"10.9.9.1": "no route", "fd09:1::1": "an unreachable route", "fd09:2::1": "a blackhole route", "fd09:3::1": "a prohibit route", "fd09:9::1": "no route",
		"10.9.5.1": "pmw0 veth 192.0.2.8 true ", "10.9.6.1": "pmw0 veth 192.0.2.9 true ",
		"10.9.4.1": "pmw0 veth 192.0.2.9 true , forwarded: no route", "192.0.2.20": "pmw0 veth invalid IP true ", "192.0.2.77": "pmw0 veth invalid IP true "}
	for a := range want {
		if a := netip.MustParseAddr(a); a.Is4() && a != q.From {
			q.To = append(q.To, a)
		}
	}
	f, hops := ReadWay(q)
	q.To, q.From = nil, netip.Addr{}
	for a := range want {
		if a := netip.MustParseAddr(a); a.Is6() {
			q.To = append(q.To, a)
		}
	}
	_, more := ReadWay(q)
	for _, h := range more {
		h.Forwarded = h.Refusal
		hops = append(hops, h)
	}
	got := hopTexts(hops)
	for a, w := range want {
		if got[a] != w {
			t.Errorf("%s: %q, want %q", a, got[a], w)
		}
	}
	if len(f.Unread) != 0 || f.Sysctls["net.ipv4.conf.pmw0.forwarding"] != "1" || hops[len(hops)-1].Source.IsValid() {
		t.Errorf("%+v", f)
	}
	run(t, "0", "tee", "/proc/sys/net/ipv4/ip_forward")
	q.To, q.From = []netip.Addr{netip.MustParseAddr("10.9.4.1")}, netip.MustParseAddr("192.0.2.20")
	if _, hops := ReadWay(q); hops[0].Refusal != "" || hops[0].Forwarded != "" || hops[0].Source.String() != "192.0.2.1" {
		t.Errorf("forwarding that is off is taken for a route: %+v", hops[0])
	}
}

// TestReadWaySelected: rules that look at more than addresses and interfaces.
func TestReadWaySelected(t *testing.T) {
	for rule, want := range map[string]bool{"from 192.0.2.0/24 lookup 78": false, "not fwmark 5 lookup 78": false, "fwmark 5/7 lookup 78": true,
		"ipproto tcp lookup 78": true, "dport 80 lookup 78": true, "uidrange 1-2 lookup 78": true} {
		ip(t, "rule add "+rule)
		_, hops := ReadWay(WayQuestions{To: []netip.Addr{netip.MustParseAddr("192.0.2.20"), netip.MustParseAddr("2001:db8::9")}})
		if ip(t, "rule del "+rule); hops[0].Selected != want || hops[1].Selected {
			t.Errorf("%s: %+v", rule, hops)
		}
	}
}

// TestNeighbour: who was asked for and didn't answer.
func TestNeighbour(t *testing.T) {
	veth(t, "pmn0", "pmn1")
	ip(t, "link set pmn0 up", "link set pmn1 up", "addr add 192.0.2.1/24 dev pmn0", "neigh add 192.0.2.20 nud failed dev pmn0",
		"neigh add 192.0.2.21 nud incomplete dev pmn0")
	for a, want := range map[string]Neighbour{"192.0.2.20": Failed, "192.0.2.21": Incomplete, "192.0.2.22": ""} {
		_, hops := ReadWay(WayQuestions{To: []netip.Addr{netip.MustParseAddr(a)}})
		if h := hops[0]; h.Neighbour != want || !h.Carrier {
			t.Errorf("%+v, want %q", h, want)
		}
	}
	ip(t, "link set pmn1 down")
	if _, hops := ReadWay(WayQuestions{To: []netip.Addr{netip.MustParseAddr("192.0.2.20")}}); hops[0].Carrier {
		t.Errorf("%+v", hops)
	}
}
