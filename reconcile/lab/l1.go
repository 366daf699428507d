package lab

import (
	"fmt"
	"net/netip"
)

// Addresses that the hosts of L1 know a way to: the client sends them to the
// first node.
const (
	ServiceRange4 = "10.96.0.0/16"
	ServiceRange6 = "2001:db8:96::/112"
)

// L1 is the lab of the cases: a client, a router and nodes on one network, and
// backends on a network behind each node.
//
//	c 192.0.2.50 --+-- n1 192.0.2.11 | 10.20.0.1 -- b1 10.20.0.11, b2 .12, b3 .13
//	r 192.0.2.1  --+-- n2 192.0.2.12 | 10.20.1.1 -- b4 10.20.1.21
//	               +-- n3 192.0.2.13 | 10.20.2.1 -- b5 10.20.2.31
//
// IPv6 looks the same: 2001:db8::50, 2001:db8::11, 2001:db8:20::11,
// 2001:db8:20:1::21, ... A node's interfaces are eth0 to the client, eth1 to its
// backends and eth2 to the router once more, by a network without the client
// (198.51.100.0/24, 2001:db8:100::/64). That is where its default route leads: a
// default route back into the client's network would make the node answer the
// client with redirects, and those eat the rate limit of the ICMP errors that
// tests wait for.
//
// The client sends the service ranges to n1 and all else to r; r knows the way
// to every backend, so the backends' own addresses answer too. Whatever a test
// wants otherwise it changes by Route and IP.
type L1 struct {
	*Lab
	Client   *Host
	Router   *Host
	Nodes    []*Host
	Backends []*Host // b1, b2, ...: those behind n1 first

	LAN    *Network
	Uplink *Network
	Behind []*Network // Behind[i] joins node i and its backends
}

// L1 builds the lab of the cases, with the given number of backends behind each
// node: 3, 1, 1 where none is given.
func (l *Lab) L1(backends ...int) *L1 {
	if len(backends) == 0 {
		backends = []int{3, 1, 1}
	}
	x := &L1{Lab: l, LAN: l.Network("lan"), Uplink: l.Network("uplink")}
	x.Client, x.Router = l.Host("c"), l.Host("r")
	x.Client.Join(x.LAN, "192.0.2.50/24", "2001:db8::50/64")
	x.Router.Join(x.LAN, "192.0.2.1/24", "2001:db8::1/64")
	x.Router.Join(x.Uplink, "198.51.100.1/24", "2001:db8:100::1/64")
	x.Router.Forwarding()
	for i := range backends {
		x.addNode(i)
	}
	for i, count := range backends {
		x.addBackends(i, count)
	}
	x.clientRoutes()
	return x
}

// addNode adds node n<i+1> and the ways to what will be behind it.
func (x *L1) addNode(i int) {
	n := x.Host(fmt.Sprintf("n%d", i+1))
	n.Join(x.LAN, fmt.Sprintf("192.0.2.%d/24", 11+i), fmt.Sprintf("2001:db8::%d/64", 11+i))
	x.Behind = append(x.Behind, x.Network("behind-"+n.Name))
	n.Join(x.Behind[i], fmt.Sprintf("10.20.%d.1/24", i), fmt.Sprintf("2001:db8:20:%d::1/64", i))
	n.Join(x.Uplink, fmt.Sprintf("198.51.100.%d/24", 11+i), fmt.Sprintf("2001:db8:100::%d/64", 11+i))
	n.Forwarding()
	// The preferred source makes a node known by its address towards the client.
	n.IP(fmt.Sprintf("route add default via 198.51.100.1 src %s", n.Addr4()),
		fmt.Sprintf("route add default via 2001:db8:100::1 src %s", n.Addr6()))
	for j, other := range x.Nodes {
		via(other, i, n)
		via(n, j, other)
	}
	via(x.Router, i, n)
	x.Nodes = append(x.Nodes, n)
}

// via has from send what goes behind the i-th node to it.
func via(from *Host, i int, node *Host) {
	from.Route(fmt.Sprintf("10.20.%d.0/24", i), node.Addr4())
	from.Route(fmt.Sprintf("2001:db8:20:%d::/64", i), node.Addr6())
}

// addBackends adds the backends behind the i-th node.
func (x *L1) addBackends(i, count int) {
	for j := range count {
		b := x.Host(fmt.Sprintf("b%d", len(x.Backends)+1))
		last := 10*(i+1) + j + 1
		b.Join(x.Behind[i], fmt.Sprintf("10.20.%d.%d/24", i, last), fmt.Sprintf("2001:db8:20:%d::%d/64", i, last))
		b.Route("default", netip.MustParseAddr(fmt.Sprintf("10.20.%d.1", i)))
		b.Route("default", netip.MustParseAddr(fmt.Sprintf("2001:db8:20:%d::1", i)))
		x.Backends = append(x.Backends, b)
	}
}

func (x *L1) clientRoutes() {
	c, n1, r := x.Client, x.Nodes[0], x.Router
	c.Route(ServiceRange4, n1.Addr4())
	c.Route(ServiceRange6, n1.Addr6())
	c.Route("default", r.Addr4())
	c.Route("default", r.Addr6())
}
