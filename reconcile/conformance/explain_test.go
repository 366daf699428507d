package conformance

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pointsman/reconcile"
	"pointsman/reconcile/conformance/reading"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// explained follows a connection from host to host by what explain says on each
// node, and by nothing else.
type explained struct {
	w      *reading.World
	inputs map[string]*reconcile.Input
	tables map[string]*nft.Table
	proto  state.Protocol
	fates  map[string]bool
	sticky bool
	wrong  []string // what it says against itself
}

// explained is a cluster that explain is asked about.
func (f family) explained(c *reading.Cluster) *explained {
	return &explained{w: f.World, inputs: f.inputs(c), tables: f.tables(c)}
}

// follow tells what becomes of a connection.
func (x *explained) follow(conn reading.Connection) (reading.Outcome, []string) {
	x.proto, x.fates, x.sticky, x.wrong = conn.Proto, map[string]bool{}, false, nil
	h := x.w.Hosts[conn.From]
	x.at(h, hopTo{src: x.w.Source(h, conn.To.Addr()), dst: conn.To})
	return reading.Outcomes(x.fates, x.sticky), x.wrong
}

// hopTo is a connection's first packet at a host.
type hopTo struct {
	src  netip.Addr
	dst  netip.AddrPort
	in   string
	hops int
}

func (x *explained) at(h *reading.Host, p hopTo) {
	if !h.Node {
		x.on(h, p)
		return
	}
	q := reconcile.Question{To: p.dst, Protocol: x.proto, From: p.src}
	table := x.tables[h.Name]
	answer := reconcile.Explain(q, &reconcile.Evidence{Input: x.inputs[h.Name], Kernel: &nft.Found{Groups: table.Groups}})
	if !answer.Kernel.OK() {
		x.wrong = append(x.wrong, h.Name+": the kernel isn't what it is")
	}
	fate, actual := answer.Clients[0].Intent, answer.Clients[0].Actual
	if fate.Verdict != actual.Verdict || !slices.Equal(fate.Endpoints, actual.Endpoints) || fate.Masquerade != actual.Masquerade {
		x.wrong = append(x.wrong, h.Name+": the kernel does something else")
	}
	switch fate.Verdict {
	case reconcile.Refused, reconcile.Dropped:
		x.fates[string(fate.Verdict)] = true
	case reconcile.Passes:
		x.passes(h, p, answer)
	default:
		x.sticky = x.sticky || fate.Sticky
		for _, e := range fate.Endpoints {
			x.translated(h, p, e, answer)
		}
	}
}

// passes is a packet that goes on as it is; but a VIP's not the way it came.
func (x *explained) passes(h *reading.Host, p hopTo, answer *reconcile.Explanation) {
	way := x.w.Way(h, p.dst.Addr())
	if answer.Clients[0].Intent.Looping && p.in != "" && way.Dev == p.in && !x.isVIP(h, way.Next) {
		x.fates[reading.Refused] = true
		return
	}
	x.on(h, p)
}

func (x *explained) isVIP(h *reading.Host, a netip.Addr) bool {
	return x.tables[h.Name].Groups["external-vips "+a.String()] != nil
}

func (x *explained) translated(h *reading.Host, p hopTo, to netip.AddrPort, answer *reconcile.Explanation) {
	i := slices.IndexFunc(answer.Endpoints, func(e reconcile.EndpointFate) bool { return e.Address == to })
	if len(answer.Endpoints[i].For) != 1 {
		x.wrong = append(x.wrong, to.String()+" is chosen, and is for nobody")
	}
	if answer.Endpoints[i].Refused {
		x.fates[reading.Refused] = true
		return
	}
	fate := answer.Clients[0].Intent
	if (fate.Masquerade || slices.Contains(fate.Hairpins, to)) && !h.Has(to.Addr()) {
		p.src = x.w.Leaving(h, to.Addr())
	}
	p.dst = to
	x.on(h, p)
}

func (x *explained) on(h *reading.Host, p hopTo) {
	way := x.w.Way(h, p.dst.Addr())
	switch {
	case way.Fate != "":
		x.fates[way.Fate] = true
	case way.To != h.Name && p.hops > 8:
		x.fates[reading.Loops] = true
	case way.To != h.Name:
		p.hops++
		p.in = x.w.Arrives(h.Name, way.To)
		x.at(x.w.Hosts[way.To], p)
	default:
		if server := x.w.Server(h, p.dst); server != "" {
			x.fates[server+"<-"+x.w.Seen(h, p.src)] = true
		} else {
			x.fates[reading.Refused] = true
		}
	}
}

// TestExplain: what explain says on each node is what the table says.
func TestExplain(t *testing.T) {
	for _, s := range scenarios {
		c := cluster(s.settings, s.services...)
		for _, f := range families {
			x := f.explained(c)
			for _, r := range s.rows {
				for _, p := range protocols {
					got, wrong := x.follow(reading.Connection{From: r.from, Proto: p, To: target(r.to, f.IPv6)})
					if want := r.wantIn(f); f.plain(got) != want || wrong != nil {
						t.Errorf("%s: %s to %s/%s (%s): %q, the table says %q %q", s.name, r.from, r.to, p, f.Family, f.plain(got), want, wrong)
					}
				}
			}
		}
	}
}

// TestExplainCombinations: so it is whatever the fields are.
func TestExplainCombinations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCombination(t)
		f := families[rapid.IntRange(0, 1).Draw(t, "family")]
		told := cluster(c.settings, c.services...)
		from, x := oneOf(t, "client", reading.Clients...), f.explained(told)
		for _, to := range c.targets {
			conn := reading.Connection{From: from, Proto: oneOf(t, "protocol", protocols...), To: target(to, f.IPv6)}
			got, wrong := x.follow(conn)
			if want := reading.Expect(f.World, told, conn); got.String() != want.String() || wrong != nil {
				t.Fatalf("%s\n%s to %s/%s (%s): explained %q, read %q %q", c, from, to, conn.Proto, f.Family, got, want, wrong)
			}
		}
	})
}
