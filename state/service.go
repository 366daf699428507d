// Package state is the vocabulary that the rest of pointsman speaks: what a
// Service is once its manifests have been read, defaulted, validated and
// joined. It imports only the standard library, and every value in it is
// immutable once it has been handed on.
package state

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Protocol is a transport protocol, spelled as in core/v1.
type Protocol string

// The protocols that a Service port may have.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// TrafficPolicy says which endpoints a class of traffic may use, spelled as
// in core/v1.
type TrafficPolicy string

// The traffic policies: any endpoint, or only this node's.
const (
	Cluster TrafficPolicy = "Cluster"
	Local   TrafficPolicy = "Local"
)

// ObjectName is the namespace and name of a Service.
type ObjectName struct {
	Namespace, Name string
}

// String gives namespace/name.
func (n ObjectName) String() string { return n.Namespace + "/" + n.Name }

// Compare orders names by namespace, then name: the order in which clashing
// claims are settled.
func (n ObjectName) Compare(o ObjectName) int {
	return cmp.Or(cmp.Compare(n.Namespace, o.Namespace), cmp.Compare(n.Name, o.Name))
}

// Source is where an operator finds a declaration: a file, relative to the
// manifests directory, and the line of the document in it (counted from 1).
type Source struct {
	File string
	Line int
}

// String gives file:line.
func (s Source) String() string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

// Service is one Service joined with its EndpointSlices. Claims that another
// Service won are already taken out of it.
type Service struct {
	ObjectName
	Source Source

	// ClusterIPs holds at most one address a family. Headless and
	// ExternalName Services have none.
	ClusterIPs []netip.Addr

	InternalTrafficPolicy TrafficPolicy
	ExternalTrafficPolicy TrafficPolicy

	// Affinity is how long a client stays with its endpoint after its last
	// new connection; zero is no affinity (sessionAffinity: None).
	Affinity time.Duration

	// SourceRanges are the loadBalancerSourceRanges, as declared. They guard
	// the load-balancer addresses only, each family by itself.
	SourceRanges []netip.Prefix

	// HealthCheckNodePort is zero where the Service has none.
	HealthCheckNodePort uint16

	// Nodes are the names of the nodes that serve it, sorted; nil means all
	// (pointsman/node-selector).
	Nodes []string

	// RejectWhenAllFail has nothing served where health leaves nothing
	// (pointsman/when-all-fail: reject), instead of all that is declared.
	RejectWhenAllFail bool

	// PanicThreshold is the percentage of healthy endpoints below which all that
	// are declared are served (pointsman/panic-threshold).
	PanicThreshold int

	Ports []Port
}

// ServedBy reports whether a node is one of those that serve it.
func (s *Service) ServedBy(node string) bool {
	_, selected := slices.BinarySearch(s.Nodes, node)
	return s.Nodes == nil || selected
}

// Port is one port of a Service: the addresses it is reached by, and the
// endpoints behind them.
type Port struct {
	Name     string
	Protocol Protocol

	// Frontends are sorted by kind, address and port.
	Frontends []Frontend

	// Endpoints are sorted by address and hold no address twice. Both
	// families may be among them; a frontend uses those of its own.
	Endpoints []Endpoint
}

// FrontendKind says what sort of address a frontend has, which decides the
// traffic policy that counts for it.
type FrontendKind int

// The kinds of frontends. A NodePort has no address of its own: it answers
// on the node's NodePort addresses of a family, which only the node knows.
const (
	ClusterIP FrontendKind = iota
	ExternalIP
	LoadBalancerIP
	NodePort
)

// External reports whether externalTrafficPolicy counts for the kind
// (internalTrafficPolicy otherwise).
func (k FrontendKind) External() bool { return k != ClusterIP }

// TrafficPolicy is the one that counts for frontends of a kind.
func (s *Service) TrafficPolicy(k FrontendKind) TrafficPolicy {
	if k.External() {
		return s.ExternalTrafficPolicy
	}
	return s.InternalTrafficPolicy
}

// Frontend is an address and port that clients connect to.
type Frontend struct {
	Kind    FrontendKind
	Address netip.Addr // of a NodePort: 0.0.0.0 or ::, for the family
	Port    uint16
}

// Compare orders frontends by kind, address and port.
func (f Frontend) Compare(o Frontend) int {
	return cmp.Or(cmp.Compare(f.Kind, o.Kind), f.Address.Compare(o.Address), cmp.Compare(f.Port, o.Port))
}

// Endpoint is one backend of a Service port, with its effective conditions
// (in the sense of discovery/v1): what was declared, until Overlay has folded
// in what the fleet saw.
type Endpoint struct {
	Address  netip.AddrPort
	NodeName string // empty where no host of the fleet is its home
	Zone     string

	// HintNodes and HintZones are the slice's topology hints, or where it has
	// none those that the Service's trafficDistribution gives.
	HintNodes []string
	HintZones []string

	Ready       bool
	Serving     bool
	Terminating bool

	// Check is how its health is found out, nil where it has neither a probe
	// nor a home.
	Check *Check

	// Cause is why the conditions are not the declared ones, or still are them
	// against what the fleet saw; nil where nothing is to be said.
	Cause *Cause
}
