package reading

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pointsman/state"
)

// The fates of a connection that reaches no server.
const (
	Refused = "refused" // a reset, or ICMP port unreachable, at once
	Dropped = "dropped" // by a node, in silence
	Lost    = "lost"    // sent to an address of a network that no host there has
	Uplink  = "uplink"  // r sends it on: no node knew what to do with it
	Loops   = "loops"
)

// Outcome is everything that may become of a connection: fates, and servers
// that are reached with the client as they see it ("b1<-192.0.2.11").
type Outcome struct {
	Fates  []string
	Sticky bool // a client stays with one of them
}

// String gives an outcome as a line.
func (o Outcome) String() string {
	s := strings.Join(o.Fates, " ")
	if o.Sticky {
		s += " sticky"
	}
	return s
}

// Outcomes collects fates.
func Outcomes(fates map[string]bool, sticky bool) Outcome {
	return Outcome{slices.Sorted(maps.Keys(fates)), sticky && len(fates) > 1}
}

// Cluster is what all nodes are told.
type Cluster struct {
	Services     []*state.Service
	LocalCIDRs   map[string][]netip.Prefix // of each node
	ServiceCIDRs []netip.Prefix
	Zones        map[string]string // of nodes
}

// Connection is a new connection.
type Connection struct {
	From  string
	Proto state.Protocol
	To    netip.AddrPort
}

// reader follows one connection.
type reader struct {
	*World
	*Cluster
	proto  state.Protocol
	fates  map[string]bool
	sticky bool
}

// packet is a connection's first packet at a host.
type packet struct {
	src  netip.Addr
	dst  netip.AddrPort
	in   string // the interface it came by, "" where it began
	hops int
}

// Expect tells what becomes of a connection.
func Expect(w *World, c *Cluster, conn Connection) Outcome {
	r := &reader{World: w, Cluster: c, proto: conn.Proto, fates: map[string]bool{}}
	h := w.Hosts[conn.From]
	r.at(h, packet{src: w.Source(h, conn.To.Addr()), dst: conn.To})
	return Outcomes(r.fates, r.sticky)
}

func (r *reader) end(fate string) { r.fates[fate] = true }

// at is a packet at a host: nodes look for a frontend first.
func (r *reader) at(h *Host, p packet) {
	if !h.Node {
		r.on(h, p)
		return
	}
	for _, s := range r.Services {
		for i := range s.Ports {
			if f, ok := r.frontend(h, &s.Ports[i], p.dst); ok {
				r.service(h, p, s, &s.Ports[i], f)
				return
			}
		}
	}
	r.other(h, p)
}

// frontend finds the frontend of an address. Where one address is of two
// kinds, it's the load balancer's: it is guarded.
func (r *reader) frontend(h *Host, port *state.Port, dst netip.AddrPort) (found state.Frontend, ok bool) {
	if port.Protocol != r.proto {
		return found, false
	}
	for _, f := range port.Frontends {
		here := f.Address == dst.Addr()
		if f.Kind == state.NodePort {
			// On the node's own address, and never on loopback.
			here = f.Address.Is4() == dst.Addr().Is4() && dst.Addr() == h.Address()
		}
		if here && f.Port == dst.Port() && (!ok || f.Kind == state.LoadBalancerIP) {
			found, ok = f, true
		}
	}
	return found, ok
}

// service is a packet to a Service.
func (r *reader) service(h *Host, p packet, s *state.Service, port *state.Port, f state.Frontend) {
	if f.Kind == state.LoadBalancerIP && !r.allowed(h, p, s) {
		r.end(Dropped)
		return
	}
	inside := within(r.LocalCIDRs[h.Name], p.src)
	own := h.Has(p.src)
	everywhere, here := r.usable(h, port.Endpoints), r.usableHere(h, port.Endpoints)
	endpoints, masquerade := everywhere, !inside
	switch {
	case !f.Kind.External() && s.InternalTrafficPolicy == state.Local:
		endpoints = here
	case f.Kind.External() && s.ExternalTrafficPolicy == state.Cluster:
		masquerade = true
	case f.Kind.External() && (inside || own):
		masquerade = own && !inside
	case f.Kind.External():
		endpoints, masquerade = here, false
	}
	switch {
	case len(everywhere) == 0 && len(here) == 0:
		r.end(Refused)
	case len(endpoints) == 0:
		r.end(Dropped)
	}
	r.sticky = r.sticky || s.Affinity > 0
	for _, e := range endpoints {
		r.translated(h, p, e, masquerade)
	}
}

// translated is a packet that a node sends to an endpoint. One node translates
// a connection once; another may again, if the endpoint is a frontend too.
func (r *reader) translated(h *Host, p packet, to netip.AddrPort, masquerade bool) {
	if r.activeClusterIP(to.Addr()) {
		r.end(Refused) // kube-proxy, too, lets nothing pass that still goes to a ClusterIP
		return
	}
	// A client that is its own backend would be answered by itself.
	masquerade = masquerade || p.src == to.Addr()
	if masquerade && !h.Has(to.Addr()) { // packets that leave this host
		p.src = r.Leaving(h, to.Addr())
	}
	p.dst = to
	r.on(h, p)
}

// allowed: source ranges guard load-balancer addresses, each family by
// itself. A range that holds an address of this node allows the VIP itself.
func (r *reader) allowed(h *Host, p packet, s *state.Service) bool {
	ranges := slices.DeleteFunc(slices.Clone(s.SourceRanges), func(x netip.Prefix) bool { return x.Addr().Is4() != p.src.Is4() })
	if len(ranges) == 0 || within(ranges, p.src) {
		return true
	}
	holdsNode := slices.ContainsFunc(h.Addresses(), func(a netip.Addr) bool { return within(ranges, a) })
	return holdsNode && p.src == p.dst.Addr()
}

// other is a packet at a node that goes to no frontend.
func (r *reader) other(h *Host, p packet) {
	way := r.Way(h, p.dst.Addr())
	switch {
	case h.Has(p.dst.Addr()):
	case r.activeClusterIP(p.dst.Addr()):
		r.end(Refused)
		return
	case within(r.ServiceCIDRs, p.dst.Addr()):
		r.end(Dropped)
		return
	case r.externalVIP(p.dst.Addr()) && p.in != "" && way.Dev == p.in && !r.externalVIP(way.Next):
		r.end(Refused) // back where it came from, and not to a host of that address
		return
	}
	r.on(h, p)
}

// on is a packet on its way, or at its end.
func (r *reader) on(h *Host, p packet) {
	way := r.Way(h, p.dst.Addr())
	switch {
	case way.Fate != "":
		r.end(way.Fate)
	case way.To != h.Name && p.hops > 8:
		r.end(Loops)
	case way.To != h.Name:
		p.hops++
		p.in = r.Arrives(h.Name, way.To)
		r.at(r.Hosts[way.To], p)
	default:
		if server := r.Server(h, p.dst); server != "" {
			r.end(server + "<-" + r.Seen(h, p.src))
		} else {
			r.end(Refused)
		}
	}
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(x netip.Prefix) bool { return x.Contains(a) })
}

func (r *reader) activeClusterIP(a netip.Addr) bool {
	return slices.ContainsFunc(r.Services, func(s *state.Service) bool { return slices.Contains(s.ClusterIPs, a) })
}

func (r *reader) externalVIP(a netip.Addr) bool {
	for _, s := range r.Services {
		for _, p := range s.Ports {
			for _, f := range p.Frontends {
				if f.Address == a && (f.Kind == state.ExternalIP || f.Kind == state.LoadBalancerIP) {
					return true
				}
			}
		}
	}
	return false
}
