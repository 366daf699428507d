package doctor

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pointsman/reconcile/host"
	"pointsman/state"
)

func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }
func at(text string) netip.AddrPort   { return netip.MustParseAddrPort(text) }
func drop(p *Patient, sysctl string)  { delete(p.Sysctls, sysctl) }
func chains(c ...host.Chain) func(*Patient) {
	return func(p *Patient) { p.Chains = append(p.Chains, c...) }
}

// well is a host that nothing is wrong with: two interfaces, both families.
func well() *Patient {
	p := &Patient{
		NodeName: "n1", NodePortFirst: 30000, NodePortLast: 32767, Nft: "nftables v1.0.6",
		ServiceCIDRs: []netip.Prefix{prefix("10.96.0.0/16")},
		Agent:        Agent{PID: 42, Healthz: "http://127.0.0.1:10256/healthz", Code: 200},
	}
	p.Kernel = "6.18.1"
	p.Addrs.V4 = host.Stack{Enabled: true,
		Addresses: []host.Address{
			{Addr: addr("192.0.2.11"), Link: "eth0", Connected: prefix("192.0.2.0/24")},
			{Addr: addr("10.30.0.1"), Link: "br0", Connected: prefix("10.30.0.0/24")}},
		Defaults: []host.Route{{Link: "eth0", Gateway: addr("192.0.2.1"), Source: addr("192.0.2.11")}}}
	p.Addrs.V6 = host.Stack{Enabled: true,
		Addresses: []host.Address{{Addr: addr("2001:db8::11"), Link: "eth0", Connected: prefix("2001:db8::/64")}},
		Defaults:  []host.Route{{Link: "eth0", Gateway: addr("fe80::1"), Source: addr("2001:db8::11")}}}
	p.Links = []host.Link{{Name: "lo", Kind: "device"}, {Name: "eth0", Kind: "device"}, {Name: "br0", Kind: "bridge"},
		{Name: "veth1", Kind: "veth", Bridge: "br0", Hairpin: true}, {Name: "veth2", Kind: "veth", Bridge: "br0", Hairpin: true}}
	p.Sysctls = map[string]string{
		ipForward: "1", ipv6Forwarding: "1", portRange: "32768 60999", reservedPorts: "", bridgeIPv4: "1", bridgeIPv6: "1",
		conntrackCount: "100", conntrackMax: "262144", tcpLiberal: "0", sctpTimeout: "210",
	}
	for _, link := range []string{"all", "eth0", "br0"} {
		for sysctl, value := range map[string]string{rpFilter: "0", localnet: "0", linkForwarding4: "1"} {
			p.Sysctls[fmt.Sprintf(sysctl, link)] = value
		}
	}
	return p
}

// serving gives the host a Service of the manifests.
func serving(change func(*state.Service)) func(*Patient) {
	return func(p *Patient) {
		s := &state.Service{ObjectName: state.ObjectName{Namespace: "shop", Name: "web"}, ExternalTrafficPolicy: state.Cluster,
			Ports: []state.Port{{Protocol: state.TCP,
				Frontends: []state.Frontend{{Kind: state.ClusterIP, Address: addr("10.96.0.20"), Port: 80}, {Kind: state.NodePort, Address: addr("0.0.0.0"), Port: 30080}},
				Endpoints: []state.Endpoint{{Address: at("10.20.0.11:8080"), Ready: true, Serving: true}}}}}
		change(s)
		p.Services, p.Manifests = append(p.Services, s), true
	}
}

func plain(*state.Service) {}

// withoutIPv6 is a host with disable_ipv6=1, and a service range of the family.
func withoutIPv6(p *Patient) {
	p.Addrs.V6, p.Sysctls[ipv6Forwarding] = host.Stack{}, "0"
	p.ServiceCIDRs = append(p.ServiceCIDRs, prefix("fd00:96::/112"))
	p.Unreachable = map[netip.Addr]string{addr("fd00:96::1"): "network is unreachable"}
}

func endpoint(address string) func(*state.Service) {
	return func(s *state.Service) { s.Ports[0].Endpoints[0].Address = at(address) }
}

func sysctl(name, value string) func(*Patient) { return func(p *Patient) { p.Sysctls[name] = value } }

func linkSysctl(name, link, value string) func(*Patient) {
	return sysctl(fmt.Sprintf(name, link), value)
}

// examined gives the findings of one check as lines: level, what, fixes.
func examined(check string, changes ...func(*Patient)) (lines []string, worst Level) {
	p := well()
	for _, change := range changes {
		change(p)
	}
	var found []Finding
	for _, f := range Examine(p) {
		if f.Check == check {
			found = append(found, f)
			lines = append(lines, fmt.Sprintf("%s: %s | %s", f.Level, f.What, strings.Join(f.Fix, " ; ")))
		}
	}
	return lines, Worst(found)
}

func TestAHealthyHost(t *testing.T) {
	for name, change := range map[string]func(*Patient){"without manifests": func(*Patient) {}, "with manifests": serving(plain)} {
		p := well()
		change(p)
		seen := map[string]bool{}
		for _, f := range Examine(p) {
			seen[f.Check] = true
			if f.Level != OK && f.Level != Note {
				t.Errorf("%s: %+v", name, f)
			}
		}
		for _, c := range checks {
			if !seen[c.name] && c.name != "doctor" {
				t.Errorf("%s: %s says nothing", name, c.name)
			}
		}
	}
}

// TestFindings: what is wrong is found, named, and cured by what is told.
func TestFindings(t *testing.T) {
	none := func(*Patient) {}
	for _, c := range []struct {
		name, check string
		change      func(*Patient)
		level       Level
		says        string // what, fix
	}{
		{"kernel lacks something", "kernel", func(p *Patient) { p.Preflight = errors.New("the kernel or nft lacks X") }, Problem, "lacks X"},
		{"old kernel", "kernel", func(p *Patient) { p.Kernel = "5.10.0-8-amd64" }, Warning, "before 5.13"},
		{"odd kernel", "kernel", func(p *Patient) { p.Kernel = "plan9" }, OK, "plan9"},
		{"no address", "node", func(p *Patient) { p.Addrs = host.Addrs{} }, Problem, "no address to answer on"},
		{"none within", "node", func(p *Patient) { p.NodePortCIDRs = []netip.Prefix{prefix("203.0.113.0/24")} }, Problem, "no address to answer on"},
		{"localhost", "node", func(p *Patient) { p.NodeName = "localhost" }, Warning, "hostnamectl"},
		{"unknown node", "node", func(p *Patient) { p.NodeNames, p.Manifests = []string{"n2", "n3"}, true }, Warning, "no Node manifest is named n1 (there are n2, n3)"},
		{"known node", "node", func(p *Patient) { p.NodeNames, p.Manifests = []string{"n1"}, true }, OK, "192.0.2.11, 2001:db8::11"},
		{"another host's address", "node", func(p *Patient) { p.InternalIPs = []netip.Addr{addr("192.0.2.99")} }, Warning, "has no address of this host, but 192.0.2.99"},
		{"one of its addresses", "node", func(p *Patient) { p.InternalIPs = []netip.Addr{addr("192.0.2.99"), addr("192.0.2.11")} }, OK, "InternalIP of the Node manifest"},
		{"many addresses", "node", manyAddrs, Warning, "NodePorts answer on 20 addresses"},
		{"agent stopped", "agent", func(p *Patient) { p.Agent = Agent{}; p.Chains = []host.Chain{{Family: "ip", Table: "pointsman"}} }, Warning, "systemctl start"},
		{"agent never ran", "agent", func(p *Patient) { p.Agent = Agent{} }, Note, "does not run"},
		{"agent unseen", "agent", func(p *Patient) { p.Agent, p.Unread = Agent{Elsewhere: true}, []string{"nf_tables: no"} }, Note, "wasn't found out"},
		{"agent elsewhere", "agent", func(p *Patient) { p.Agent = Agent{Elsewhere: true} }, Warning, "another --state-dir"},
		{"agent without healthz", "agent", func(p *Patient) { p.Agent = Agent{PID: 42} }, OK, "turned off"},
		{"agent silent", "agent", func(p *Patient) { p.Agent.Error = "refused" }, Warning, "does not answer: refused"},
		{"agent fails", "agent", func(p *Patient) { p.Agent.Code, p.Agent.Degraded = 503, []string{"nft is gone"} }, Problem, "nft is gone"},
		{"agent degraded", "agent", func(p *Patient) { p.Agent.Degraded = []string{"stale"} }, Warning, "stale"},
		{"inotify", "inotify", func(p *Patient) { p.Inotify = "too many open files" }, Warning, "max_user_instances"},
		{"unread", "doctor", func(p *Patient) { p.Unread = []string{"nf_tables: no"} }, Warning, "nf_tables: no"},
		{"a firewall unread", "firewall", func(p *Patient) { p.Unread = []string{"nf_tables: no"} }, Note, "not judged, for want of nf_tables"},
		{"something else unread", "firewall", func(p *Patient) { p.Unread = []string{"IPVS: no"} }, OK, "no other table"},
		{"proxies unread", "other-proxies", func(p *Patient) { p.Unread = []string{"IPVS: no"} }, Note, "not judged, for want of IPVS"},

		{"ip_forward", "forwarding", sysctl(ipForward, "0"), Problem, "sysctl -w net.ipv4.ip_forward=1"},
		{"IPv6 perhaps", "forwarding", sysctl(ipv6Forwarding, "0"), Warning, "net.ipv6.conf.eth0.accept_ra=2"},
		{"IPv6 needed", "forwarding", both(sysctl(ipv6Forwarding, "0"), serving(endpoint("[fd00::1]:80"))), Problem, "IPv6 forwarding is off"},
		{"IPv6 not needed", "forwarding", both(sysctl(ipv6Forwarding, "0"), serving(plain)), OK, "forwarded"},
		{"IPv6 not there", "forwarding", func(p *Patient) { p.Addrs.V6.Addresses = nil; p.Sysctls[ipv6Forwarding] = "0" }, OK, "forwarded"},
		{"IPv6 off, and needed", "forwarding", both(withoutIPv6, serving(endpoint("[fd00::1]:80"))), Warning, "sysctl -w net.ipv6.conf.all.disable_ipv6=0"},
		{"IPv6 off, and not needed", "forwarding", both(withoutIPv6, serving(plain)), OK, "forwarded"},
		{"IPv6 off", "routes", withoutIPv6, OK, "there are routes"},
		{"one interface", "forwarding", linkSysctl(linkForwarding4, "br0", "0"), Warning, "sysctl -w net.ipv4.conf.br0.forwarding=1"},
		{"one interface, IPv6", "forwarding", linkSysctl("net.ipv6.conf.%s.forwarding", "eth0", "0"), OK, "forwarded"},
		{"rp_filter", "rp-filter", linkSysctl(rpFilter, "eth0", "1"), Warning, "sysctl -w net.ipv4.conf.eth0.rp_filter=2"},
		{"rp_filter of all", "rp-filter", linkSysctl(rpFilter, "all", "1"), Warning, "strict on br0, eth0"},
		{"rp_filter loose", "rp-filter", both(linkSysctl(rpFilter, "all", "1"), both(linkSysctl(rpFilter, "eth0", "2"), linkSysctl(rpFilter, "br0", "2"))), OK, "no strict"},
		{"rp_filter, one interface", "rp-filter", func(p *Patient) {
			p.Addrs.V4.Addresses = p.Addrs.V4.Addresses[:1]
			p.Sysctls[fmt.Sprintf(rpFilter, "eth0")] = "1"
		}, Note, "strict on eth0"},
		{"route_localnet", "route-localnet", linkSysctl(localnet, "all", "1"), Warning, "sysctl -w net.ipv4.conf.all.route_localnet=0"},
		{"dotted interface", "route-localnet", func(p *Patient) {
			p.Addrs.V4.Addresses[0].Link = "eth0.100"
			p.Sysctls["net.ipv4.conf.eth0/100.route_localnet"] = "1"
		}, Warning, "sysctl -w net.ipv4.conf.eth0/100.route_localnet=0"},
		{"C34", "loopback-nodeports", none, Note, "not on 127.0.0.1 and ::1"},
		{"conntrack filling", "conntrack-size", sysctl(conntrackCount, "220000"), Warning, "sysctl -w net.netfilter.nf_conntrack_max=524288"},
		{"conntrack full", "conntrack-size", sysctl(conntrackCount, "262144"), Problem, "(100 %)"},
		{"conntrack unlimited", "conntrack-size", sysctl(conntrackMax, "0"), OK, "no limit"},
		{"C07 strict", "conntrack-window", none, Note, "nf_conntrack_tcp_be_liberal = 0"},
		{"C07 liberal", "conntrack-window", sysctl(tcpLiberal, "1"), Note, "liberal"},
		{"no conntrack yet", "conntrack-window", func(p *Patient) { drop(p, tcpLiberal) }, OK, "isn't loaded"},
		{"no SCTP", "sctp", func(p *Patient) { drop(p, sctpTimeout) }, Note, "doesn't know SCTP"},
		{"no SCTP, needed", "sctp", both(func(p *Patient) { drop(p, sctpTimeout) }, serving(func(s *state.Service) { s.Ports[0].Protocol = state.SCTP })), Problem, "shop/web needs"},

		{"no route to the range", "routes", unreachable("10.96.0.1"), Problem, "ip route add 10.96.0.0/16 dev eth0"},
		{"no route to a VIP", "routes", both(serving(vip("198.18.0.10")), unreachable("198.18.0.10")), Problem, "ip route add 198.18.0.10/32 dev eth0"},
		{"no route for IPv6", "routes", both(serving(vip("2001:db8:18::10")), unreachable("2001:db8:18::10")), Problem, "ip route add 2001:db8:18::10/128 dev eth0"},

		{"kube-proxy's table", "other-proxies", chains(host.Chain{Family: "ip6", Table: "kube-proxy", Name: "services"}), Warning, "nft delete table ip6 kube-proxy"},
		{"kube-proxy's chains", "other-proxies", chains(host.Chain{Family: "ip6", Table: "nat", Name: "KUBE-SERVICES"}), Warning, "ip6tables-save | grep -v KUBE- | ip6tables-restore"},
		{"the kubelet's chains", "other-proxies", chains(host.Chain{Family: "ip", Table: "filter", Name: "KUBE-FIREWALL"}), OK, "no rules"},
		{"IPVS", "other-proxies", virtual("192.0.2.200:80"), Warning, "192.0.2.200:80/TCP"},
		{"IPVS by mark", "other-proxies", func(p *Patient) { p.VirtualServers = []host.VirtualServer{{Protocol: "FWM"}} }, Warning, "FWM"},
		{"IPVS at a clusterIP", "other-proxies", both(virtual("10.96.0.20:80"), serving(plain)), Problem, "Services' addresses: 10.96.0.20:80/TCP"},
		{"IPVS at a NodePort", "other-proxies", both(virtual("192.0.2.11:30080"), serving(plain)), Problem, "192.0.2.11:30080/TCP"},
		{"nftlb", "other-proxies", chains(host.Chain{Family: "ip", Table: "nftlb", Name: "postrouting"}), Warning, "nft delete table ip nftlb"},
		{"keepalived", "other-proxies", chains(host.Chain{Family: "inet", Table: "keepalived", Name: "in"}), Note, "inet keepalived"},

		{"C53: blind bridge", "bridges", sysctl(bridgeIPv4, "0"), Note, "sysctl -w net.bridge.bridge-nf-call-iptables=1"},
		{"C53: no module", "bridges", func(p *Patient) { drop(p, bridgeIPv4); drop(p, bridgeIPv6) }, Note, "modprobe br_netfilter"},
		{"C53 under policy Local", "bridges", both(sysctl(bridgeIPv4, "0"), serving(func(s *state.Service) { s.ExternalTrafficPolicy = state.Local })), Warning, "doesn't see what br0 bridges"},
		{"C53 with --local-cidr", "bridges", both(sysctl(bridgeIPv4, "0"), func(p *Patient) { p.LocalCIDRs = []netip.Prefix{prefix("10.30.0.0/24")} }), Warning, "br0"},
		{"C53, one port", "bridges", func(p *Patient) { p.Sysctls[bridgeIPv4] = "0"; p.Links = p.Links[:4] }, OK, "no bridge"},
		{"C52: hairpin off", "bridges", noHairpin, Note, "bridge link set dev veth2 hairpin on"},
		{"C52, with a backend", "bridges", both(noHairpin, serving(endpoint("10.30.0.11:80"))), Warning, "ports of br0: veth2"},
		{"C52, the host itself", "bridges", both(noHairpin, serving(endpoint("10.30.0.1:80"))), Note, "veth2"},
		{"C52, nothing bridged is seen", "bridges", func(p *Patient) {
			noHairpin(p)
			p.Links = slices.Delete(p.Links, 3, 4)
			p.Sysctls[bridgeIPv4], p.Sysctls[bridgeIPv6] = "0", "0"
		}, OK, "no bridge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, worst := examined(c.check, c.change)
			if all := strings.Join(lines, "\n"); worst != c.level || !strings.Contains(all, c.says) {
				t.Errorf("want %s with %q, got\n%s", c.level, c.says, all)
			}
		})
	}
}

func both(a, b func(*Patient)) func(*Patient) { return func(p *Patient) { a(p); b(p) } }

func unreachable(a string) func(*Patient) {
	return func(p *Patient) { p.Unreachable = map[netip.Addr]string{addr(a): "network is unreachable"} }
}

func vip(a string) func(*state.Service) {
	return func(s *state.Service) {
		s.Ports[0].Frontends = append(s.Ports[0].Frontends, state.Frontend{Kind: state.ExternalIP, Address: addr(a), Port: 443})
	}
}

func virtual(a string) func(*Patient) {
	return func(p *Patient) { p.VirtualServers = []host.VirtualServer{{Protocol: "TCP", Address: at(a)}} }
}

func noHairpin(p *Patient) { p.Links[4].Hairpin = false }

func manyAddrs(p *Patient) {
	p.NodePortCIDRs = []netip.Prefix{prefix("0.0.0.0/0")}
	for i := range 18 {
		p.Addrs.V4.Addresses = append(p.Addrs.V4.Addresses, host.Address{Addr: netip.AddrFrom4([4]byte{198, 18, 0, byte(i)}), Link: "eth0"})
	}
}

func TestManyMissingRoutesAreSummedUp(t *testing.T) {
	for n, last := range map[int]string{6: "no route to 198.18.0.5/32", 7: "no route to 2 more addresses", 20: "no route to 15 more addresses"} {
		lines, _ := examined("routes", func(p *Patient) {
			p.Unreachable = map[netip.Addr]string{}
			for i := range n {
				a := netip.AddrFrom4([4]byte{198, 18, 0, byte(i)})
				p.Unreachable[a] = "network is unreachable"
				serving(vip(a.String()))(p)
			}
		})
		if len(lines) != 6 || !strings.Contains(lines[5], last) {
			t.Errorf("of %d: %q", n, lines)
		}
	}
}

func TestQuestions(t *testing.T) {
	p := well()
	serving(vip("198.18.0.10"))(p)
	q := Questions([]netip.Prefix{prefix("10.96.0.0/16"), prefix("198.18.0.7/32")}, p.Services, "/etc")
	want := []netip.Addr{addr("10.96.0.1"), addr("198.18.0.7"), addr("198.18.0.10")}
	if !slices.Equal(q.Destinations, want) || q.Watch != "/etc" {
		t.Errorf("%+v", q)
	}
	// Every sysctl of the healthy host is one that is asked for.
	known := map[string]bool{}
	for _, s := range q.Sysctls {
		known[s] = true
	}
	for _, s := range q.PerLink {
		for _, link := range []string{"all", "eth0", "br0"} {
			known[fmt.Sprintf(s, link)] = true
		}
	}
	for _, s := range slices.Sorted(maps.Keys(p.Sysctls)) {
		if !known[s] {
			t.Errorf("%s is not asked for", s)
		}
	}
}
