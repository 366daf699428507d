package host

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Hop is where this host sends what is for an address, as the kernel's own
// lookup has it: rules of policy routing count, but for those that look at marks.
type Hop struct {
	To netip.Addr

	// Refusal is empty where there's a way. Forwarded is the same for what a
	// client From sends, which rules may route by its address and interface; if
	// there's a way for that, it's the one that the rest is of.
	Refusal, Forwarded Refusal

	Local   bool // an address of this host
	Link    Link // by which it leaves; of a bridge's ports nothing is known
	Carrier bool // of the link

	// Gateway is not valid where the address is a neighbour on the link. Source
	// is what this host's own processes send from.
	Gateway, Source netip.Addr

	Neighbour Neighbour

	// Selected: policy routing has rules for what isn't asked about here, as marks,
	// ports and users. A packet that has them may find another way.
	Selected bool
}

// Refusal is why the kernel has no way to an address.
type Refusal string

// The refusals. Others are in the kernel's words.
const (
	NoRoute     Refusal = "no route"
	Unreachable Refusal = "an unreachable route"
	Blackhole   Refusal = "a blackhole route"
	Prohibited  Refusal = "a prohibit route"
	Filtered    Refusal = "the reverse path filter, or a rule for its address"
)

// Neighbour is what is known of the next hop's link-layer address, where that
// can't be found out. Empty is anything else, not known among it.
type Neighbour string

// The states of neighbours that have not answered.
const (
	Failed     Neighbour = "failed"
	Incomplete Neighbour = "incomplete" // it's being asked for
)

// WayQuestions are what ReadWay reads.
type WayQuestions struct {
	Addrs   Addrs // of this host
	Sysctls []string
	PerLink []string // of all, of the links with addresses, and of those of hops; see Questions
	To      []netip.Addr

	// From is a client elsewhere, or not valid. There's a Hop for it, too.
	From netip.Addr
}

// ReadWay reads what new connections to some addresses meet beyond our rules:
// Facts without what takes long to list (interfaces but bridges', all routes),
// and the Hops of the addresses, the client's last. It sends no packet.
func ReadWay(q WayQuestions) (Facts, []Hop) {
	f := Facts{Addrs: q.Addrs, Sysctls: map[string]string{}}
	r := hopReader{links: map[int]Hop{}, selects: map[int]bool{}}
	var hops []Hop
	for _, to := range q.To {
		hops = append(hops, r.hop(to))
	}
	if q.From.IsValid() {
		back := r.hop(q.From)
		forwarding, _ := Sysctl(linkSysctl(forwardingOf(q.From), back.Link.Name))
		for i := range hops {
			if hops[i].Forwarded = hops[i].Refusal; back.Link.Name != "" {
				hops[i].Forwarded = r.forwarded(&hops[i], &back, forwarding == "0")
			}
		}
		hops = append(hops, back)
	}
	f.readAround(&q, hops)
	return f, hops
}

// readAround reads the rest of the facts.
func (f *Facts) readAround(q *WayQuestions, hops []Hop) {
	var err error
	f.Chains, err = readChains()
	f.check("nf_tables", err)
	f.VirtualServers, err = readVirtualServers()
	f.check("IPVS", err)
	links, bridged := q.Addrs.links(), false
	for _, h := range hops {
		if h.Link.Name != "" {
			links, bridged = append(links, h.Link.Name), bridged || h.Link.Kind == "bridge"
		}
	}
	if bridged {
		f.Links, err = readLinks()
		f.check("interfaces", err)
	}
	f.readSysctls(q.Sysctls, q.PerLink, links)
}

// forwardingOf is the sysctl that has a link's packets of a family forwarded.
func forwardingOf(a netip.Addr) string {
	if a.Is6() {
		return "net.ipv6.conf.%s.forwarding"
	}
	return "net.ipv4.conf.%s.forwarding"
}

// linkSysctl names a link's sysctl. As sysctl(8) has it, a dot of an
// interface's name is a slash.
func linkSysctl(name, link string) string {
	return fmt.Sprintf(name, strings.ReplaceAll(link, ".", "/"))
}

// hopReader remembers links, and whether a family has rules that select by what
// isn't asked about.
type hopReader struct {
	links   map[int]Hop
	selects map[int]bool
}

// selected looks at a family's rules. If they can't be read, none is known of.
func (r *hopReader) selected(family int) bool {
	if _, known := r.selects[family]; !known {
		rules, _ := netlink.RuleList(family)
		r.selects[family] = slices.ContainsFunc(rules, func(rule netlink.Rule) bool {
			return !rule.Invert && (rule.Mark != 0 || rule.Tos != 0 || rule.TunID != 0 || rule.IPProto != 0 || rule.Sport != nil || rule.Dport != nil || rule.UIDRange != nil)
		})
	}
	return r.selects[family]
}

// hop asks for the way of what this host sends itself.
func (r *hopReader) hop(to netip.Addr) Hop {
	h := Hop{To: to, Selected: r.selected(netlink.FAMILY_V4)}
	if to.Is6() {
		h.Selected = r.selected(netlink.FAMILY_V6)
	}
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		h.Refusal = refusal(err)
		return h
	}
	source, _ := netip.AddrFromSlice(routes[0].Src)
	h.Source = source.Unmap()
	r.by(&h, &routes[0])
	return h
}

// by takes a route.
func (r *hopReader) by(h *Hop, route *netlink.Route) {
	r.link(h, route.LinkIndex)
	h.Gateway, h.Local, h.Neighbour = gateway(route.Gw, route.Via), route.Type == unix.RTN_LOCAL, ""
	if h.Local {
		return
	}
	next := h.To
	if h.Gateway.IsValid() {
		next = h.Gateway
	}
	h.Neighbour = neighbour(next, route.LinkIndex)
}

// forwarded asks for the way of what a client sends, if it comes in where
// answers to it go out. For IPv4 the kernel says the same where forwarding is off
// as of an unreachable route, and of a packet that the reverse path filter drops
// the same as of a blackhole: what it sends itself tells them apart.
func (r *hopReader) forwarded(h, back *Hop, off bool) Refusal {
	routes, err := netlink.RouteGetWithOptions(h.To.AsSlice(), &netlink.RouteGetOptions{Iif: back.Link.Name, SrcAddr: back.To.AsSlice()})
	switch {
	case err == nil && len(routes) > 0:
		r.by(h, &routes[0])
		h.Refusal = ""
		return ""
	case h.Local, off && errors.Is(err, unix.EHOSTUNREACH):
		return h.Refusal
	case h.Refusal == "" && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EXDEV)):
		return Filtered
	}
	return refusal(err)
}

// link adds what is known of a link.
func (r *hopReader) link(h *Hop, index int) {
	if _, known := r.links[index]; !known {
		if l, err := netlink.LinkByIndex(index); err == nil {
			r.links[index] = Hop{Link: Link{Name: l.Attrs().Name, Kind: l.Type()}, Carrier: l.Attrs().RawFlags&unix.IFF_LOWER_UP != 0}
		}
	}
	h.Link, h.Carrier = r.links[index].Link, r.links[index].Carrier
}

// refusal reads the kernel's error (fib_props and ip6_rt_type_to_error).
func refusal(err error) Refusal {
	switch {
	case err == nil, errors.Is(err, unix.ENETUNREACH):
		return NoRoute
	case errors.Is(err, unix.EHOSTUNREACH):
		return Unreachable
	case errors.Is(err, unix.EINVAL):
		return Blackhole
	case errors.Is(err, unix.EACCES):
		return Prohibited
	}
	return Refusal(err.Error())
}

// neighbour looks up one entry (Linux 5.0; older kernels tell only all of them).
func neighbour(a netip.Addr, link int) Neighbour {
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	family := uint8(unix.AF_INET)
	if a.Is6() {
		family = unix.AF_INET6
	}
	req.AddData(&netlink.Ndmsg{Family: family, Index: uint32(link)})
	req.AddData(nl.NewRtAttr(unix.NDA_DST, a.AsSlice()))
	answers, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil || len(answers) == 0 {
		return ""
	}
	n, err := netlink.NeighDeserialize(answers[0])
	switch {
	case err != nil:
		return ""
	case n.State&unix.NUD_FAILED != 0:
		return Failed
	case n.State&unix.NUD_INCOMPLETE != 0:
		return Incomplete
	}
	return ""
}
