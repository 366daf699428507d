package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// otherProxies looks for those that translate the same packets: running, or
// gone and their rules left behind.
func (p *Patient) otherProxies() []Finding {
	out := slices.Concat(p.kubeProxyTables(), p.kubeProxyChains(), p.ipvs(), p.balancers())
	if len(out) == 0 {
		return ok("no rules of other proxies")
	}
	return out
}

const twoProxies = "Where it and pointsman know the same address and port, one of them wins by chance; connections it took were translated by rules that nobody follows up if it has stopped."

func (p *Patient) kubeProxyTables() []Finding {
	var out []Finding
	for _, table := range p.tables(func(c host.Chain) bool { return c.Table == "kube-proxy" }) {
		out = append(out, Finding{Level: Warning, What: "kube-proxy's table is here: " + table, Means: twoProxies,
			Fix: []string{"kube-proxy --cleanup", "# or:", "nft delete table " + table}})
	}
	return out
}

// kubeProxyChains looks for those of the iptables and IPVS modes. The kubelet
// has chains named KUBE-, too (KUBE-FIREWALL), which translate nothing.
func (p *Patient) kubeProxyChains() []Finding {
	var out []Finding
	for _, table := range p.tables(func(c host.Chain) bool { return c.Name == "KUBE-SERVICES" || c.Name == "KUBE-NODEPORTS" }) {
		iptables := "iptables"
		if strings.HasPrefix(table, "ip6") {
			iptables = "ip6tables"
		}
		out = append(out, Finding{Level: Warning, What: "kube-proxy's chains are here: KUBE-SERVICES in " + table, Means: twoProxies,
			Fix: []string{"kube-proxy --cleanup", "# or:", fmt.Sprintf("%s-save | grep -v KUBE- | %s-restore", iptables, iptables)}})
	}
	return out
}

// tables names the tables of the chains that are meant, sorted.
func (p *Patient) tables(meant func(host.Chain) bool) []string {
	found := map[string]bool{}
	for _, c := range p.Chains {
		if meant(c) {
			found[c.Family+" "+c.Table] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (p *Patient) ipvs() []Finding {
	if len(p.VirtualServers) == 0 {
		return nil
	}
	var all, ours []string
	for _, v := range p.VirtualServers {
		name := v.Protocol
		if v.Protocol != "FWM" {
			name = fmt.Sprintf("%s/%s", v.Address, v.Protocol)
		}
		all = append(all, name)
		if p.isFrontend(v) {
			ours = append(ours, name)
		}
	}
	f := Finding{Level: Warning, What: "IPVS has virtual services: " + some(all), Means: twoProxies,
		Fix: []string{"ipvsadm -Ln", "# if they are nobody's any more:", "ipvsadm -C"}}
	if len(ours) > 0 {
		f.Level, f.What = Problem, "IPVS has virtual services that are Services' addresses: "+some(ours)
	}
	return one(f)
}

func (p *Patient) isFrontend(v host.VirtualServer) bool {
	addrs, _ := p.nodePortAddresses()
	for _, s := range p.Services {
		for i := range s.Ports {
			port := &s.Ports[i]
			for _, f := range port.Frontends {
				at := f.Address == v.Address.Addr() || f.Kind == state.NodePort && slices.Contains(addrs, v.Address.Addr())
				if at && f.Port == v.Address.Port() && string(port.Protocol) == v.Protocol {
					return true
				}
			}
		}
	}
	return false
}

// balancers looks for others that have tables of their own.
func (p *Patient) balancers() []Finding {
	var out []Finding
	for _, table := range p.tables(func(c host.Chain) bool { return strings.HasPrefix(c.Table, "nftlb") }) {
		out = append(out, Finding{Level: Warning, What: "nftlb's table is here: " + table, Means: twoProxies,
			Fix: []string{"# if nftlb runs no more:", "nft delete table " + table}})
	}
	for _, table := range p.tables(func(c host.Chain) bool { return strings.HasPrefix(c.Table, "keepalived") }) {
		out = append(out, Finding{Level: Note, What: "keepalived's table is here: " + table,
			Means: "With vrrp_strict or no_accept it drops what is sent to its virtual addresses and is not translated. Addresses that keepalived holds may be Services' addresses; ports of theirs that no Service has don't answer."})
	}
	return out
}
