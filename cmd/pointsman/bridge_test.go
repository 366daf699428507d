package main

import (
	"net/netip"

	"pointsman/reconcile/lab"
)

// bridgePort is n1's end of the cable to k1.
const bridgePort = "eth3"

// bridged adds a container k1, 10.30.0.11, on a bridge of n1, as container
// runtimes make them.
func bridged(w *world) *lab.Host {
	n1, k1 := w.Nodes[0], w.Host("k1")
	n1.Wire(k1)
	n1.IP("link add br0 type bridge forward_delay 0", "link set br0 up", "link set "+bridgePort+" master br0")
	n1.AddAddrs("br0", "10.30.0.1/24")
	k1.AddAddrs("eth0", "10.30.0.11/24")
	k1.Route("default", netip.MustParseAddr("10.30.0.1"))
	k1.Serve(lab.TCP, 8080)
	w.Router.Route("10.30.0.0/24", n1.Addr4())
	w.Backends[0].Route("10.30.0.0/24", netip.MustParseAddr("10.20.0.1"))
	return k1
}
