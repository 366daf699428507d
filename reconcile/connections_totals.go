package reconcile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pointsman/state"
)

// PortName names a Service port.
type PortName struct {
	state.ObjectName
	Port     string // its name, empty where there's one port without
	Protocol state.Protocol
}

// Compare orders ports by namespace, name, port and protocol.
func (n PortName) Compare(o PortName) int {
	return cmp.Or(n.ObjectName.Compare(o.ObjectName), cmp.Compare(n.Port, o.Port), cmp.Compare(n.Protocol, o.Protocol))
}

// PortConnections are the connections that a Service port was given by all its
// frontends, those to endpoints that have left it included.
type PortConnections struct {
	PortName
	Total     uint64
	Endpoints []EndpointConnections // that it has now, by address
}

// EndpointConnections are those of one endpoint of a Service port.
type EndpointConnections struct {
	Address netip.AddrPort
	Total   uint64
}

// Totals turn what the kernel counts into totals that never go down as long as
// the port or endpoint is served. The kernel forgets a pair that's idle for a
// day, and everything if somebody flushes the ruleset, so it adds up what comes
// to each pair. It isn't safe for concurrent use.
type Totals struct {
	seen   map[Pair]sighting
	totals map[PortName]*total

	input          *Input // what served was made of
	served, before serving
}

// sighting is what a pair's counter showed, and when the kernel would forget it.
type sighting struct {
	count   uint64
	expires time.Time
}

type total struct {
	all       uint64
	endpoints map[netip.AddrPort]uint64
}

// NewTotals makes totals that begin with what the kernel shows first.
func NewTotals() *Totals {
	return &Totals{seen: map[Pair]sighting{}, totals: map[PortName]*total{}}
}

// Take adds what was read from the kernel at a time, and then told apart by
// what is served, which must not be older: see Loop.Latest. A pair that nobody
// serves isn't ours, or no longer, and counts for nobody later on.
func (t *Totals) Take(now time.Time, read []PairCount, in *Input) {
	if in != t.input {
		t.input, t.before, t.served = in, t.served, servingOf(in)
	}
	t.follow()
	for _, c := range read {
		last := t.seen[c.Pair].count
		t.seen[c.Pair] = sighting{c.Count, now.Add(c.Expires)}
		if c.Count < last {
			last = 0 // the counter began anew
		}
		t.add(c.Pair, c.Count-last)
	}
	t.before = t.served
	// A list that's read while elements come and go may lack one, so its
	// absence alone doesn't say that the kernel has forgotten it.
	maps.DeleteFunc(t.seen, func(_ Pair, s sighting) bool { return !s.expires.After(now) })
}

// follow drops the totals of what isn't served any more, and begins those of
// what is new.
func (t *Totals) follow() {
	maps.DeleteFunc(t.totals, func(n PortName, _ *total) bool { return t.served.ports[n] == nil })
	for name, endpoints := range t.served.ports {
		sum := t.totals[name]
		if sum == nil {
			sum = &total{endpoints: map[netip.AddrPort]uint64{}}
			t.totals[name] = sum
		}
		maps.DeleteFunc(sum.endpoints, func(e netip.AddrPort, _ uint64) bool { return !endpoints[e] })
	}
}

// add adds to the totals of the port whose frontend and endpoint a pair is. An
// endpoint may have left since its connections came.
func (t *Totals) add(p Pair, count uint64) {
	name, ok := t.served.frontends[frontend{p.Protocol, p.Frontend}]
	if !ok {
		return
	}
	sum, here := t.totals[name], t.served.ports[name][p.Endpoint]
	if here {
		sum.endpoints[p.Endpoint] += count
	}
	if here || t.before.ports[name][p.Endpoint] {
		sum.all += count
	}
}

// Ports gives the totals of all Service ports that are served, sorted.
func (t *Totals) Ports() []PortConnections {
	var ports []PortConnections
	for name, endpoints := range t.served.ports {
		p := PortConnections{PortName: name, Total: t.totals[name].all}
		for e := range endpoints {
			p.Endpoints = append(p.Endpoints, EndpointConnections{e, t.totals[name].endpoints[e]})
		}
		slices.SortFunc(p.Endpoints, func(a, b EndpointConnections) int { return a.Address.Compare(b.Address) })
		ports = append(ports, p)
	}
	slices.SortFunc(ports, func(a, b PortConnections) int { return a.PortName.Compare(b.PortName) })
	return ports
}

// serving tells whose a frontend is, and which endpoints its port has.
type serving struct {
	frontends map[frontend]PortName
	ports     map[PortName]map[netip.AddrPort]bool
}

type frontend struct {
	protocol state.Protocol
	address  netip.AddrPort
}

// servingOf gives what this host serves. Of two Services that claim one
// frontend the first has it, as in the kernel.
func servingOf(in *Input) serving {
	s := serving{map[frontend]PortName{}, map[PortName]map[netip.AddrPort]bool{}}
	for _, service := range in.Services {
		for i := range service.Ports {
			p := &service.Ports[i]
			if len(p.Frontends) == 0 {
				continue
			}
			name := PortName{service.ObjectName, p.Name, p.Protocol}
			s.ports[name] = make(map[netip.AddrPort]bool, len(p.Endpoints))
			for _, f := range p.Frontends {
				s.claim(in, name, f)
			}
			for k := range p.Endpoints {
				s.ports[name][p.Endpoints[k].Address] = true
			}
		}
	}
	return s
}

// claim notes whose a frontend is, a NodePort's at each of its addresses.
func (s *serving) claim(in *Input, name PortName, f state.Frontend) {
	addresses := []netip.Addr{f.Address}
	if f.Kind == state.NodePort {
		addresses = slices.DeleteFunc(slices.Clone(in.NodePortAddresses), func(a netip.Addr) bool { return a.Is6() != f.Address.Is6() })
	}
	for _, a := range addresses {
		key := frontend{name.Protocol, netip.AddrPortFrom(a, f.Port)}
		if _, taken := s.frontends[key]; !taken {
			s.frontends[key] = name
		}
	}
}
