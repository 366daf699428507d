package lab

import (
	"fmt"
	"net/netip"
)

// Network is an Ethernet that hosts join.
type Network struct {
	Name string
	lab  *Lab
}

// Network makes a network without hosts: a bridge on the lab's switch.
func (l *Lab) Network(name string) *Network {
	// Without a querier, snooping may hold back neighbour solicitations.
	l.bridge.IP("link add "+name+" type bridge forward_delay 0 mcast_snooping 0", "link set "+name+" up")
	return &Network{Name: name, lab: l}
}

// Join plugs the host into a network: its next interface (eth0, eth1, ...) gets
// the addresses, which are written with their prefix length.
func (h *Host) Join(n *Network, addrs ...string) {
	l := h.lab
	l.ports++
	nic, port := h.NextNIC(), fmt.Sprintf("port%d", l.ports)
	h.IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", nic, port, l.bridge.Namespace))
	l.bridge.IP("link set "+port+" master "+n.Name, "link set "+port+" up")
	h.IP("link set " + nic + " up")
	h.AddAddrs(nic, addrs...)
}

// Wire joins two hosts by a cable of their own, with no bridge between. The
// interfaces are the hosts' next ones, without addresses.
func (h *Host) Wire(other *Host) (nic, otherNIC string) {
	nic, otherNIC = h.NextNIC(), other.NextNIC()
	h.IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", nic, otherNIC, other.Namespace),
		"link set "+nic+" up")
	other.IP("link set " + otherNIC + " up")
	return nic, otherNIC
}

// NextNIC names the host's next interface: eth0, eth1, ...
func (h *Host) NextNIC() string {
	h.nics++
	return fmt.Sprintf("eth%d", h.nics-1)
}

// AddAddrs gives one of the host's interfaces more addresses, which are
// written with their prefix length.
func (h *Host) AddAddrs(nic string, addrs ...string) {
	for _, text := range addrs {
		p, err := netip.ParsePrefix(text)
		h.lab.check(err)
		h.addrs = append(h.addrs, p)
		nodad := ""
		if p.Addr().Is6() {
			nodad = " nodad"
		}
		h.IP("addr add " + p.String() + " dev " + nic + nodad)
	}
}
