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
// day, and everything if somebody flushes the ruleset, so it's added up what
// comes to each pair. They aren't safe for concurrent use.
type Totals struct {
	seen map[Pair]*sighting
	sums map[PortName]*sum

	input          *Input // what served was made of
	served, before serving
}

// sighting is what a pair's counter showed, and when the kernel would forget it.
type sighting struct {
	count   uint64
	expires time.Time
}

// sum is a Service port's.
type sum struct {
	all       uint64
	endpoints map[netip.AddrPort]uint64
}

// NewTotals makes totals that begin with what the kernel shows first.
func NewTotals() *Totals {
	return &Totals{seen: map[Pair]*sighting{}, sums: map[PortName]*sum{}}
}

// Take adds what was read from the kernel at a time, and then told apart by
// what is served, which must not be older: see Loop.Latest. A pair that nobody
// serves isn't ours, or no longer, and counts for nobody later on.
func (t *Totals) Take(now time.Time, read []PairCount, in *Input) {
	if in != t.input {
		t.input, t.before, t.served = in, t.served, servingOf(in)
		t.follow()
	}
	for _, c := range read {
		s := t.seen[c.Pair]
		if s == nil {
			s = &sighting{}
			t.seen[c.Pair] = s
		}
		fresh := c.Count - s.count
		if c.Count < s.count {
			fresh = c.Count // the counter began anew
		}
		if fresh > 0 {
			t.add(c.Pair, fresh)
		}
		s.count, s.expires = c.Count, now.Add(c.Expires)
	}
	t.before = t.served
	// A list that's read while elements come and go may lack one, so its
	// absence alone doesn't say that the kernel has forgotten it.
	maps.DeleteFunc(t.seen, func(_ Pair, s *sighting) bool { return !s.expires.After(now) })
}

// follow drops the sums of what isn't served any more, and begins those of what
// is new.
func (t *Totals) follow() {
	old := t.sums
	t.sums = make(map[PortName]*sum, len(t.served.ports))
	for _, p := range t.served.ports {
		if p.sum = old[p.name]; p.sum == nil {
			p.sum = &sum{endpoints: map[netip.AddrPort]uint64{}}
		}
		t.sums[p.name] = p.sum
		maps.DeleteFunc(p.sum.endpoints, func(e netip.AddrPort, _ uint64) bool { return !p.has(e) })
	}
}

// add adds to the sums of the port whose frontend and endpoint a pair is. An
// endpoint may have left since its connections came.
func (t *Totals) add(p Pair, count uint64) {
	f := transport{p.Protocol, p.Frontend}
	port := t.served.frontends[f]
	if port == nil {
		return
	}
	here := port.has(p.Endpoint)
	if here {
		port.sum.endpoints[p.Endpoint] += count
	}
	if was := t.before.frontends[f]; here || was != nil && was.name == port.name && was.has(p.Endpoint) {
		port.sum.all += count
	}
}

// Ports gives the totals of all Service ports that are served, sorted.
func (t *Totals) Ports() []PortConnections {
	ports := make([]PortConnections, len(t.served.ports))
	for i, p := range t.served.ports {
		ports[i] = PortConnections{PortName: p.name, Total: p.sum.all, Endpoints: make([]EndpointConnections, len(p.endpoints))}
		for k, e := range p.endpoints {
			ports[i].Endpoints[k] = EndpointConnections{e.Address, p.sum.endpoints[e.Address]}
		}
	}
	return ports
}

// serving tells whose a frontend is.
type serving struct {
	frontends map[transport]*servedPort
	ports     []*servedPort // sorted
}

type servedPort struct {
	name      PortName
	endpoints []state.Endpoint // sorted by address
	sum       *sum
}

func (p *servedPort) has(endpoint netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(p.endpoints, endpoint, func(e state.Endpoint, a netip.AddrPort) int { return e.Address.Compare(a) })
	return found
}

// servingOf gives what this host serves. Of two Services that claim one
// frontend the first has it, as in the kernel.
func servingOf(in *Input) serving {
	s := serving{frontends: map[transport]*servedPort{}}
	for _, service := range in.Services {
		for i := range service.Ports {
			p := &service.Ports[i]
			if len(p.Frontends) == 0 {
				continue
			}
			port := &servedPort{name: PortName{service.ObjectName, p.Name, p.Protocol}, endpoints: p.Endpoints}
			s.ports = append(s.ports, port)
			for _, f := range p.Frontends {
				s.claim(in, port, f)
			}
		}
	}
	slices.SortFunc(s.ports, func(a, b *servedPort) int { return a.name.Compare(b.name) })
	return s
}

// claim notes whose a frontend is, a NodePort's at each of its addresses.
func (s *serving) claim(in *Input, port *servedPort, f state.Frontend) {
	addresses := []netip.Addr{f.Address}
	if f.Kind == state.NodePort {
		addresses = slices.DeleteFunc(slices.Clone(in.NodePortAddresses), func(a netip.Addr) bool { return a.Is6() != f.Address.Is6() })
	}
	for _, a := range addresses {
		key := transport{port.name.Protocol, netip.AddrPortFrom(a, f.Port)}
		if s.frontends[key] == nil {
			s.frontends[key] = port
		}
	}
}
