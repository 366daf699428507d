package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/state"
)

// EndpointFate is an endpoint behind an address, and why it gets connections or
// none.
type EndpointFate struct {
	Address netip.AddrPort `json:"address"`
	Node    string         `json:"node,omitempty"`
	Zone    string         `json:"zone,omitempty"`

	// The effective conditions.
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating"`

	// For are the kinds of clients whose connections it gets by intent; Actual
	// those that the kernel sends there. Why says why others aren't among For.
	For    []string `json:"for,omitempty"`
	Actual []string `json:"actual,omitempty"`
	Why    []Reason `json:"why,omitempty"`

	// Refused: connections to it are translated, and then refused.
	Refused bool `json:"refused,omitempty"`

	Votes []Seen   `json:"votes,omitempty"` // what is seen of it, where that counts
	Drain *Drained `json:"drain,omitempty"`

	// Open and Closing count this frontend's connections to it.
	Open    int `json:"open,omitempty"`
	Closing int `json:"closing,omitempty"`
}

// Reason is why an endpoint gets no connections.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// The codes of reasons.
const (
	whyNotReady    = "not-ready"
	whyNotServing  = "not-serving"
	whyTerminating = "terminating"
	whySeenDown    = "seen-down"
	whyUntried     = "untried"
	whyDrained     = "drained"
	whySpare       = "spare"
	whyKept        = "kept-anyway"
	whyNotLocal    = "not-local"
	whyOtherNode   = "other-node"
	whyOtherZone   = "other-zone"
	whyServiceIP   = "service-address"
	whyStranger    = "stranger"
)

// Seen is what an observer says of an endpoint.
type Seen struct {
	Observer string    `json:"observer"`
	Verdict  string    `json:"verdict"`
	Saw      string    `json:"saw,omitempty"`
	Since    time.Time `json:"since"`
}

// Drained is the drain that counts for an endpoint.
type Drained struct {
	Target string    `json:"target"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until"`
}

// endpointFates describes every endpoint of the Service port.
func (x *explaining) endpointFates(clients []ClientFate) []EndpointFate {
	var out []EndpointFate
	declared := x.declared()
	services := x.clusterIPs()
	for _, e := range x.endpoints() {
		f := fateOf(&e)
		for i := range clients {
			if _, ok := slices.BinarySearchFunc(clients[i].Intent.Endpoints, e.Address, netip.AddrPort.Compare); ok {
				f.For = append(f.For, clients[i].Clients)
			}
			if _, ok := slices.BinarySearchFunc(clients[i].Now().Endpoints, e.Address, netip.AddrPort.Compare); ok {
				f.Actual = append(f.Actual, clients[i].Clients)
			}
		}
		f.Why = x.reasons(&e, declared[e.Address])
		if services[e.Address.Addr()] {
			f.Refused = true
			f.Why = append(f.Why, Reason{whyServiceIP, "is a ClusterIP itself: what is translated to it is refused"})
		}
		out = append(out, f)
	}
	return append(out, x.strangers(clients)...)
}

// strangers are what the kernel sends connections to, and is no endpoint.
func (x *explaining) strangers(clients []ClientFate) []EndpointFate {
	var out []EndpointFate
	for i := range clients {
		for _, at := range clients[i].Now().Endpoints {
			if slices.ContainsFunc(x.claim.port.Endpoints, func(e state.Endpoint) bool { return e.Address == at }) {
				continue
			}
			k := slices.IndexFunc(out, func(f EndpointFate) bool { return f.Address == at })
			if k < 0 {
				k = len(out)
				out = append(out, EndpointFate{Address: at, Why: []Reason{{whyStranger, "is no endpoint of the Service port"}}})
			}
			out[k].Actual = append(out[k].Actual, clients[i].Clients)
		}
	}
	return out
}

func fateOf(e *state.Endpoint) EndpointFate {
	f := EndpointFate{Address: e.Address, Node: e.NodeName, Zone: e.Zone, Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating}
	if c := e.Cause; c != nil {
		if d := c.Drain; d != nil {
			f.Drain = &Drained{Target: d.Target.String(), By: d.By, Reason: d.Reason, Until: d.Until}
		}
		f.Votes = seenBy(c.Judgement)
	}
	return f
}

// seenBy gives the votes of a judgement, which may be nil.
func seenBy(j *state.Judgement) []Seen {
	if j == nil {
		return nil
	}
	var out []Seen
	for _, v := range j.Votes {
		s := Seen{Observer: v.Observer, Verdict: v.Verdict.String(), Since: v.Since}
		if v.Verdict == state.Down {
			s.Saw = v.Failure.String()
		}
		out = append(out, s)
	}
	return out
}

// declared gives the port's endpoints as the manifests have them.
func (x *explaining) declared() map[netip.AddrPort]*state.Endpoint {
	out := map[netip.AddrPort]*state.Endpoint{}
	for _, s := range x.Declared {
		if s.ObjectName != x.claim.service.ObjectName {
			continue
		}
		for i := range s.Ports {
			if p := &s.Ports[i]; p.Name == x.claim.port.Name && p.Protocol == x.claim.port.Protocol {
				for k := range p.Endpoints {
					out[p.Endpoints[k].Address] = &p.Endpoints[k]
				}
			}
		}
	}
	return out
}

// clusterIPs are those of all Services.
func (x *explaining) clusterIPs() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, s := range x.Input.Services {
		for _, a := range s.ClusterIPs {
			out[a] = true
		}
	}
	return out
}

// reasons says why an endpoint isn't used by everyone: what its conditions are
// and why, and then where it is. declared may be nil.
func (x *explaining) reasons(e, declared *state.Endpoint) []Reason {
	out := conditionReasons(e, declared)
	if x.isLocalOnly() && (e.NodeName == "" || e.NodeName != x.Input.Node.Name) {
		where := "has no nodeName"
		if e.NodeName != "" {
			where = "is on " + e.NodeName
		}
		out = append(out, Reason{whyNotLocal, where + ", and the policy is Local"})
	}
	if e.Ready && !x.isLocalOnly() {
		out = append(out, x.distance(e)...)
	}
	return out
}

// isLocalOnly reports whether clients outside get this host's endpoints only.
func (x *explaining) isLocalOnly() bool {
	return x.claim.service.TrafficPolicy(x.claim.frontend.Kind) == state.Local
}

// conditionReasons says why an endpoint isn't ready, or is in spite of what was
// seen.
func conditionReasons(e, declared *state.Endpoint) []Reason {
	if declared == nil {
		declared = e
	}
	var out []Reason
	switch {
	case e.Ready || declared.Ready && e.Cause != nil:
	case declared.Terminating && !declared.Serving:
		out = append(out, Reason{whyNotServing, "is terminating, and not serving, in its manifest"})
	case declared.Terminating:
		out = append(out, Reason{whyTerminating, "is terminating in its manifest"})
	default:
		out = append(out, Reason{whyNotReady, "is not ready in its manifest"})
	}
	if c := e.Cause; c != nil {
		out = append(out, causeReason(c))
	}
	if !e.Ready && e.Serving && e.Terminating {
		out = append(out, Reason{whySpare, "serves while no other endpoint is ready"})
	}
	return out
}

func causeReason(c *state.Cause) Reason {
	switch c.Kind {
	case state.SeenDown:
		return Reason{whySeenDown, "fails its probes"}
	case state.Untried:
		return Reason{whyUntried, "has not been probed yet, and others are up"}
	case state.KeptAnyway:
		return Reason{whyKept, "fails its probes, and is served since too few would be left"}
	}
	text := "is draining"
	if c.Judgement != nil && c.Judgement.Verdict == state.Down {
		text += ", and fails its probes"
	}
	return Reason{whyDrained, text}
}

// near is what policy Cluster chooses of a Service port's ready endpoints.
type near struct {
	chosen  map[netip.AddrPort]bool
	byNodes bool // all of them have a hint for this node
}

// nearness is looked for once, as there may be thousands of endpoints.
func (x *explaining) nearness() *near {
	if x.near != nil {
		return x.near
	}
	x.near = &near{chosen: map[netip.AddrPort]bool{}, byNodes: true}
	for _, a := range choose(x.claim.port.Endpoints, x.q.To.Addr().Is6(), x.Input.Node).cluster {
		x.near.chosen[a] = true
	}
	for i := range x.claim.port.Endpoints {
		if e := &x.claim.port.Endpoints[i]; x.near.chosen[e.Address] && !slices.Contains(e.HintNodes, x.Input.Node.Name) {
			x.near.byNodes = false
		}
	}
	return x.near
}

// distance says why a ready endpoint is too far: the hints of all are followed.
func (x *explaining) distance(e *state.Endpoint) []Reason {
	near, node := x.nearness(), x.Input.Node
	if near.chosen[e.Address] {
		return nil
	}
	if len(e.HintNodes) > 0 && !slices.Contains(e.HintNodes, node.Name) && near.byNodes {
		return []Reason{{whyOtherNode, "is meant for " + strings.Join(e.HintNodes, ", ") + ", and this is " + node.Name}}
	}
	return []Reason{{whyOtherZone, fmt.Sprintf("is meant for zone %s, and this is zone %s", strings.Join(e.HintZones, ", "), node.Zone)}}
}
