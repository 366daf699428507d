package host

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dumpAttempts is how often a dump that the kernel changed under is repeated.
// Each takes well under a millisecond, so losing this often in a row takes a
// writer that never rests.
const dumpAttempts = 20

// Read reads the addresses and default routes of this network namespace.
//
// The dumps of addresses and routes are apart, so what is read while the
// network changes may never have been true. A Watcher reads again then.
func Read() (Addrs, error) {
	v4, v6 := Families()
	links := linkNames{}
	var a Addrs
	var err4, err6 error
	if v4 {
		a.V4, err4 = readStack(netlink.FAMILY_V4, links)
	}
	if v6 {
		a.V6, err6 = readStack(netlink.FAMILY_V6, links)
	}
	if err := errors.Join(err4, err6); err != nil {
		return Addrs{}, err
	}
	return a, nil
}

// Families tells which families the kernel has. IPv4 can't be left out of a
// kernel that has IP. IPv6 can: with ipv6.disable=1 on the kernel's command
// line there is no /proc/net/if_inet6. With the sysctl disable_ipv6=1 on all
// interfaces there is, but it lists no address, not even ::1; an interface
// that has been enabled again counts as IPv6.
func Families() (v4, v6 bool) {
	// thread-self: /proc/net is the process's first thread's.
	listed, err := os.ReadFile("/proc/thread-self/net/if_inet6")
	if err != nil {
		return true, false
	}
	disabled, err := Sysctl("net.ipv6.conf.all.disable_ipv6")
	return true, len(listed) > 0 || (err == nil && disabled != "1")
}

func readStack(family int, links linkNames) (Stack, error) {
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family) })
	if err != nil {
		return Stack{}, fmt.Errorf("list addresses: %w", err)
	}
	if family == netlink.FAMILY_V6 {
		// The kernel puts a new IPv6 address before those of the same scope
		// (ipv6_link_dev_addr), a new IPv4 one behind the older ones.
		slices.Reverse(addrs)
	}
	s := Stack{Enabled: true}
	if s.Addresses, err = usable(addrs, links); err != nil {
		return Stack{}, err
	}
	s.Defaults, err = defaultRoutes(family, s.Addresses, links)
	return s, err
}

// dump repeats a listing until the kernel says that nothing changed while it
// was made (NLM_F_DUMP_INTR).
func dump[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumpAttempts {
		out, err = list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			return out, err
		}
	}
	return nil, err
}

// usable keeps the addresses that belong in a Stack, and puts them in order.
func usable(addrs []netlink.Addr, links linkNames) ([]Address, error) {
	var out []Address
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || !receives(ip.Unmap(), a.Flags) {
			continue
		}
		link, err := links.find(a.LinkIndex)
		if err != nil {
			return nil, err
		}
		if link.name != "" {
			out = append(out, describe(a, ip.Unmap(), link))
		}
	}
	slices.SortStableFunc(out, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Traits, b.Traits), cmp.Compare(a.Index, b.Index))
	})
	return out, nil
}

// receives reports whether clients elsewhere can reach an address. An
// optimistic one (RFC 4429) is tentative too, but already in use. One that
// failed duplicate address detection stays tentative, and is optimistic no
// more (addrconf_dad_stop).
func receives(ip netip.Addr, flags int) bool {
	if ip.IsLoopback() || ip.Is6() && ip.IsLinkLocalUnicast() {
		return false
	}
	return flags&unix.IFA_F_TENTATIVE == 0 || flags&unix.IFA_F_OPTIMISTIC != 0
}

func describe(a netlink.Addr, ip netip.Addr, link linkName) Address {
	connected := prefix(a.IPNet)
	if a.Peer != nil {
		connected = prefix(a.Peer)
	}
	out := Address{Addr: ip, Index: a.LinkIndex, Link: link.name, Connected: connected, Traits: link.traits}
	set := func(t Traits, when bool) {
		if when {
			out.Traits |= t
		}
	}
	set(Secondary, ip.Is4() && a.Flags&unix.IFA_F_SECONDARY != 0)
	set(Temporary, ip.Is6() && a.Flags&unix.IFA_F_TEMPORARY != 0) // the same bit
	set(Deprecated, a.Flags&unix.IFA_F_DEPRECATED != 0)
	set(HostLength, connected.IsSingleIP() && connected.Addr() == ip)
	set(LinkScope, ip.IsLinkLocalUnicast() || a.Scope > unix.RT_SCOPE_SITE)
	return out
}

func prefix(n *net.IPNet) netip.Prefix {
	ip, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), bits).Masked()
}

// linkName is what an interface adds to its addresses; no name is an interface
// that has vanished since they were listed.
type linkName struct {
	name   string
	traits Traits
}

// linkNames remembers the interfaces asked for during one reading. Asking for
// the few that have addresses of their own is far cheaper than listing all on
// a host with a thousand containers' veths.
type linkNames map[int]linkName

func (l linkNames) find(index int) (linkName, error) {
	if known, ok := l[index]; ok {
		return known, nil
	}
	link, err := netlink.LinkByIndex(index)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone || errors.Is(err, unix.ENODEV) {
		return linkName{}, nil
	}
	if err != nil {
		return linkName{}, fmt.Errorf("look up interface %d: %w", index, err)
	}
	found := linkName{name: link.Attrs().Name}
	if link.Attrs().Flags&net.FlagLoopback != 0 {
		found.traits |= OnLoopback
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		found.traits |= LinkDown
	}
	l[index] = found
	return found, nil
}
