package state

import (
	"net/netip"
	"time"
)

// Probe says how it's found out whether an endpoint works, in the terms of a
// core/v1 Probe. At most one of HTTP, GRPC and Exec is set; with none of them a
// TCP connection is opened.
type Probe struct {
	HTTP *HTTPProbe
	GRPC *GRPCProbe
	Exec []string // the command line; only hosts with --allow-exec-probes run it

	Period  time.Duration // from the start of one probe to that of the next
	Timeout time.Duration

	// SuccessThreshold and FailureThreshold are consecutive counts.
	SuccessThreshold int
	FailureThreshold int
}

// HTTPProbe is a core/v1 HTTPGetAction. A status from 200 to 399 is a success.
type HTTPProbe struct {
	TLS     bool   // scheme HTTPS; the certificate isn't verified, as the kubelet has it
	Host    string // for the Host header and TLS server name; empty: the target's address
	Path    string
	Headers []Header // in the manifest's order
}

// Header is an HTTP header.
type Header struct{ Name, Value string }

// GRPCProbe is a core/v1 GRPCAction: grpc.health.v1.Health/Check.
type GRPCProbe struct {
	Service string
}

// CheckKey names a Check: the same on every host.
type CheckKey uint64

// Check is one thing to be found out about a backend. Endpoints that ask for
// the same have equal Checks, so that it's found out once.
type Check struct {
	Key    CheckKey // a hash of all the rest
	Target netip.AddrPort

	// Protocol is that of the port where Probe is nil.
	Protocol Protocol

	// Probe is nil where nothing is asked for: such a backend is good as long as
	// its home host lives. Once that is dead, others try to connect (TCP), or
	// wait (UDP and SCTP, which can't be asked).
	Probe *Probe

	// Home is the nodeName of the endpoint, empty where it has none.
	Home string

	// From are the nodes that may probe, sorted; nil means any
	// (pointsman/probe-from).
	From []string
}
