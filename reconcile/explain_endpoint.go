package reconcile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// EndpointExplanation is what an endpoint is good for on this host, and why.
type EndpointExplanation struct {
	Node     string         `json:"node"`
	Endpoint netip.AddrPort `json:"endpoint"` // port 0: whatever its port

	// Backs has an entry for each Service port that it backs.
	Backs []Backing `json:"backs"`

	Hints []string `json:"hints,omitempty"`

	// Kernel has the slots that it's in, and where that isn't as it should be.
	Kernel KernelState `json:"kernel"`

	Connections *Connections `json:"connections,omitempty"` // by frontend
}

// Backing is an endpoint of a Service port.
type Backing struct {
	Service  string         `json:"service"`
	Port     string         `json:"port,omitempty"`
	Protocol state.Protocol `json:"protocol"`
	Source   string         `json:"source"`
	EndpointFate

	// Declared are the conditions of the manifests; absent where they don't have
	// the endpoint any more.
	Declared *Conditions `json:"declared,omitempty"`

	// Check is how its health is found out; absent where it isn't.
	Check *Checked `json:"check,omitempty"`

	// Frontends are those of the port on this host.
	Frontends []BackedFrontend `json:"frontends"`
}

// Conditions are those of an endpoint in a slice.
type Conditions struct {
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating"`
}

// Checked is how an endpoint's health is found out, and what came of it.
type Checked struct {
	Probe   string    `json:"probe"` // empty: it follows its home host
	Verdict string    `json:"verdict"`
	Since   time.Time `json:"since,omitzero"`
	Held    bool      `json:"held,omitempty"` // nobody has a fresh word

	votes []Seen
}

// BackedFrontend is a frontend, and which clients' connections the endpoint
// gets by it.
type BackedFrontend struct {
	Address netip.AddrPort `json:"address"`
	Kind    string         `json:"kind"`
	For     []string       `json:"for,omitempty"`
	Slots   []string       `json:"slots,omitempty"` // in the kernel: map and number
}

// maxBacked bounds what an endpoint is explained for: so many slots of the Service
// ports that it backs. The kernel is asked for each, which takes a second in all,
// and 10,000 Services may have one and the same backend.
const maxBacked = 10_000

// backed shows the Service ports that have an endpoint; with port 0, one of the
// address. It gives the number of those that are too many.
func (x *explaining) backed(e netip.AddrPort, visit func(*state.Service, *state.Port, *state.Endpoint)) (left int) {
	slots := 0
	for _, s := range x.Input.Services {
		for i := range s.Ports {
			p := &s.Ports[i]
			for k := range p.Endpoints {
				switch at := p.Endpoints[k].Address; {
				case at.Addr() != e.Addr() || e.Port() != 0 && e.Port() != at.Port():
				case slots >= maxBacked:
					left++
				default:
					slots += len(p.Endpoints) + spareSlots
					visit(s, p, &p.Endpoints[k])
				}
			}
		}
	}
	return left
}

// ExplainEndpoint explains an endpoint, or all of an address if its port is 0.
// It's a pure function, as Explain is. verdicts are the fleet's.
func ExplainEndpoint(e netip.AddrPort, ev *Evidence, verdicts *state.Verdicts) *EndpointExplanation {
	e = netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
	x := &backer{explaining: newExplaining(Question{To: e}, ev), of: e, verdicts: verdicts, wanted: map[string]bool{}}
	x.owners = x.owned()
	out := &EndpointExplanation{Node: ev.Input.Node.Name, Endpoint: e, Backs: []Backing{}}
	left := x.explaining.backed(e, func(s *state.Service, p *state.Port, at *state.Endpoint) {
		out.Backs = append(out.Backs, x.backing(s, p, at))
	})
	switch {
	case len(out.Backs) == 0:
		out.Hints = x.strangerHints()
	case left > 0:
		out.Hints = []string{fmt.Sprintf("it backs so many Service ports that some (%d) are not looked at: see pointsman get endpoints", left)}
	}
	out.Kernel = x.holders()
	if ev.Tally != nil {
		out.Connections = x.explaining.connections(nil)
	}
	return out
}

// backer is an EndpointExplanation in the making.
type backer struct {
	*explaining
	of       netip.AddrPort
	verdicts *state.Verdicts
	owners   map[string]*state.Service // of frontends
	wanted   map[string]bool           // map and frontend, where the endpoint should be
}

func (x *backer) backing(s *state.Service, p *state.Port, e *state.Endpoint) Backing {
	b := Backing{Service: s.String(), Port: p.Name, Protocol: p.Protocol, Source: s.Source.String(), EndpointFate: fateOf(e)}
	in := *x.Input
	in.Services = []*state.Service{s}
	x.claim = claim{service: s, port: p}
	declared := x.declared()[e.Address]
	if declared != nil {
		b.Declared = &Conditions{declared.Ready, declared.Serving, declared.Terminating}
	}
	if b.Check = x.checked(e); b.Check != nil {
		b.Votes = b.Check.votes
	}
	for _, f := range x.planner.frontends(p, x.Input) {
		b.Frontends = append(b.Frontends, x.by(&b, &in, f, e, declared))
	}
	return b
}

// by explains the endpoint as one of a frontend.
func (x *backer) by(b *Backing, in *Input, f state.Frontend, e, declared *state.Endpoint) BackedFrontend {
	at := netip.AddrPortFrom(f.Address, f.Port)
	ev := Evidence{Input: in, Declared: x.Declared}
	one := explainingWith(x.planner, Question{To: at, Protocol: b.Protocol}, &ev)
	one.plan()
	out := BackedFrontend{Address: at, Kind: kindNames[f.Kind]}
	for _, c := range one.clients() {
		if fate := one.fate(&one.want, c); slices.Contains(fate.Endpoints, e.Address) {
			out.For = append(out.For, c.name)
		}
	}
	for _, r := range one.reasons(e, declared) {
		if !slices.Contains(b.Why, r) {
			b.Why = append(b.Why, r)
		}
	}
	for _, c := range out.For {
		if !slices.Contains(b.For, c) {
			b.For = append(b.For, c)
		}
	}
	x.note(one, e)
	out.Slots = x.slots(one.key(), e)
	return out
}

// note notes the maps in which the frontend should have the endpoint, if no
// other Service has that frontend.
func (x *backer) note(one *explaining, e *state.Endpoint) {
	g := one.want.groups[one.key()]
	if g == nil || x.owners[one.key()] != one.claim.service {
		return
	}
	for _, el := range *g {
		if at, ok := parseEndpoint(el.Value); ok && at == e.Address {
			x.wanted[el.Set+" "+one.key()] = true
		}
	}
}

// owned gives the Service that has each frontend.
func (x *explaining) owned() map[string]*state.Service {
	owners := make(map[string]*state.Service, len(x.Input.Services)*2)
	for _, s := range x.Input.Services {
		for i := range s.Ports {
			for _, f := range x.planner.frontends(&s.Ports[i], x.Input) {
				if key := newBuilder(f, s.Ports[i].Protocol).key; owners[key] == nil {
					owners[key] = s
				}
			}
		}
	}
	return owners
}

// slots gives the places of the kernel in which a frontend has the endpoint.
func (x *backer) slots(key string, e *state.Endpoint) []string {
	if x.Kernel == nil {
		return nil
	}
	var out []string
	if g := x.Kernel.Group(key); g != nil {
		for _, h := range *g {
			if at, ok := parseEndpoint(h.Value); ok && at == e.Address {
				out = append(out, h.Set+" "+strings.TrimPrefix(h.Key, key+" . "))
			}
		}
	}
	return out
}

// holders holds the slots that the endpoint is in against those that it should
// be in. Which number a slot has is of no matter.
func (x *backer) holders() KernelState {
	k := KernelState{Table: string(x.planner.family) + " " + nft.TableName, Elements: []string{}}
	if x.Kernel == nil {
		return k
	}
	k.Known, k.Unsteady, k.Faults = true, x.Kernel.Unsteady, slices.Clone(x.Kernel.Faults)
	has := map[string]bool{}
	for _, h := range x.held() {
		k.Elements = append(k.Elements, elementText(h))
		at := h.Set + " " + h.Key[:max(0, strings.LastIndex(h.Key, " . "))]
		has[at] = true
		if !x.wanted[at] {
			k.Differences = append(k.Differences, Difference{Kind: isExtra, Element: elementText(h)})
		}
	}
	for at := range x.wanted {
		if !has[at] {
			set, key, _ := strings.Cut(at, " ")
			k.Differences = append(k.Differences, Difference{Kind: isMissing, Element: set + " { " + key + " . ... : " + addressText(x.of) + " }"})
		}
	}
	slices.Sort(k.Elements)
	slices.SortFunc(k.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Element, b.Element))
	})
	return k
}

// held gives the elements that have the endpoint for a value.
func (x *backer) held() []nft.Element {
	var out []nft.Element
	for _, g := range x.Kernel.Groups {
		for _, e := range *g {
			if at, ok := parseEndpoint(e.Value); ok && at.Addr() == x.of.Addr() && (x.of.Port() == 0 || at.Port() == x.of.Port()) {
				out = append(out, e)
			}
		}
	}
	return out
}

// strangerHints are for an address that backs nothing: it may do so by another
// port, or be a frontend's.
func (x *backer) strangerHints() []string {
	var ports []string
	x.explaining.backed(netip.AddrPortFrom(x.of.Addr(), 0), func(s *state.Service, _ *state.Port, e *state.Endpoint) {
		ports = append(ports, fmt.Sprintf("%d of Service %s", e.Address.Port(), s.ObjectName))
	})
	if n := len(ports) - maxHints; n > 0 {
		ports = append(ports[:maxHints], fmt.Sprintf("%d more", n))
	}
	if ports != nil {
		return []string{"it's an endpoint by other ports: " + strings.Join(ports, ", ")}
	}
	for _, p := range allProtocols {
		if c := x.claimOf(p); c.service != nil {
			return []string{"it's a frontend of Service " + c.service.String() + ": see pointsman explain " + x.of.String()}
		}
	}
	for _, s := range x.Input.Services {
		if hasAddress(s, x.of.Addr()) {
			return []string{"it's an address of Service " + s.String()}
		}
	}
	return nil
}

// OK reports whether the endpoint gets new connections from somebody, and the
// kernel is as it should be.
func (x *EndpointExplanation) OK() bool {
	used := slices.ContainsFunc(x.Backs, func(b Backing) bool { return len(b.For) > 0 })
	return used && x.Kernel.OK()
}
