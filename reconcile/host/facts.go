package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Facts are what a host can be judged by: a plain value.
type Facts struct {
	Kernel string // its release
	Addrs  Addrs
	Links  []Link
	Chains []Chain

	// Sysctls are those of the kernel that were asked for and exist, under the
	// name that sysctl(8) takes.
	Sysctls map[string]string

	// Unreachable are the destinations asked for that there is no route to,
	// and what the kernel says.
	Unreachable map[netip.Addr]string

	// VirtualServers are IPVS's.
	VirtualServers []VirtualServer

	// LegacyTables are those of the iptables that isn't nf_tables'
	// ("ip filter"); nothing in Chains shows them.
	LegacyTables []string

	// Inotify is why the directory can't be watched, empty if it can.
	Inotify string

	// Unread are the errors of what could not be read, each after what it is:
	// addresses, interfaces, nf_tables, IPVS, iptables-legacy, sysctl.
	Unread []string
}

// Questions are what Facts depend on beyond the kernel.
type Questions struct {
	Sysctls []string

	// PerLink are sysctls of each interface with an address, and of "all",
	// with %s for its name: net.ipv4.conf.%s.rp_filter.
	PerLink []string

	Destinations []netip.Addr
	Watch        string // a directory
}

// ReadFacts reads the facts of this network namespace. What can't be read is
// told in Unread: that doesn't make the rest less true.
func ReadFacts(q Questions) Facts {
	f := Facts{Kernel: release(), Sysctls: map[string]string{}, Unreachable: map[netip.Addr]string{}}
	var err error
	f.Addrs, err = Read()
	f.check("addresses", err)
	f.Links, err = readLinks()
	f.check("interfaces", err)
	f.Chains, err = readChains()
	f.check("nf_tables", err)
	f.VirtualServers, err = readVirtualServers()
	f.check("IPVS", err)
	f.readSysctls(q.Sysctls, q.PerLink, f.Addrs.links())
	for _, d := range q.Destinations {
		if _, err := netlink.RouteGet(d.AsSlice()); err != nil {
			f.Unreachable[d] = err.Error()
		}
	}
	for _, family := range []string{"ip", "ip6"} {
		names, err := os.ReadFile("/proc/thread-self/net/" + family + "_tables_names")
		if !errors.Is(err, fs.ErrNotExist) {
			f.check("iptables-legacy", err)
		}
		for name := range strings.FieldsSeq(string(names)) {
			f.LegacyTables = append(f.LegacyTables, family+" "+name)
		}
	}
	if err := tryWatch(q.Watch); err != nil {
		f.Inotify = err.Error()
	}
	return f
}

func (f *Facts) check(what string, err error) {
	if err != nil {
		f.Unread = append(f.Unread, what+": "+err.Error())
	}
}

// readSysctls reads some, and others of each of some links.
func (f *Facts) readSysctls(names, perLink, links []string) {
	for _, name := range names {
		f.readSysctl(name)
	}
	for _, link := range unique(links) {
		for _, name := range perLink {
			f.readSysctl(linkSysctl(name, link))
		}
	}
}

// links are what PerLink means.
func (a Addrs) links() []string {
	links := []string{"all"}
	for _, s := range []Stack{a.V4, a.V6} {
		for _, at := range s.Addresses {
			links = append(links, at.Link)
		}
	}
	return links
}

func (f *Facts) readSysctl(name string) {
	value, err := Sysctl(name)
	if err == nil {
		f.Sysctls[name] = strings.Join(strings.Fields(value), " ")
	} else if !errors.Is(err, fs.ErrNotExist) {
		f.check("sysctl", err)
	}
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// tryWatch finds out whether a directory can be watched, by doing it. (The
// limits are per user, and what of them is used up can't be read.)
func tryWatch(dir string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify_init: %w", err)
	}
	defer unix.Close(fd)
	if dir == "" {
		return nil
	}
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("inotify_add_watch %s: %w", dir, err)
	}
	return nil // a missing directory is others' business
}
