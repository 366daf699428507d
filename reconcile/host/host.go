// Package host reads what this host's kernel has to say about itself: its
// addresses and default routes, the notifications of nf_tables, sysctls. It
// is the only importer of vishvananda/netlink, and it never writes: every
// request in it is a GET, every socket a subscription.
//
// Three things leave it. Addrs is a plain value, followed by a Watcher.
// Journal tells which nf_tables transactions touched our tables, and Judge
// which of those were not ours. Sysctl reads a sysctl.
package host
