package host

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Link is an interface.
type Link struct {
	Name string
	Kind string // bridge, veth, ...: as `ip link add type` has it

	// Bridge is the bridge that it is a port of, and Hairpin whether that
	// sends a frame back out of the port it came in by.
	Bridge  string
	Hairpin bool
}

// readLinks lists the interfaces.
func readLinks() ([]Link, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	hairpin, err := bridgePorts()
	if err != nil {
		return nil, fmt.Errorf("list bridge ports: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	out := make([]Link, 0, len(links))
	for _, l := range links {
		link := Link{Name: l.Attrs().Name, Kind: l.Type()}
		if mode, ok := hairpin[l.Attrs().Index]; ok {
			link.Bridge, link.Hairpin = names[l.Attrs().MasterIndex], mode
		}
		out = append(out, link)
	}
	return out, nil
}

// bridgePorts gives the hairpin mode of each bridge port, by interface index.
// A dump for AF_BRIDGE lists ports alone; the library's LinkGetProtinfo makes
// one for each port.
func bridgePorts() (map[int]bool, error) {
	answers, err := dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_BRIDGE))
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
	if err != nil {
		return nil, err
	}
	ports := map[int]bool{}
	for _, a := range answers {
		if len(a) < unix.SizeofIfInfomsg {
			continue
		}
		info := nl.DeserializeIfInfomsg(a)
		port, ok := attribute(a[unix.SizeofIfInfomsg:], unix.IFLA_PROTINFO)
		mode, hasMode := attribute(port, nl.IFLA_BRPORT_MODE)
		if ok && hasMode {
			ports[int(info.Index)] = len(mode) == 1 && mode[0] != 0
		}
	}
	return ports, nil
}
