package reconcile

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// Remainder is what is left of the connections that this host translates to what
// is drained. Others that reach the endpoints are none of them: a drain doesn't
// keep new ones away (probes, monitoring), so they would never be none. Each
// connection is translated by one host, so that sums over hosts are true.
type Remainder struct {
	// Drained: the kernel gives new connections to others, if there are any. Kept:
	// to some endpoints it gives some all the same, as there are none.
	Drained, Kept bool

	Connections int
	To          []RemainingTo // at most 20, the most first
}

// RemainingTo is what one client has to one endpoint.
type RemainingTo struct {
	Endpoint    netip.AddrPort `json:"endpoint"`
	Protocol    state.Protocol `json:"protocol"`
	Client      netip.Addr     `json:"client"`
	Connections int            `json:"connections"`
}

// What there is of RemainingTo in an answer, and while it's made: the clients of
// a large table may be as many as the connections.
const (
	maxRemainingTo = 20
	maxClients     = 10_000
)

// Remaining looks for the connections that are left to a drain's target.
func (c *Conntracker) Remaining(ctx context.Context, t state.DrainTarget) (Remainder, error) {
	r := Remainder{Drained: true}
	clients := map[RemainingTo]int{}
	for _, f := range families() {
		in := c.served(f)
		if in == nil {
			r.Drained = false
			continue
		}
		d := scopeOf(f, in, t)
		r.Drained, r.Kept = r.Drained && !d.ready, r.Kept || d.kept
		if len(d.endpoints) == 0 {
			continue
		}
		err := host.EachConnectionOf(ctx, hostFamily(f), d.filter(), func(conn host.Connection) {
			if !d.has(&conn) {
				return
			}
			r.Connections++
			of := RemainingTo{Endpoint: conn.ReplySource, Protocol: conn.Protocol, Client: conn.Source.Addr()}
			if _, known := clients[of]; known || len(clients) < maxClients {
				clients[of]++
			}
		})
		if err != nil {
			return r, err
		}
	}
	r.To = most(clients)
	return r, nil
}

// served gives the input that a family was last made equal to.
func (c *Conntracker) served(f nft.Family) *Input {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.syncs[f].served
}

func most(clients map[RemainingTo]int) []RemainingTo {
	all := make([]RemainingTo, 0, len(clients))
	for of, n := range clients {
		of.Connections = n
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b RemainingTo) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), a.Endpoint.Compare(b.Endpoint), a.Client.Compare(b.Client), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all[:min(len(all), maxRemainingTo)]
}

// transport is an address with port and protocol.
type transport struct {
	protocol state.Protocol
	address  netip.AddrPort
}

// drainScope is what of an input a drain is about.
type drainScope struct {
	endpoints map[transport]bool
	// frontends are a drained Service's. What comes to its endpoints by another
	// one isn't drained. Nil: any.
	frontends map[transport]bool

	ready, kept bool // some of the endpoints; see Remainder
}

func scopeOf(f nft.Family, in *Input, t state.DrainTarget) *drainScope {
	d := &drainScope{endpoints: map[transport]bool{}}
	if t.Service != (state.ObjectName{}) {
		d.frontends = map[transport]bool{}
	}
	if e := t.Endpoint; e.Port() != 0 && e.Addr().Is6() == (f == nft.IPv6) { // also after its Service is gone
		for _, protocol := range allProtocols {
			d.endpoints[transport{protocol, t.Endpoint}] = true
		}
	}
	for _, s := range in.Services {
		for i := range s.Ports {
			d.add(f, in, s, &s.Ports[i], t)
		}
	}
	return d
}

// add takes in a Service port, if any endpoint of it is drained.
func (d *drainScope) add(f nft.Family, in *Input, s *state.Service, port *state.Port, t state.DrainTarget) {
	mine := map[netip.AddrPort]bool{}
	for i := range port.Endpoints {
		e := &port.Endpoints[i]
		if e.Address.Addr().Is6() == (f == nft.IPv6) && t.Covers(s.ObjectName, e) {
			mine[e.Address] = true
			d.endpoints[transport{port.Protocol, e.Address}] = true
			d.ready = d.ready || e.Ready
		}
	}
	if len(mine) == 0 {
		return
	}
	chosen := choose(port.Endpoints, f == nft.IPv6, in.Node)
	for _, frontend := range (&Planner{family: f}).frontends(port, in) {
		d.kept = d.kept || slices.ContainsFunc(newFlows(s, frontend.Kind, chosen), func(e netip.AddrPort) bool { return mine[e] })
		if d.frontends != nil {
			d.frontends[transport{port.Protocol, netip.AddrPortFrom(frontend.Address, frontend.Port)}] = true
		}
	}
}

// filter has the kernel pick out the connections of a single address.
func (d *drainScope) filter() host.ConnectionFilter {
	var only netip.Addr
	for e := range d.endpoints {
		if only.IsValid() && only != e.address.Addr() {
			return host.ConnectionFilter{}
		}
		only = e.address.Addr()
	}
	return host.ConnectionFilter{ReplySource: netip.AddrPortFrom(only, 0)}
}

// has tells whether a connection is one of those that are waited for.
func (d *drainScope) has(c *host.Connection) bool {
	return !c.Closing && c.ReplySource != c.Destination && d.endpoints[transport{c.Protocol, c.ReplySource}] &&
		(d.frontends == nil || d.frontends[transport{c.Protocol, c.Destination}])
}
