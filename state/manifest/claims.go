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
	addresses map[netip.Addr]*demand
	clusterIP map[netip.Addr]*demand
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
	if l.settled == nil || !slices.Equal(l.settled.demands, all) {
		l.settled = newSettlement(all)
	}
}

// newSettlement gives each claim to the first Service, in the order of namespace and
// name, that makes it (semantics.md, Conflicts). It is one pass: what a
// Service lost it doesn't claim further, so a refused clusterIP doesn't keep
// others off that address's ports. The outcome is a function of the set of
// Services.
func newSettlement(all []*demand) *settlement {
	s := &settlement{
		demands:   all,
		refused:   map[*demand][]refusal{},
		frontends: make(map[frontendKey]*demand, 2*len(all)),
		numbers:   make(map[uint16]*demand, len(all)/4),
		addresses: make(map[netip.Addr]*demand, len(all)),
		clusterIP: make(map[netip.Addr]*demand, len(all)),
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

// take gives the claim to d, or tells who has it. The ports of a clusterIP
// that d lost go the way of the address, without a word of their own.
func (s *settlement) take(d *demand, c *claim) *demand {
	f := c.frontend
	switch c.kind {
	case claimClusterIP:
		s.addresses[f.Address] = d
		return takeKey(s.clusterIP, f.Address, d)
	case claimAddressPort:
		if owner := s.clusterIP[f.Address]; f.Kind == state.ClusterIP && owner != d {
			return owner
		}
		s.addresses[f.Address] = d
		return takeKey(s.frontends, keyOf(f.Address, f.Port, c.protocol), d)
	case claimHealthCheck:
		if owner := s.numbers[f.Port]; owner != nil {
			return owner
		}
	}
	return takeKey(s.numbers, f.Port, d)
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
		out = append(out, d.object.problem(Error, c.fieldName(), "Invalid value: %s already used by %s (%s)",
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
