package manifest

import (
	"fmt"
	"net/netip"
	"slices"

	"pointsman/state"
)

// claim is one thing that no two Services can have.
type claim struct {
	kind     claimKind
	port     int // index in spec.ports; -1 where none is meant
	protocol state.Protocol
	frontend state.Frontend // what of it counts depends on the kind
	field    string         // empty for a NodePort: spec.ports[port].nodePort
}

type claimKind uint8

const (
	claimClusterIP   claimKind = iota // an address, among clusterIPs
	claimAddressPort                  // an address, port and protocol, whatever sort of address
	claimNodePort                     // a number of the pool of NodePorts, whatever protocol
	claimHealthCheck                  // a number of the same pool
)

// frontendKey is an address, port and protocol in the form of a map's key.
type frontendKey struct {
	address  netip.AddrPort
	protocol byte // T, U or S
}

func keyOf(a netip.Addr, port uint16, p state.Protocol) frontendKey {
	return frontendKey{netip.AddrPortFrom(a, port), p[0]}
}

// refusal is a claim that another Service won.
type refusal struct {
	claim int // index in the loser's claims
	owner *demand
}

// settlement says who has what.
type settlement struct {
	demands   []*demand // that it was settled among, in the order of their names
	refused   map[*demand][]refusal
	frontends map[frontendKey]*demand
	numbers   map[uint16]*demand // NodePorts and healthCheckNodePorts
	addresses map[netip.Addr]bearing

	// version is another where something may have changed that the endpoints
	// of any Service are checked against.
	version int
}

// bearing is what is claimed of an address: as whose clusterIP, and how often
// in all.
type bearing struct {
	clusterIP *demand
	claims    int
}

// settle settles the claims of all Services, unless they are those of the last
// Load.
func (l *Loader) settle(services []*slot) {
	all := make([]*demand, 0, len(services))
	for _, s := range services {
		if d := s.digest.demand; d != nil {
			all = append(all, d)
		}
	}
	version := 1
	if l.settled != nil {
		if slices.Equal(l.settled.demands, all) {
			return
		}
		touched, ok := l.settled.amend(all)
		if ok && !l.borne(touched) {
			return
		}
		version = l.settled.version + 1
		if ok {
			l.settled.version = version
			return
		}
	}
	l.settled = newSettlement(all)
	l.settled.version = version
}

// newSettlement gives each claim to the first Service, in the order of
// namespace and name, that makes it (semantics.md, Conflicts). It is one pass:
// what a Service lost it doesn't claim further, so a refused clusterIP doesn't
// keep others off that address's ports. The outcome is a function of the set
// of Services.
func newSettlement(all []*demand) *settlement {
	s := &settlement{
		demands:   all,
		refused:   map[*demand][]refusal{},
		frontends: make(map[frontendKey]*demand, 2*len(all)),
		numbers:   make(map[uint16]*demand, len(all)/4),
		addresses: make(map[netip.Addr]bearing, len(all)),
	}
	for _, d := range all {
		for i := range d.claims {
			if owner := s.take(d, &d.claims[i]); owner != nil {
				s.refused[d] = append(s.refused[d], refusal{i, owner})
			}
		}
	}
	return s
}

// amend makes s the settlement of other Services, which is cheap as long as
// nobody loses anything: then the order has no say. It gives the demands that
// went or came. If it reports false, s is of no use any more.
func (s *settlement) amend(all []*demand) (touched []*demand, ok bool) {
	if len(s.refused) > 0 {
		return nil, false
	}
	gone, come := difference(s.demands, all)
	for _, d := range gone {
		for i := range d.claims {
			s.release(&d.claims[i])
		}
	}
	for _, d := range come {
		for i := range d.claims {
			if s.take(d, &d.claims[i]) != nil {
				return nil, false
			}
		}
	}
	s.demands = all
	return append(gone, come...), true
}

// difference tells what two lists, both in the order of names, don't have in
// common.
func difference(before, now []*demand) (gone, come []*demand) {
	for len(before) > 0 && len(now) > 0 {
		if before[0] == now[0] {
			before, now = before[1:], now[1:]
			continue
		}
		order := before[0].object.Key.ObjectName.Compare(now[0].object.Key.ObjectName)
		if order <= 0 {
			gone, before = append(gone, before[0]), before[1:]
		}
		if order >= 0 {
			come, now = append(come, now[0]), now[1:]
		}
	}
	return append(gone, before...), append(come, now...)
}

// take gives the claim to d, or tells who has it. The ports of a clusterIP
// that d lost go the way of the address, without a word of their own.
func (s *settlement) take(d *demand, c *claim) *demand {
	f := c.frontend
	switch c.kind {
	case claimClusterIP, claimAddressPort:
		return s.takeAddress(d, c)
	case claimHealthCheck:
		if owner := s.numbers[f.Port]; owner != nil {
			return owner
		}
	}
	return takeKey(s.numbers, f.Port, d)
}

func (s *settlement) takeAddress(d *demand, c *claim) *demand {
	a := c.frontend.Address
	b := s.addresses[a]
	owner := b.clusterIP
	switch {
	case c.kind == claimClusterIP && owner == nil:
		b.clusterIP = d
	case c.kind == claimClusterIP, c.frontend.Kind == state.ClusterIP && owner != d:
		return owner
	default:
		if owner := takeKey(s.frontends, keyOf(a, c.frontend.Port, c.protocol), d); owner != nil {
			return owner
		}
	}
	b.claims++
	s.addresses[a] = b
	return nil
}

// release undoes take.
func (s *settlement) release(c *claim) {
	f := c.frontend
	switch c.kind {
	case claimNodePort, claimHealthCheck:
		delete(s.numbers, f.Port)
		return
	case claimAddressPort:
		delete(s.frontends, keyOf(f.Address, f.Port, c.protocol))
	}
	b := s.addresses[f.Address]
	if b.claims--; b.claims == 0 {
		delete(s.addresses, f.Address)
		return
	}
	if c.kind == claimClusterIP {
		b.clusterIP = nil
	}
	s.addresses[f.Address] = b
}

// takeKey enters d unless another has the key already. A Service doesn't clash
// with itself: one NodePort may serve several protocols of it.
func takeKey[K comparable](m map[K]*demand, k K, d *demand) *demand {
	owner, taken := m[k]
	if taken && owner != d {
		return owner
	}
	if !taken {
		m[k] = d
	}
	return nil
}

// refusals gives the problems of a Service that lost claims.
func (d *demand) refusals(lost []refusal) []Problem {
	var out []Problem
	for _, r := range lost {
		c := d.claims[r.claim]
		if c.kind == claimAddressPort && c.frontend.Kind == state.ClusterIP && d.lostAddress(lost, c.frontend.Address) {
			continue
		}
		out = append(out, d.object.problem(c.rule(), c.fieldName(), "Invalid value: %s already used by %s (%s)",
			c.value(), r.owner.object.Key.ObjectName, r.owner.object.Source))
	}
	return out
}

// lostAddress reports whether a clusterIP is among the lost claims as a whole.
func (d *demand) lostAddress(lost []refusal, a netip.Addr) bool {
	return slices.ContainsFunc(lost, func(r refusal) bool {
		c := d.claims[r.claim]
		return c.kind == claimClusterIP && c.frontend.Address == a
	})
}

// rule gives the rule that a claim breaks if another Service has won it.
func (c claim) rule() Rule {
	return map[claimKind]Rule{
		claimClusterIP: ruleClusterIPConflict, claimAddressPort: ruleVIPConflict,
		claimNodePort: ruleNodePortConflict, claimHealthCheck: ruleHealthConflict,
	}[c.kind]
}

func (c claim) fieldName() string {
	if c.kind == claimNodePort {
		return fmt.Sprintf("spec.ports[%d].nodePort", c.port)
	}
	return c.field
}

// value renders what was claimed as field.Error would.
func (c claim) value() string {
	switch c.kind {
	case claimClusterIP:
		return fmt.Sprintf("%q:", c.frontend.Address)
	case claimAddressPort:
		return fmt.Sprintf("%q: %s/%s is", c.frontend.Address, netip.AddrPortFrom(c.frontend.Address, c.frontend.Port), c.protocol)
	default:
		return fmt.Sprintf("%d:", c.frontend.Port)
	}
}
