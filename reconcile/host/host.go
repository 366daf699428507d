// Package host reads what this host's kernel has to say about itself: its
// addresses and default routes, the notifications of nf_tables, the flows that
// are tracked, sysctls. It is the only importer of vishvananda/netlink. Nothing
// in it writes but ForgetFlows, which removes what its caller picks.
//
// Five things leave it. Addrs is a plain value, followed by a Watcher. Journal
// tells which nf_tables transactions touched our tables, and Judge which of
// those were not ours. ForgetFlows shows the UDP flows, EachConnectionOf those of
// all protocols. Facts are what a host can be judged by, sysctls among them.
package host
