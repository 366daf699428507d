package reconcile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// connectionOf makes a connection of a client's, from "protocol destination
// backend", where an untranslated one's is the destination.
func connectionOf(text string) *host.Connection {
	f := strings.Fields(text)
	c := &host.Connection{Protocol: state.Protocol(f[0]), Destination: netip.MustParseAddrPort(f[1]), ReplySource: netip.MustParseAddrPort(f[2])}
	c.Source = netip.MustParseAddrPort("192.0.2.50:40000")
	c.Closing = slices.Contains(f, "closing")
	return c
}

// TestDrainScope: which connections are waited for, and what else there is to be
// said of a drain.
func TestDrainScope(t *testing.T) {
	const a, b, other = "10.20.0.11:53", "10.20.0.12:53", "10.20.0.13:53"
	dns := udpService("10.96.0.10", a+" st", b+" rs")
	dns.Ports[0].Endpoints[0].NodeName = "n1"
	web := udpService("10.96.0.11", a+" st", b+" rs", "[2001:db8:20::11]:53 st")
	web.Name, web.Ports[0].Frontends = "web", web.Ports[0].Frontends[:1]
	in := udpInput(dns, web)
	for _, tt := range []struct {
		name        string
		target      state.DrainTarget
		conn        string
		want        bool
		ready, kept bool
	}{
		{"an endpoint", endpointTarget(a), "UDP 10.96.0.10:53 " + a, true, false, false},
		{"by a NodePort", endpointTarget(a), "UDP 192.0.2.11:30053 " + a, true, false, false},
		{"by what is no frontend any more", endpointTarget(a), "UDP 10.96.0.99:53 " + a, true, false, false},
		{"that ends", endpointTarget(a), "UDP 10.96.0.10:53 closing " + a, false, false, false},
		{"to another", endpointTarget(a), "UDP 10.96.0.10:53 " + b, false, false, false},
		{"past all Services", endpointTarget(a), "UDP " + a + " " + a, false, false, false},
		{"all of an address", endpointTarget("10.20.0.11:0"), "UDP 10.96.0.10:53 " + a, true, false, false},
		{"another port of it", endpointTarget("10.20.0.11:0"), "TCP 10.96.0.10:22 10.20.0.11:22", false, false, false},
		{"another protocol", endpointTarget("10.20.0.11:0"), "TCP 10.96.0.10:53 " + a, false, false, false},
		{"one that no Service has", endpointTarget(other), "TCP 10.96.0.10:53 " + other, true, false, false},
		{"not yet drained", endpointTarget(b), "UDP 10.96.0.10:53 " + b, true, true, true},
		{"a node", state.DrainTarget{Node: "n1"}, "UDP 10.96.0.10:53 " + a, true, false, false},
		{"a node that has none", state.DrainTarget{Node: "n3"}, "UDP 10.96.0.10:53 " + a, false, false, false},
		{"a Service", serviceTarget("dns"), "UDP 192.0.2.11:30053 " + a, true, true, true},
		{"the other Service of the endpoint", serviceTarget("web"), "UDP 192.0.2.11:30053 " + a, false, true, true},
		{"the other family", endpointTarget("[2001:db8:20::11]:53"), "UDP 10.96.0.10:53 " + a, false, false, false},
	} {
		d := scopeOf(nft.IPv4, in, tt.target)
		conn := connectionOf(strings.Replace(tt.conn, "closing "+a, a+" closing", 1))
		if got := d.has(conn); got != tt.want || d.ready != tt.ready || d.kept != tt.kept {
			t.Errorf("%s: %v, ready %v, kept %v; want %v, %v, %v", tt.name, got, d.ready, d.kept, tt.want, tt.ready, tt.kept)
		}
	}
	if d := scopeOf(nft.IPv6, in, endpointTarget("[2001:db8:20::11]:53")); d.kept || d.ready || d.filter().ReplySource.String() != "[2001:db8:20::11]:0" {
		t.Errorf("a family without a frontend: %+v", d)
	}
	if d := scopeOf(nft.IPv4, in, serviceTarget("dns")); d.filter() != (host.ConnectionFilter{}) {
		t.Errorf("two addresses: %+v", d.filter())
	}
}

func endpointTarget(text string) state.DrainTarget {
	return state.DrainTarget{Endpoint: netip.MustParseAddrPort(text)}
}

func serviceTarget(name string) state.DrainTarget {
	return state.DrainTarget{Service: state.ObjectName{Namespace: "default", Name: name}}
}

// TestMost: what is told of many clients is bounded, and the same each time.
func TestMost(t *testing.T) {
	clients := map[RemainingTo]int{}
	for i := range byte(100) {
		clients[RemainingTo{Endpoint: netip.MustParseAddrPort("10.20.0.11:53"), Client: netip.AddrFrom4([4]byte{192, 0, 2, i})}] = int(i) % 60
	}
	all := most(clients)
	if len(all) != maxRemainingTo || all[0].Connections != 59 || all[1].Connections != 58 || all[19].Connections != 40 || all[18].Client.String() != "192.0.2.41" {
		t.Errorf("%d: %+v", len(all), all)
	}
}
