package conformance

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"pointsman/reconcile"
	"pointsman/reconcile/conformance/reading"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// service is a Service and its EndpointSlices in few words. Its addresses are
// those of both families, and its port is there for every protocol.
type service struct {
	name       string
	cluster    string // the ClusterIP
	external   string // externalIPs
	balancer   string // load-balancer IPs
	port       uint16 // 80 if not given
	nodePort   uint16
	inside     state.TrafficPolicy // internalTrafficPolicy, Cluster if not given
	outside    state.TrafficPolicy // externalTrafficPolicy
	sticky     bool                // sessionAffinity: ClientIP
	ranges     string              // loadBalancerSourceRanges
	onlyRanges string              // more of them, as they are: of one family

	// endpoints are hosts of the world or addresses, with port 8080 unless
	// another is given. nodeName is the node that a host is, or is behind, and
	// none of an address; @n1 and @- say otherwise. Conditions and hints
	// follow: b1:8081@-/draining/zone=a.
	endpoints string
}

const local = state.Local

// settings is what nodes are told besides Services.
type settings struct {
	// localCIDRs names the network behind it to each node: sources whose
	// replies always come back through this node. A range that is wider, such
	// as one for the backends of all nodes, would be wrong about b1 at n2.
	localCIDRs   bool
	serviceCIDRs string
}

// zones are those of the nodes.
var zones = map[string]string{"n1": "a", "n2": "b", "n3": "b"}

func cluster(s settings, services ...service) *reading.Cluster {
	c := &reading.Cluster{LocalCIDRs: map[string][]netip.Prefix{}, ServiceCIDRs: ranges(s.serviceCIDRs), Zones: zones}
	for i, n := range reading.Nodes {
		if s.localCIDRs {
			c.LocalCIDRs[n] = ranges(fmt.Sprintf("10.20.%d.0/24", i))
		}
	}
	for _, x := range services {
		c.Services = append(c.Services, x.state())
	}
	return c
}

// ranges gives ranges in both families.
func ranges(text string) (out []netip.Prefix) {
	for _, r := range strings.Fields(text) {
		out = append(out, reading.RangeAt(r, false), reading.RangeAt(r, true))
	}
	return out
}

func (s service) state() *state.Service {
	x := &state.Service{
		ObjectName:            state.ObjectName{Namespace: "default", Name: cmp.Or(s.name, "web")},
		InternalTrafficPolicy: cmp.Or(s.inside, state.Cluster),
		ExternalTrafficPolicy: cmp.Or(s.outside, state.Cluster),
		SourceRanges:          ranges(s.ranges),
	}
	for _, r := range strings.Fields(s.onlyRanges) {
		x.SourceRanges = append(x.SourceRanges, netip.MustParsePrefix(r))
	}
	if s.sticky {
		x.Affinity = 10800 * time.Second
	}
	for _, six := range []bool{false, true} {
		if s.cluster != "" {
			x.ClusterIPs = append(x.ClusterIPs, reading.At(s.cluster, six))
		}
	}
	for _, proto := range []state.Protocol{state.TCP, state.UDP, state.SCTP} {
		p := state.Port{Name: string(proto), Protocol: proto, Frontends: s.frontends()}
		for _, six := range []bool{false, true} {
			for _, e := range strings.Fields(s.endpoints) {
				p.Endpoints = append(p.Endpoints, endpoint(e, six))
			}
		}
		x.Ports = append(x.Ports, p)
	}
	return x
}

func (s service) frontends() (out []state.Frontend) {
	for _, k := range []struct {
		kind  state.FrontendKind
		addrs string
	}{{state.ClusterIP, s.cluster}, {state.ExternalIP, s.external}, {state.LoadBalancerIP, s.balancer}} {
		for _, a := range strings.Fields(k.addrs) {
			for _, six := range []bool{false, true} {
				out = append(out, state.Frontend{Kind: k.kind, Address: reading.At(a, six), Port: cmp.Or(s.port, 80)})
			}
		}
	}
	if s.nodePort != 0 {
		out = append(out, state.Frontend{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: s.nodePort},
			state.Frontend{Kind: state.NodePort, Address: netip.IPv6Unspecified(), Port: s.nodePort})
	}
	return out
}

func endpoint(text string, ipv6 bool) state.Endpoint {
	words := strings.Split(text, "/")
	at, node, named := strings.Cut(words[0], "@")
	host, port, ok := strings.Cut(at, ":")
	if !ok {
		port = strconv.Itoa(reading.Port)
	}
	e := state.Endpoint{Ready: true, Serving: true}
	f := families[0]
	if ipv6 {
		f = families[1]
	}
	if h := f.Hosts[host]; h != nil {
		e.Address = netip.AddrPortFrom(h.Address(), number(port))
		e.NodeName = "n" + host[1:]
	} else {
		e.Address = netip.AddrPortFrom(reading.At(host, ipv6), number(port))
	}
	if named {
		e.NodeName = strings.TrimSuffix(node, "-")
	}
	e.Zone = zones[e.NodeName]
	for _, w := range words[1:] {
		switch kind, value, _ := strings.Cut(w, "="); kind {
		case "draining":
			e.Ready, e.Terminating = false, true
		case "gone":
			e.Ready, e.Serving, e.Terminating = false, false, true
		case "unready":
			e.Ready = false
		case "node":
			e.HintNodes = append(e.HintNodes, value)
		case "zone":
			e.HintZones = append(e.HintZones, value)
		}
	}
	return e
}

func number(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		panic(err)
	}
	return uint16(n)
}

// target gives an address and port, written in IPv4, in a family.
func target(text string, ipv6 bool) netip.AddrPort {
	addr, port, _ := strings.Cut(text, ":")
	return netip.AddrPortFrom(reading.At(addr, ipv6), number(port))
}

// family is one family's half of the world, with what its rulesets need.
type family struct {
	*reading.World
	nft.Family
}

var families = []family{{reading.NewWorld(false), nft.IPv4}, {reading.NewWorld(true), nft.IPv6}}

// inputs are what each node's ruleset is computed from.
func (f family) inputs(c *reading.Cluster) map[string]*reconcile.Input {
	out := map[string]*reconcile.Input{}
	for _, n := range reading.Nodes {
		h := f.Hosts[n]
		out[n] = &reconcile.Input{
			Services: c.Services, Node: reconcile.Node{Name: n, Zone: c.Zones[n]},
			NodePortAddresses: []netip.Addr{h.Address()}, Addresses: h.Addresses(),
			ServiceCIDRs: c.ServiceCIDRs, LocalCIDRs: c.LocalCIDRs[n],
		}
	}
	return out
}

// tables gives each node's ruleset.
func (f family) tables(c *reading.Cluster) map[string]*nft.Table {
	out, planner := map[string]*nft.Table{}, reconcile.NewPlanner(f.Family)
	for n, in := range f.inputs(c) {
		out[n] = planner.Plan(in, nil)
	}
	return out
}

// rulesets makes tables ready for the tracer.
func (c compiler) rulesets(tables map[string]*nft.Table) (map[string]*ruleset, error) {
	out := map[string]*ruleset{}
	for n, t := range tables {
		r, err := c.table(t)
		if err != nil {
			return nil, err
		}
		out[n] = r
	}
	return out, nil
}

// plain writes an outcome with the names of hosts for their addresses, so that
// it reads the same in both families.
func (f family) plain(o reading.Outcome) string {
	words := strings.Fields(o.String())
	for i, w := range words {
		if server, source, ok := strings.Cut(w, "<-"); ok {
			if a, err := netip.ParseAddr(source); err == nil {
				source = f.Owner(a)
			}
			words[i] = server + "<-" + source
		}
	}
	return strings.Join(words, " ")
}
