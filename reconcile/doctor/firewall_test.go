package doctor

import (
	"strings"
	"testing"

	"pointsman/reconcile/host"
	"pointsman/state"
)

var (
	accept       = host.Rule{Verdict: "accept"}
	dropAll      = host.Rule{Verdict: "drop"}
	rejectAll    = host.Rule{Verdict: "reject"}
	acceptSome   = host.Rule{Conditional: true, Verdict: "accept"}
	dropSome     = host.Rule{Conditional: true, Verdict: "drop"}
	acceptDNAT   = host.Rule{Conditional: true, DNAT: true, Verdict: "accept"}
	dropDNAT     = host.Rule{Conditional: true, DNAT: true, Verdict: "drop"}
	returnAll    = host.Rule{Verdict: "return"}
	count        = host.Rule{}
	forwardDrop  = forward(true)
	inputDropped = host.Chain{Family: "inet", Table: "filter", Name: "input", Type: "filter", Hook: "input", Drop: true}
)

func jump(target string) host.Rule    { return host.Rule{Verdict: "jump", Target: target} }
func toChain(target string) host.Rule { return host.Rule{Verdict: "goto", Target: target} }

func forward(drop bool, rules ...host.Rule) host.Chain {
	return host.Chain{Family: "ip", Table: "filter", Name: "forward", Type: "filter", Hook: "forward", Drop: drop, Rules: rules}
}

func sub(name string, rules ...host.Rule) host.Chain {
	return host.Chain{Family: "ip", Table: "filter", Name: name, Rules: rules}
}

// TestFirewallVerdict: which rulesets packets of Services end in.
func TestFirewallVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		chains []host.Chain
		why    string // empty if they pass
	}{
		{"policy accept", []host.Chain{forward(false, acceptSome, dropSome)}, ""},
		{"policy drop", []host.Chain{forward(true, acceptSome)}, "policy drop"},
		{"policy drop, all accepted", []host.Chain{forward(true, count, accept)}, ""},
		{"policy drop, translated accepted", []host.Chain{forward(true, acceptSome, acceptDNAT)}, ""},
		{"translated accepted too late", []host.Chain{forward(true, rejectAll, acceptDNAT)}, "a rule in forward rejects the rest"},
		{"translated dropped", []host.Chain{forward(false, dropDNAT)}, "a rule in forward drops the rest"},
		{"drop at the end", []host.Chain{forward(false, acceptSome, dropAll)}, "a rule in forward drops the rest"},
		{"accepted behind a jump", []host.Chain{forward(true, jump("user")), sub("user", acceptDNAT)}, ""},
		{"back from a jump", []host.Chain{forward(true, jump("user")), sub("user", returnAll, acceptDNAT)}, "policy drop"},
		{"dropped behind a jump", []host.Chain{forward(false, jump("user")), sub("user", dropAll)}, "a rule in user drops the rest"},
		{"goto doesn't come back", []host.Chain{forward(true, toChain("user"), acceptDNAT), sub("user")}, "policy drop"},
		{"return in a base chain", []host.Chain{forward(true, returnAll, acceptDNAT)}, "policy drop"},
		{"a jump to nowhere", []host.Chain{forward(true, jump("gone"))}, "policy drop"},
		{"a circle", []host.Chain{forward(true, jump("a")), sub("a", jump("b")), sub("b", jump("a"))}, "policy drop"},
		{"another table's chain", []host.Chain{forward(true, jump("user")), {Family: "ip6", Table: "filter", Name: "user", Rules: []host.Rule{accept}}}, "policy drop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Patient{Facts: host.Facts{Chains: c.chains}}
			if got, _ := p.dropped(c.chains[0]); got != c.why {
				t.Errorf("got %q, want %q", got, c.why)
			}
		})
	}
}

func TestFirewallFindings(t *testing.T) {
	upper := func(family, hook string, more ...string) func(*Patient) {
		all := []host.Chain{{Family: family, Table: "filter", Name: strings.ToUpper(hook), Type: "filter", Hook: hook, Drop: true}}
		for _, name := range more {
			all = append(all, host.Chain{Family: family, Table: "filter", Name: name})
		}
		return chains(all...)
	}
	output := host.Chain{Family: "inet", Table: "my", Name: "out", Type: "filter", Hook: "output", Drop: true}
	firewalld := host.Chain{Family: "inet", Table: "firewalld", Name: "filter_FORWARD", Type: "filter", Hook: "forward", Rules: []host.Rule{rejectAll}}
	dormant := forwardDrop
	dormant.Dormant = true
	checked := serving(func(s *state.Service) { s.HealthCheckNodePort = 30900 })
	for _, c := range []struct {
		name   string
		change func(*Patient)
		level  Level
		fix    string
	}{
		{"C50: nft", chains(forwardDrop), Problem, "nft insert rule ip filter forward ct status dnat accept"},
		{"iptables", upper("ip", "forward"), Problem, "iptables -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT"},
		{"docker", upper("ip", "forward", "DOCKER-USER"), Problem, "iptables -I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT"},
		{"docker, IPv6 perhaps", upper("ip6", "forward", "DOCKER-USER"), Warning, "ip6tables -I DOCKER-USER"},
		{"docker, IPv6 not needed", both(upper("ip6", "forward", "DOCKER-USER"), serving(plain)), Note, "ip6tables -I DOCKER-USER"},
		{"docker, IPv6 needed", both(upper("ip6", "forward"), serving(endpoint("[fd00::1]:80"))), Problem, "ip6tables -I FORWARD"},
		{"ufw", upper("ip", "forward", "ufw-before-forward"), Problem, "-A ufw-before-forward -m conntrack --ctstate DNAT -j ACCEPT"},
		{"ufw, IPv6", upper("ip6", "forward", "ufw6-before-forward"), Warning, "/etc/ufw/before6.rules"},
		{"ufw, input", both(upper("ip", "input", "ufw-before-input"), checked), Warning, "ufw allow 30900/tcp"},
		{"iptables, input", both(upper("ip", "input"), checked), Warning, "iptables -I INPUT -p tcp --dport 30900 -j ACCEPT"},
		{"firewalld", chains(firewalld), Problem, "StrictForwardPorts=no"},
		{"input", chains(inputDropped), Warning, "nft insert rule inet filter input ct status dnat accept"},
		{"input, nothing behind", both(chains(inputDropped), serving(plain)), Note, "nft insert rule inet filter input"},
		{"input, a backend", both(chains(inputDropped), serving(endpoint("192.0.2.11:80"))), Problem, "nft insert rule inet filter input ct status dnat accept"},
		{"input, a health check", both(chains(inputDropped), checked), Warning, "nft insert rule inet filter input tcp dport 30900 accept"},
		{"output", chains(output), Warning, "nft insert rule inet my out ct status dnat accept"},
		{"ours", chains(host.Chain{Family: "ip", Table: "pointsman", Name: "f", Type: "filter", Hook: "forward", Drop: true}), OK, ""},
		{"dormant", chains(dormant), OK, ""},
		{"arp", chains(host.Chain{Family: "arp", Table: "f", Name: "f", Type: "filter", Hook: "forward", Drop: true}), OK, ""},
		{"nat", chains(host.Chain{Family: "ip", Table: "f", Name: "f", Type: "nat", Hook: "output", Drop: true}), OK, ""},
		{"prerouting", chains(host.Chain{Family: "ip", Table: "f", Name: "f", Type: "filter", Hook: "prerouting", Drop: true}), Warning, "nft list chain ip f f"},
		{"prerouting, for particular packets", chains(host.Chain{Family: "ip", Table: "f", Name: "f", Type: "filter", Hook: "prerouting", Rules: []host.Rule{dropSome}}), OK, ""},
		{"legacy", func(p *Patient) { p.LegacyTables = []string{"ip nat", "ip filter"} }, Warning, "iptables-legacy -S"},
		{"legacy nat alone", func(p *Patient) { p.LegacyTables = []string{"ip nat"} }, OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, worst := examined("firewall", c.change)
			if all := strings.Join(lines, "\n"); worst != c.level || !strings.Contains(all, c.fix) || len(lines) != 1 {
				t.Errorf("want %s with %q, got\n%s", c.level, c.fix, all)
			}
		})
	}
}
