package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// bridges looks for bridges that carry backends and their clients. What passes
// from port to port is seen by our rules only with bridge-nf-call-iptables; and
// with it, what comes back out of the port it came in by needs hairpin mode.
func (p *Patient) bridges() []Finding {
	var out []Finding
	for _, l := range p.Links {
		if ports := p.ports(l.Name); l.Kind == "bridge" && len(ports) > 0 {
			out = append(out, p.bridge(l.Name, ports)...)
		}
	}
	if len(out) == 0 {
		return ok("no bridge is in the way")
	}
	return out
}

func (p *Patient) ports(bridge string) []host.Link {
	return slices.DeleteFunc(slices.Clone(p.Links), func(l host.Link) bool { return l.Bridge != bridge })
}

func (p *Patient) bridge(name string, ports []host.Link) []Finding {
	blind, off := p.blind(), unhairpinned(ports)
	var out []Finding
	if len(blind) > 0 && len(ports) > 1 {
		out = append(out, p.blindBridge(name, blind))
	}
	if len(blind) < 2 && len(off) > 0 {
		out = append(out, p.hairpinOff(name, off))
	}
	return out
}

// blind gives the sysctls for want of which netfilter doesn't see what is bridged.
func (p *Patient) blind() []string {
	var out []string
	for _, sysctl := range []string{bridgeIPv4, bridgeIPv6} {
		if p.Sysctls[sysctl] != "1" && (sysctl == bridgeIPv4 || p.severity(true) != OK) {
			out = append(out, sysctl)
		}
	}
	return out
}

func unhairpinned(ports []host.Link) []string {
	var out []string
	for _, port := range ports {
		if !port.Hairpin {
			out = append(out, port.Name)
		}
	}
	return out
}

// blindBridge: a reply is bridged straight to the client, which doesn't know
// its sender (moby/moby#48492). Connections that are masqueraded come back
// through the host, and work.
func (p *Patient) blindBridge(name string, sysctls []string) Finding {
	f := Finding{Level: Note, What: fmt.Sprintf("netfilter doesn't see what %s bridges (%s)", name, some(sysctls)),
		Means: "A client and a backend on ports of this bridge: the reply does not pass the rules and is not translated back, so the connection hangs. " +
			"It works where connections are masqueraded: all but those under externalTrafficPolicy Local and those from --local-cidr.",
		Fix: []string{"modprobe br_netfilter"}}
	for _, s := range sysctls {
		f.Fix = append(f.Fix, set(s, "1")...)
	}
	if len(p.LocalCIDRs) > 0 || slices.ContainsFunc(p.Services, isLocal) {
		f.Level = Warning
	}
	return f
}

func isLocal(s *state.Service) bool {
	return s.ExternalTrafficPolicy == state.Local && slices.ContainsFunc(s.Ports, func(port state.Port) bool {
		return slices.ContainsFunc(port.Frontends, func(f state.Frontend) bool { return f.Kind.External() })
	})
}

// hairpinOff: a backend that calls its own Service gets its packet back by the
// port that it came from, which the bridge doesn't do unless told to.
func (p *Patient) hairpinOff(name string, ports []string) Finding {
	f := Finding{Level: Note, What: fmt.Sprintf("hairpin_mode is off on ports of %s: %s", name, some(ports)),
		Means: "A backend behind such a port that calls its own Service and is picked itself doesn't get the connection: it hangs. " +
			"Turn it on for ports that lead to one container or machine, never for one that leads to a switch."}
	for _, port := range ports {
		f.Fix = append(f.Fix, fmt.Sprintf("bridge link set dev %s hairpin on", port))
	}
	if p.backendsOn(name) {
		f.Level = Warning
	}
	return f
}

// backendsOn reports whether an endpoint is in a network of the bridge, and not
// the host's own address there.
func (p *Patient) backendsOn(bridge string) bool {
	var nets []netip.Prefix
	for _, a := range slices.Concat(p.Addrs.V4.Addresses, p.Addrs.V6.Addresses) {
		if a.Link == bridge {
			nets = append(nets, a.Connected)
		}
	}
	for _, s := range p.Services {
		for i := range s.Ports {
			for _, e := range s.Ports[i].Endpoints {
				a := e.Address.Addr()
				if !p.Addrs.Has(a) && slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) }) {
					return true
				}
			}
		}
	}
	return false
}
