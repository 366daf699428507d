// Package doctor judges a host: what about its kernel, its settings and its
// neighbours in the ruleset will hurt Services. It is pure: package host reads
// the facts, and every finding says what it means and how to cure it. It asks
// for cures, and applies none: the settings of a host are its owner's.
package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// Level says how bad a finding is.
type Level string

// The levels, the lightest first.
const (
	OK      Level = "ok"
	Note    Level = "note"    // good to know
	Warning Level = "warning" // hurts under circumstances that the finding names
	Problem Level = "problem" // hurts
)

// Finding is one thing about a host.
type Finding struct {
	Level Level    `json:"level"`
	Check string   `json:"check"`
	What  string   `json:"what"`
	Means string   `json:"means,omitempty"`
	Fix   []string `json:"fix,omitempty"` // commands, or lines for a file that a comment names
}

// Patient is everything that a host is judged by.
type Patient struct {
	host.Facts

	NodeName                                string
	NodePortFirst, NodePortLast             uint16
	ServiceCIDRs, LocalCIDRs, NodePortCIDRs []netip.Prefix

	// Manifests says that Services, InternalIPs and NodeNames are what a
	// directory holds. Without one, all that could be in one is thought of.
	Manifests   bool
	Services    []*state.Service
	InternalIPs []netip.Addr // of this node's Node manifest
	NodeNames   []string     // of all Node manifests

	Nft       string // its version
	Preflight error  // why the kernel and nft would not do
	Agent     Agent
}

// Agent is what is known of the agent on this host.
type Agent struct {
	PID      int    // 0 while it doesn't run
	Healthz  string // its URL; empty where it's turned off
	Code     int    // of the answer
	Error    string // why there was none
	Degraded []string

	// Elsewhere: one runs, but with another state directory than was looked at.
	Elsewhere bool
}

// checks are all checks, in the order of their findings. One that finds
// nothing says why in its own OK, unless something of what it reads, as
// Facts.Unread calls it, could not be read.
var checks = []struct {
	name  string
	check func(*Patient) []Finding
	reads []string
}{
	{"kernel", (*Patient).kernel, nil},
	{"node", (*Patient).node, []string{"addresses"}},
	{"agent", (*Patient).agent, []string{"nf_tables"}},
	{"inotify", (*Patient).inotify, nil},
	{"forwarding", (*Patient).forwarding, []string{"sysctl"}},
	{"firewall", (*Patient).firewall, []string{"nf_tables", "iptables-legacy"}},
	{"routes", (*Patient).routes, nil},
	{"rp-filter", (*Patient).reversePath, []string{"sysctl"}},
	{"route-localnet", (*Patient).routeLocalnet, []string{"sysctl"}},
	{"loopback-nodeports", (*Patient).loopbackNodePorts, nil},
	{"ephemeral-ports", (*Patient).ephemeralPorts, []string{"sysctl"}},
	{"bridges", (*Patient).bridges, []string{"interfaces", "sysctl"}},
	{"conntrack-size", (*Patient).conntrackSize, []string{"sysctl"}},
	{"conntrack-window", (*Patient).conntrackWindow, []string{"sysctl"}},
	{"sctp", (*Patient).sctp, []string{"sysctl"}},
	{"other-proxies", (*Patient).otherProxies, []string{"nf_tables", "IPVS", "iptables-legacy", "interfaces"}},
	{"doctor", (*Patient).unread, nil},
}

// Examine gives what there is to say of a host, at least one finding for every
// check.
func Examine(p *Patient) []Finding {
	var all []Finding
	for _, c := range checks {
		for _, f := range c.check(p) {
			if missing := p.missing(c.reads); missing != "" && f.Level == OK {
				f = Finding{Level: Note, What: "not judged, for want of " + missing}
			}
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// missing names the first of some facts that could not be read, "" if all could.
func (p *Patient) missing(reads []string) string {
	for _, what := range reads {
		if slices.ContainsFunc(p.Unread, func(u string) bool { return strings.HasPrefix(u, what+":") }) {
			return what
		}
	}
	return ""
}

// Questions are what the facts must hold for Examine.
func Questions(cidrs []netip.Prefix, services []*state.Service, watch string) host.Questions {
	return host.Questions{
		Sysctls: []string{
			ipForward, ipv6Forwarding, portRange, reservedPorts, bridgeIPv4, bridgeIPv6,
			conntrackCount, conntrackMax, tcpLiberal, sctpTimeout,
		},
		PerLink:      []string{rpFilter, localnet, linkForwarding4, linkForced6},
		Destinations: destinations(cidrs, services), Watch: watch,
	}
}

// Worst is the gravest level of some findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level.weight() > worst.weight() {
			worst = f.Level
		}
	}
	return worst
}

func (l Level) weight() int { return slices.Index([]Level{OK, Note, Warning, Problem}, l) }

// one is a check's result that is a single finding.
func one(f Finding) []Finding { return []Finding{f} }

func ok(format string, args ...any) []Finding {
	return one(Finding{Level: OK, What: fmt.Sprintf(format, args...)})
}

// serves reports whether a manifest needs a family.
func (p *Patient) serves(v6 bool) bool {
	is := func(a netip.Addr) bool { return a.IsValid() && a.Is6() == v6 }
	for _, s := range p.Services {
		for i := range s.Ports {
			if slices.ContainsFunc(s.Ports[i].Frontends, func(f state.Frontend) bool { return is(f.Address) }) ||
				slices.ContainsFunc(s.Ports[i].Endpoints, func(e state.Endpoint) bool { return is(e.Address.Addr()) }) {
				return true
			}
		}
	}
	return false
}

// severity is how bad it is that a family doesn't work: a problem if it's
// needed, fine if not. Where no manifests tell, IPv4 is thought to be needed,
// and IPv6 to be needed perhaps.
func (p *Patient) severity(v6 bool) Level {
	stack := p.Addrs.V4
	if v6 {
		stack = p.Addrs.V6
	}
	switch {
	case p.Manifests && p.serves(v6):
		return Problem
	case p.Manifests || len(stack.Addresses) == 0:
		return OK
	case v6:
		return Warning
	}
	return Problem
}

// nodePortAddresses are where NodePorts answer, of both families, and why.
func (p *Patient) nodePortAddresses() (addrs []netip.Addr, why string) {
	var reasons []string
	for _, s := range []host.Stack{p.Addrs.V4, p.Addrs.V6} {
		found, reason := host.NodePortAddresses(s, p.InternalIPs, p.NodePortCIDRs)
		if len(found) > 0 {
			addrs = append(addrs, found...)
			reasons = append(reasons, reason)
		}
	}
	return addrs, strings.Join(reasons, "; ")
}

// some lists a few of many.
func some[T any](items []T) string {
	const most = 5
	var out []string
	for _, item := range items[:min(most, len(items))] {
		out = append(out, fmt.Sprint(item))
	}
	if n := len(items) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}
