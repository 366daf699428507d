package reconcile

import (
	"net/netip"
	"slices"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// Question asks what becomes of new connections to an address, by way of this
// host.
type Question struct {
	To       netip.AddrPort
	Protocol state.Protocol // empty: TCP, or what is served there instead
	From     netip.Addr     // a client; not valid: any
}

// Evidence is what a Question is answered from. What is absent is not known.
type Evidence struct {
	Input     *Input           // what the kernel is to be made equal to
	Declared  []*state.Service // the Services of Input before health and drains
	Elsewhere []*state.Service // those that other hosts serve, and this one doesn't
	Kernel    *nft.Found       // what the kernel holds, see Ask
	Tally     *Tally           // connections that there are

	// NodePortsWhy says why NodePorts answer where they do.
	NodePortsWhy string
}

// Explanation is what becomes of new connections to an address and why: by
// what this host should do, and by what its kernel does.
type Explanation struct {
	Node     string         `json:"node"`
	To       netip.AddrPort `json:"to"`
	Protocol state.Protocol `json:"protocol"`
	From     netip.Addr     `json:"from,omitzero"`

	// Frontend is absent where the address is nobody's.
	Frontend *Frontend `json:"frontend,omitempty"`

	// Hints are what else there is to know of the address, such as that it's
	// an endpoint's, or that a Service has another port of it.
	Hints []string `json:"hints,omitempty"`

	// Clients has one entry for the client that was asked about, else one for
	// each kind of client that is treated in a way of its own: those outside
	// come first.
	Clients []ClientFate `json:"clients"`

	Endpoints []EndpointFate `json:"endpoints,omitempty"`
	Affinity  *Affinity      `json:"affinity,omitempty"`
	Kernel    KernelState    `json:"kernel"`

	Connections *Connections `json:"connections,omitempty"`
}

// Frontend is whose the address is.
type Frontend struct {
	Service   string   `json:"service"` // namespace/name
	Port      string   `json:"port,omitempty"`
	Source    string   `json:"source"` // file:line
	Kind      string   `json:"kind"`
	Policy    string   `json:"policy"` // the field and its value
	Ranges    []string `json:"sourceRanges,omitempty"`
	Contested []string `json:"contested,omitempty"` // Services that claim it too, and lost
}

// Verdict is what becomes of a connection.
type Verdict string

// The verdicts. What passes is not pointsman's: it goes where the host's routes
// lead it, untranslated.
const (
	Served  Verdict = "served"
	Refused Verdict = "refused"
	Dropped Verdict = "dropped"
	Passes  Verdict = "passes"
)

// ClientFate is what becomes of a kind of client's connections.
type ClientFate struct {
	Clients string `json:"clients"` // outside, inside, this host, or an address

	// Intent is what should become of them. Actual is what the kernel makes of
	// them, if it's known.
	Intent Fate  `json:"intent"`
	Actual *Fate `json:"actual,omitempty"`
}

// Fate is what the rules make of a connection.
type Fate struct {
	Verdict   Verdict          `json:"verdict"`
	Why       string           `json:"why,omitempty"`
	Endpoints []netip.AddrPort `json:"endpoints,omitempty"` // sorted
	Sticky    bool             `json:"sticky,omitempty"`    // a client stays with one of them

	// Masquerade says whether the endpoints see an address of this host instead
	// of the client's, and why. Those that are on this very host never do, and
	// Hairpins are those that do for being the client themselves.
	Masquerade bool             `json:"masquerade"`
	Source     string           `json:"source,omitempty"`
	Hairpins   []netip.AddrPort `json:"hairpins,omitempty"`

	// Looping: refused all the same where the host's routes lead it out by the
	// interface it came in by.
	Looping bool `json:"looping,omitempty"`
}

// Now is what becomes of the connections at present: what the kernel does, as
// far as it's known.
func (c *ClientFate) Now() *Fate {
	if c.Actual != nil {
		return c.Actual
	}
	return &c.Intent
}

// OK reports whether new connections are served, and the kernel is as it should
// be.
func (x *Explanation) OK() bool {
	return x.Clients[0].Now().Verdict == Served && x.Kernel.OK()
}

// explaining is an Explanation in the making.
type explaining struct {
	Evidence
	q       Question
	planner *Planner
	claim   claim
	want    view
	have    view // of what the kernel holds
	near    *near
}

// claim is a frontend and the Service port that it is of.
type claim struct {
	service  *state.Service // nil: nobody's
	port     *state.Port
	frontend state.Frontend
	others   []*state.Service // that claim it, too
}

// Explain answers a question. It's a pure function: what should be is what the
// Planner makes of it, and what is follows from the elements that are there.
func Explain(q Question, ev *Evidence) *Explanation {
	x := newExplaining(q, ev)
	x.plan()
	out := &Explanation{Node: ev.Input.Node.Name, To: x.q.To, Protocol: x.q.Protocol, From: x.q.From, Hints: x.hints()}
	for _, c := range x.clients() {
		out.Clients = append(out.Clients, x.fates(c))
	}
	if x.claim.service != nil {
		out.Frontend = x.frontend()
		out.Endpoints = x.endpointFates(out.Clients)
		out.Affinity = x.affinity()
	}
	out.Kernel = x.compare()
	out.Connections = x.connections(out.Endpoints)
	return out
}

func newExplaining(q Question, ev *Evidence) *explaining {
	q.To = netip.AddrPortFrom(q.To.Addr().Unmap(), q.To.Port())
	q.From = q.From.Unmap()
	f := nft.IPv4
	if q.To.Addr().Is6() {
		f = nft.IPv6
	}
	return explainingWith(&Planner{family: f}, q, ev) // without the fixed chains
}

func explainingWith(p *Planner, q Question, ev *Evidence) *explaining {
	x := &explaining{Evidence: *ev, q: q, planner: p}
	x.q.Protocol = x.protocol()
	x.claim = x.claimOf(x.q.Protocol)
	return x
}

// allProtocols in the order in which they are looked for.
var allProtocols = []state.Protocol{state.TCP, state.UDP, state.SCTP}

// protocol gives the one that is asked about: where none was named, TCP, unless
// only another is served at the address.
func (x *explaining) protocol() state.Protocol {
	if x.q.Protocol != "" {
		return x.q.Protocol
	}
	for _, p := range allProtocols {
		if x.claimOf(p).service != nil {
			return p
		}
	}
	return state.TCP
}

// claimOf finds whose the address is. The first Service by name has it, and of
// its own kinds of frontends the last, as in the Planner.
func (x *explaining) claimOf(p state.Protocol) (c claim) {
	for _, s := range x.Input.Services {
		port, f := x.claimBy(s, p)
		switch {
		case port == nil:
		case c.service == nil:
			c = claim{service: s, port: port, frontend: f}
		default:
			c.others = append(c.others, s)
		}
	}
	return c
}

func (x *explaining) claimBy(s *state.Service, p state.Protocol) (port *state.Port, found state.Frontend) {
	for i := range s.Ports {
		if s.Ports[i].Protocol != p {
			continue
		}
		for _, f := range x.planner.frontends(&s.Ports[i], x.Input) {
			if f.Address == x.q.To.Addr() && f.Port == x.q.To.Port() {
				port, found = &s.Ports[i], f
			}
		}
	}
	return port, found
}

// key names the frontend's group.
func (x *explaining) key() string {
	return newBuilder(state.Frontend{Address: x.q.To.Addr(), Port: x.q.To.Port()}, x.q.Protocol).key
}

// endpoints are those of the Service port, of the family.
func (x *explaining) endpoints() []state.Endpoint {
	if x.claim.service == nil {
		return nil
	}
	return keep(x.claim.port.Endpoints, func(e state.Endpoint) bool { return x.planner.isMine(e.Address.Addr()) })
}

// plan makes the elements that should be there, of the Services that have a
// say: with the slots that the kernel has now, it's what the loop would write.
func (x *explaining) plan() {
	in := *x.Input
	in.Services = slices.DeleteFunc(slices.Clone(x.Input.Services), func(s *state.Service) bool {
		return s != x.claim.service && !hasAddress(s, x.q.To.Addr())
	})
	var held func(string) *nft.Group
	if x.Kernel != nil {
		held = func(id string) *nft.Group {
			if id != x.key() {
				return nil
			}
			return x.Kernel.Group(id)
		}
		x.have = newView(x.Kernel.Groups, x.key(), x.q)
	}
	x.want = newView(x.planner.Plan(&in, held).Groups, x.key(), x.q)
}

// hasAddress reports whether an address is a Service's own: a ClusterIP or a
// VIP, whatever the port.
func hasAddress(s *state.Service, a netip.Addr) bool {
	if slices.Contains(s.ClusterIPs, a) {
		return true
	}
	return slices.ContainsFunc(s.Ports, func(p state.Port) bool {
		return slices.ContainsFunc(p.Frontends, func(f state.Frontend) bool { return f.Kind != state.NodePort && f.Address == a })
	})
}

// frontend describes the claim.
func (x *explaining) frontend() *Frontend {
	s, f := x.claim.service, x.claim.frontend
	out := &Frontend{
		Service: s.String(), Port: x.claim.port.Name, Source: s.Source.String(), Kind: kindNames[f.Kind],
		Policy: "internalTrafficPolicy: " + string(s.InternalTrafficPolicy),
	}
	if f.Kind.External() {
		out.Policy = "externalTrafficPolicy: " + string(s.ExternalTrafficPolicy)
	}
	if f.Kind == state.LoadBalancerIP {
		for _, r := range x.planner.mine(s.SourceRanges) {
			out.Ranges = append(out.Ranges, r.String())
		}
	}
	for _, o := range x.claim.others {
		out.Contested = append(out.Contested, o.String())
	}
	return out
}

var kindNames = map[state.FrontendKind]string{
	state.ClusterIP: "ClusterIP", state.ExternalIP: "externalIP", state.LoadBalancerIP: "load-balancer IP", state.NodePort: "NodePort",
}
