package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pointsman/state"
)

// The sysctls that are looked at; %s is an interface.
const (
	ipForward       = "net.ipv4.ip_forward"
	ipv6Forwarding  = "net.ipv6.conf.all.forwarding"
	disableIPv6     = "net.ipv6.conf.all.disable_ipv6"
	linkForwarding4 = "net.ipv4.conf.%s.forwarding"
	linkForced6     = "net.ipv6.conf.%s.force_forwarding" // Linux 6.17
	rpFilter        = "net.ipv4.conf.%s.rp_filter"
	localnet        = "net.ipv4.conf.%s.route_localnet"
	portRange       = "net.ipv4.ip_local_port_range"
	reservedPorts   = "net.ipv4.ip_local_reserved_ports"
	conntrackCount  = "net.netfilter.nf_conntrack_count"
	conntrackMax    = "net.netfilter.nf_conntrack_max"
	tcpLiberal      = "net.netfilter.nf_conntrack_tcp_be_liberal"
	sctpTimeout     = "net.netfilter.nf_conntrack_sctp_timeout_established"
	bridgeIPv4      = "net.bridge.bridge-nf-call-iptables"
	bridgeIPv6      = "net.bridge.bridge-nf-call-ip6tables"
)

// set gives the command that sets a sysctl, and where it lasts.
func set(name, value string) []string {
	return []string{fmt.Sprintf("sysctl -w %s=%s", name, value), "# to keep it, in /etc/sysctl.d/90-pointsman.conf:", name + " = " + value}
}

// links4 and links6 are the interfaces with addresses, without lo.
func (p *Patient) links(v6 bool) []string {
	stack := p.Addrs.V4
	if v6 {
		stack = p.Addrs.V6
	}
	var out []string
	for _, a := range stack.Addresses {
		if a.Link != "lo" && !slices.Contains(out, a.Link) {
			out = append(out, a.Link)
		}
	}
	slices.Sort(out)
	return out
}

// of gives the value of an interface's sysctl; a dot in its name is a slash.
func (p *Patient) of(sysctl, link string) (name, value string) {
	name = fmt.Sprintf(sysctl, strings.ReplaceAll(link, ".", "/"))
	return name, p.Sysctls[name]
}

func (p *Patient) forwarding() []Finding {
	var out []Finding
	if level := p.severity(false); level != OK && p.Sysctls[ipForward] == "0" {
		out = append(out, Finding{Level: level, What: "IPv4 forwarding is off (" + ipForward + ")",
			Means: "Clients elsewhere reach only backends on this host itself; connections to all others hang.",
			Fix:   set(ipForward, "1")})
	}
	if level := p.severity(true); level != OK && !p.Addrs.V6.Enabled {
		out = append(out, Finding{Level: Warning, What: "IPv6 is off (" + disableIPv6 + ")",
			Means: "IPv6 addresses of Services aren't served here. The agent finds IPv6 when it starts.", Fix: set(disableIPv6, "0")})
	} else if level != OK && p.Sysctls[ipv6Forwarding] == "0" {
		fix := set(ipv6Forwarding, "1")
		for _, r := range p.Addrs.V6.Defaults {
			// A router takes no routes from others unless told to.
			fix = append(fix, "# if its default route comes from router advertisements, before that:",
				fmt.Sprintf("sysctl -w net.ipv6.conf.%s.accept_ra=2", strings.ReplaceAll(r.Link, ".", "/")))
			break
		}
		out = append(out, Finding{Level: level, What: "IPv6 forwarding is off (" + ipv6Forwarding + ")",
			Means: "If Services have IPv6 addresses, clients elsewhere reach only backends on this host itself.", Fix: fix})
	}
	if len(out) == 0 {
		out = p.deafLinks()
	}
	if len(out) == 0 {
		return ok("packets are forwarded")
	}
	return out
}

// deafLinks finds interfaces that forwarding is switched off for by name. (Of
// IPv6 the kernel asks for "all" alone: an interface's own setting says whether it
// is a router's there, and keeps nothing from being forwarded.)
func (p *Patient) deafLinks() []Finding {
	var out []Finding
	for _, link := range p.links(false) {
		if p.deaf(link, false) && p.severity(false) != OK {
			out = append(out, p.deafLink(link))
		}
	}
	return out
}

// deaf reports whether the kernel forwards nothing of a family that comes in by
// an interface.
func (p *Patient) deaf(link string, v6 bool) bool {
	if v6 {
		_, forced := p.of(linkForced6, link)
		return p.Sysctls[ipv6Forwarding] == "0" && forced != "1"
	}
	_, value := p.of(linkForwarding4, link)
	return value == "0"
}

func (p *Patient) deafLink(link string) Finding {
	name, _ := p.of(linkForwarding4, link)
	return Finding{Level: Warning, What: fmt.Sprintf("%s forwards nothing that comes in by it (%s)", link, name),
		Means: "Clients behind it reach only backends on this host itself.", Fix: set(name, "1")}
}

// reversePath looks for strict reverse path filters.
func (p *Patient) reversePath() []Finding {
	strict, fix := p.strictLinks()
	if len(strict) == 0 {
		return ok("no strict reverse path filter")
	}
	level := Note // with one interface nothing can come in by the wrong one
	if len(p.links(false)) > 1 {
		level = Warning
	}
	return one(Finding{Level: level, What: "the reverse path filter is strict on " + some(strict),
		Means: "A packet is dropped if its sender's route leads out of another interface than it came in by: clients that reach a virtual address over " +
			"a second uplink, and backends that answer over one.", Fix: fix})
}

// strictLinks gives the interfaces whose reverse path filter is strict, but for
// some, and how to loosen it. The kernel takes the greater of an interface's
// setting and that of all; 2 is loose.
func (p *Patient) strictLinks(but ...string) (strict, fix []string) {
	_, all := p.of(rpFilter, "all")
	for _, link := range p.links(false) {
		name, own := p.of(rpFilter, link)
		if max(own, all) == "1" && !slices.Contains(but, link) {
			strict = append(strict, link)
			fix = append(fix, set(name, "2")...)
		}
	}
	return strict, fix
}

func (p *Patient) routeLocalnet() []Finding {
	for _, link := range append([]string{"all"}, p.links(false)...) {
		if name, value := p.of(localnet, link); value == "1" {
			return one(Finding{Level: Warning, What: "127.0.0.0/8 is reachable from outside (" + name + ")",
				Means: "Neighbours can send to services that listen on 127.0.0.1 alone (CVE-2020-8558). kube-proxy's iptables mode turns this on; pointsman needs it not.",
				Fix:   set(name, "0")})
		}
	}
	return ok("127.0.0.0/8 stays inside (route_localnet)")
}

func (p *Patient) loopbackNodePorts() []Finding {
	addrs, _ := p.nodePortAddresses()
	return one(Finding{Level: Note, What: fmt.Sprintf("NodePorts answer on %s, not on 127.0.0.1 and ::1", some(addrs)),
		Means: "A connection to localhost is refused at once. To allow it the kernel would have to let 127.0.0.0/8 out of lo (route_localnet)."})
}

func (p *Patient) conntrackSize() []Finding {
	count, errCount := strconv.Atoi(p.Sysctls[conntrackCount])
	limit, errLimit := strconv.Atoi(p.Sysctls[conntrackMax])
	if errCount != nil || errLimit != nil || limit <= 0 { // 0 is no limit
		return ok("conntrack has no limit, or isn't loaded yet")
	}
	percent := count * 100 / limit
	what := fmt.Sprintf("conntrack holds %d connections of at most %d (%d %%)", count, limit, percent)
	if percent < 80 {
		return ok("%s", what)
	}
	f := Finding{Level: Warning, What: what, Means: "When it's full, new connections are dropped, whatever they are for.",
		Fix: set(conntrackMax, strconv.Itoa(2*limit))}
	if percent >= 95 {
		f.Level = Problem
	}
	return one(f)
}

// conntrackWindow explains the mode that the host is in. Neither is wrong, and
// pointsman adds no rule that drops invalid packets and changes no sysctl, as
// kube-proxy's nftables mode.
func (p *Patient) conntrackWindow() []Finding {
	switch p.Sysctls[tcpLiberal] {
	case "0":
		return one(Finding{Level: Note, What: "conntrack checks TCP windows (" + tcpLiberal + " = 0)",
			Means: "A segment that it takes to be outside the window is not translated back: the client sees the backend's own address and resets the " +
				"connection. That happens where packets are lost, doubled or take several ways. With 1 such segments are translated.",
			Fix: []string{"# only if long transfers are reset now and then:", "sysctl -w " + tcpLiberal + "=1"}})
	case "":
		return ok("conntrack isn't loaded yet")
	}
	return one(Finding{Level: Note, What: "conntrack is liberal about TCP windows (" + tcpLiberal + " = 1)",
		Means: "Segments outside the window are translated like all others; resets that are out of the window pass, too."})
}

func (p *Patient) sctp() []Finding {
	_, loaded := p.Sysctls[conntrackMax]
	_, known := p.Sysctls[sctpTimeout]
	if !loaded || known {
		return ok("conntrack knows SCTP, or is not loaded yet")
	}
	f := Finding{Level: Note, What: "conntrack doesn't know SCTP",
		Means: "Services with protocol SCTP don't work here: the kernel was built without CONFIG_NF_CT_PROTO_SCTP."}
	for _, s := range p.Services {
		if slices.ContainsFunc(s.Ports, func(port state.Port) bool { return port.Protocol == state.SCTP }) {
			f.Level, f.What = Problem, f.What+", which "+s.String()+" needs"
			break
		}
	}
	return one(f)
}
