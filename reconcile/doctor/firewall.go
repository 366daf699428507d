package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// firewall looks for base chains of others that packets of Services end in. An
// accept in our tables can't overrule a drop in another, so the rule must go
// there; what it needs is one rule for everything that has been translated,
// which covers both directions of a connection.
func (p *Patient) firewall() []Finding {
	var out []Finding
	for _, c := range p.Chains {
		if !isGuard(c) {
			continue
		}
		if why, _ := p.dropped(c); why != "" {
			out = append(out, p.drops(c, why)...)
		}
	}
	if tables := p.legacyFilters(); len(tables) > 0 {
		out = append(out, Finding{Level: Warning, What: "iptables-legacy has tables: " + strings.Join(tables, ", "),
			Means: "nft doesn't show them, nor can this command look into them. A policy or rule that drops on FORWARD cuts off remote backends.",
			Fix:   []string{"iptables-legacy -S", "iptables-legacy -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT"}})
	}
	if len(out) == 0 {
		return ok("no other table drops what Services need")
	}
	return out
}

// isGuard reports whether a chain decides about packets of Services.
func isGuard(c host.Chain) bool {
	ip := c.Family == "ip" || c.Family == "ip6" || c.Family == "inet"
	return ip && c.Type == "filter" && !c.Dormant && !isOurs(c)
}

func (p *Patient) legacyFilters() []string {
	return slices.DeleteFunc(slices.Clone(p.LegacyTables), func(t string) bool { return !strings.HasSuffix(t, " filter") })
}

// drops is the finding about a chain in which packets of Services end.
func (p *Patient) drops(c host.Chain, why string) []Finding {
	f := Finding{Level: p.familySeverity(c), What: fmt.Sprintf("%s %s %s (%s, priority %d) drops what no rule in it accepts: %s",
		c.Family, c.Table, c.Name, c.Hook, c.Priority, why)}
	switch c.Hook {
	case "forward":
		f.Means = "Services reach backends on this host itself, but not those elsewhere: connections to them hang. " +
			"Rules of its own may let some through; this one lets all pass that a Service has translated, and nothing else."
	case "input":
		f.Level = lighter(f.Level, p.inputLevel())
		f.Means = "Backends that are processes of this host are not reached through Services."
		if checks := p.healthCheckPorts(); len(checks) > 0 {
			f.Means += " The health check ports need a rule too, if outside balancers shall ask here."
		}
	case "output":
		f.Level = lighter(f.Level, Warning)
		f.Means = "Processes of this host don't reach Services."
	case "prerouting": // before they're translated, so there's no one rule for all of them
		f.Level, f.Fix = lighter(f.Level, Warning), list(c, c.Name)
		f.Means = "Connections from outside don't come as far as Services, unless rules of its own let them through."
		return one(f)
	default:
		return nil
	}
	f.Fix = p.cure(c)
	return one(f)
}

// list is the command that shows a chain of c's table.
func list(c host.Chain, name string) []string {
	return []string{fmt.Sprintf("nft list chain %s %s %s", c.Family, c.Table, name)}
}

// lighter is the lighter of two levels.
func lighter(a, b Level) Level {
	if a.weight() < b.weight() {
		return a
	}
	return b
}

// familySeverity is how bad it is that packets of a chain's family are
// dropped. A drop of what isn't used is still worth a note.
func (p *Patient) familySeverity(c host.Chain) Level {
	level := p.severity(c.Family == "ip6")
	if level == OK {
		return Note
	}
	return level
}

// inputLevel is how much is lost when input is closed to Services: a firewall
// that lets only ssh in is what hosts ought to have, as long as no backend
// and no health check is behind it.
func (p *Patient) inputLevel() Level {
	switch {
	case p.ownBackend():
		return Problem
	case !p.Manifests || len(p.healthCheckPorts()) > 0:
		return Warning
	}
	return Note
}

// ownBackend reports whether an endpoint is at an address of this host.
func (p *Patient) ownBackend() bool {
	for _, s := range p.Services {
		for i := range s.Ports {
			if slices.ContainsFunc(s.Ports[i].Endpoints, func(e state.Endpoint) bool { return p.Addrs.Has(e.Address.Addr()) }) {
				return true
			}
		}
	}
	return false
}

func (p *Patient) healthCheckPorts() []string {
	var out []string
	for _, s := range p.Services {
		if s.HealthCheckNodePort != 0 {
			out = append(out, strconv.Itoa(int(s.HealthCheckNodePort)))
		}
	}
	return out
}

// dropped says why packets of translated connections end in a base chain,
// empty if they don't. It's certain if there's no rule that may accept them by
// what isn't known here.
func (p *Patient) dropped(c host.Chain) (why string, certain bool) {
	w := walk{chains: p.Chains}
	switch verdict, in := w.chain(c, 0); {
	case verdict == "accept":
		return "", false
	case verdict != "":
		return fmt.Sprintf("a rule in %s %ss the rest", in, verdict), !w.perhaps
	case c.Drop:
		return "policy drop", !w.perhaps
	}
	return "", false
}

// dropsSome is the finding about a chain that lets packets of Services pass,
// unless they are those that a rule drops: which ones isn't understood here.
func (p *Patient) dropsSome(c host.Chain) []Finding {
	w := walk{chains: p.Chains}
	if w.chain(c, 0); w.some == "" {
		return nil
	}
	return one(Finding{Level: Note, What: fmt.Sprintf("%s %s %s (%s, priority %d) drops packets by conditions that aren't judged here",
		c.Family, c.Table, c.Name, c.Hook, c.Priority),
		Means: "Connections that meet one of them hang, or are refused.", Fix: list(c, w.some)})
}

// walk follows the first packet of a translated connection of which nothing else
// is known: conditions on anything else are taken not to be met.
type walk struct {
	chains  []host.Chain
	perhaps bool   // one of those, if it is met, lets the packet go elsewhere
	some    string // the chain of the first that drops it, if it is met
}

// deepest is how far the kernel follows jumps (NFT_JUMP_STACK_SIZE).
const deepest = 16

// chain gives the verdict that a chain has for the packet, empty if it comes
// out at the end, and the chain that holds the rule.
func (w *walk) chain(c host.Chain, depth int) (verdict, in string) {
	for _, r := range c.Rules {
		if r.Conditional && !r.DNAT {
			w.unmet(r, c.Name)
			continue
		}
		switch r.Verdict {
		case "accept", "drop", "reject":
			return r.Verdict, c.Name
		case "return":
			return "", ""
		case "jump", "goto":
			i := slices.IndexFunc(w.chains, func(o host.Chain) bool { return o.Is(c.Family, c.Table) && o.Name == r.Target })
			if i < 0 || depth == deepest {
				w.perhaps = true
				return "", ""
			}
			if verdict, in := w.chain(w.chains[i], depth+1); verdict != "" || r.Verdict == "goto" {
				return verdict, in
			}
		}
	}
	return "", ""
}

// unmet takes notice of a rule whose condition may be met all the same.
func (w *walk) unmet(r host.Rule, in string) {
	drops := r.Verdict == "drop" || r.Verdict == "reject"
	w.perhaps = w.perhaps || !r.Later && !drops
	if drops && !r.Later && w.some == "" {
		w.some = in
	}
}

// cure gives the commands that let Services through a chain, in the words of
// whoever owns it: a rule put in behind its owner's back is gone at the next
// reload.
func (p *Patient) cure(c host.Chain) []string {
	has := func(name string) bool {
		return slices.ContainsFunc(p.Chains, func(o host.Chain) bool { return o.Is(c.Family, c.Table) && o.Name == name })
	}
	iptables, ufw, file := "iptables", "ufw-before-", "/etc/ufw/before.rules"
	if c.Family == "ip6" {
		iptables, ufw, file = "ip6tables", "ufw6-before-", "/etc/ufw/before6.rules"
	}
	var ports []string
	if c.Hook == "input" {
		ports = p.healthCheckPorts()
	}
	switch {
	case c.Table == "firewalld":
		return []string{"# in /etc/firewalld/firewalld.conf:", "StrictForwardPorts=no", "# then:", "firewall-cmd --reload"}
	case has(ufw + c.Hook):
		fix := []string{"# in " + file + ", before COMMIT:",
			fmt.Sprintf("-A %s%s -m conntrack --ctstate DNAT -j ACCEPT", ufw, c.Hook), "# then:", "ufw reload"}
		return append(fix, each(ports, "ufw allow %s/tcp")...)
	case c.Hook == "forward" && has("DOCKER-USER"):
		return []string{iptables + " -I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT"}
	case c.Family != "inet" && c.Name == strings.ToUpper(c.Hook):
		fix := []string{fmt.Sprintf("%s -I %s -m conntrack --ctstate DNAT -j ACCEPT", iptables, c.Name)}
		return append(fix, each(ports, iptables+" -I INPUT -p tcp --dport %s -j ACCEPT")...)
	}
	at := fmt.Sprintf("nft insert rule %s %s %s ", c.Family, c.Table, c.Name)
	return append([]string{at + "ct status dnat accept"}, each(ports, at+"tcp dport %s accept")...)
}

func each(items []string, format string) []string {
	var out []string
	for _, item := range items {
		out = append(out, fmt.Sprintf(format, item))
	}
	return out
}
