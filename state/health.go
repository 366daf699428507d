package state

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"time"
)

// Verdict is what is thought of a backend.
type Verdict uint8

// The verdicts. Unknown is nobody's word yet, or nobody's any more.
const (
	Unknown Verdict = iota
	Up
	Down
)

// String gives the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Up:
		return "up"
	case Down:
		return "down"
	}
	return "unknown"
}

// Failure is the class of what an observer saw when a probe failed. It's six bits
// in gossip, so the numbers stay; of one that it doesn't know a release says that it
// failed.
type Failure uint8

// The classes of failures.
const (
	NoFailure    Failure = 0
	Refused      Failure = 1 // connection refused or reset
	TimedOut     Failure = 2
	Unreachable  Failure = 3 // no route, host or network unreachable
	BadStatus    Failure = 4 // an HTTP status that is no success, and none of those below
	BadTLS       Failure = 5
	BadProtocol  Failure = 6 // an answer that isn't HTTP, or gRPC
	NotServing   Failure = 7 // gRPC health: not SERVING
	ExitCode     Failure = 8 // exec: not 0
	HomeDead     Failure = 9 // its home host is dead, and it can't be asked
	OtherFailure Failure = 10

	clientError Failure = 11 // HTTP status 400, and so on to 431
	serverError Failure = 43 // HTTP status 500, and so on to 511
)

// StatusFailure is that of an HTTP status that is no success.
func StatusFailure(status int) Failure {
	switch {
	case 400 <= status && status <= 431:
		return clientError + Failure(status-400)
	case 500 <= status && status <= 511:
		return serverError + Failure(status-500)
	}
	return BadStatus
}

// status is the HTTP status that a Failure is of, 0 if it's of none.
func (f Failure) status() int {
	switch {
	case clientError <= f && f < serverError:
		return 400 + int(f-clientError)
	case serverError <= f && f <= serverError+11:
		return 500 + int(f-serverError)
	}
	return 0
}

// String says what was seen.
func (f Failure) String() string {
	switch f {
	case NoFailure:
		return "answers"
	case Refused:
		return "connection refused"
	case TimedOut:
		return "timed out"
	case Unreachable:
		return "unreachable"
	case BadStatus:
		return "bad HTTP status"
	case BadTLS:
		return "TLS failed"
	case BadProtocol:
		return "malformed answer"
	case NotServing:
		return "gRPC: not serving"
	case ExitCode:
		return "command failed"
	case HomeDead:
		return "its host is dead"
	}
	if status := f.status(); status != 0 {
		return fmt.Sprintf("HTTP status %d", status)
	}
	return "failed"
}

// Vote is one observer's word about a Check.
type Vote struct {
	Observer string // a node's name
	Verdict  Verdict
	Failure  Failure
	Since    time.Time // when this host first heard it
}

// Judgement is what the fleet thinks of a Check, with the evidence.
type Judgement struct {
	Verdict Verdict
	Since   time.Time // when this host first thought so
	Votes   []Vote    // of the observers that are asked, by name

	// Untried: no verdict has been reached yet, though there may be votes.
	Untried bool

	// Held: the votes decide nothing, and the last verdict holds until then.
	Held  bool
	Until time.Time

	// Unconfirmed: from before this agent's restart, and not heard again yet.
	Unconfirmed bool
}

// Drain is the wish of an operator, or of a host that shuts down, that a target
// gets no new connections.
type Drain struct {
	Target DrainTarget
	Reason string
	By     string // the node where it was said
	Since  time.Time
	Until  time.Time

	// Grace is what UDP flows get, from Since on: they have no end, so after it
	// they are sent elsewhere.
	Grace time.Duration

	// File says that a file on By asks for it, and so long as it's there has it
	// set again.
	File bool
}

// GraceEnds is when UDP flows are sent elsewhere.
func (d *Drain) GraceEnds() time.Time { return d.Since.Add(d.Grace) }

// DrainTarget is a node, an endpoint (all its ports, if the port is 0) or a
// Service: exactly one is set.
type DrainTarget struct {
	Node     string
	Endpoint netip.AddrPort
	Service  ObjectName
}

// String gives the target as the command line has it: node NAME,
// endpoint ADDR[:PORT] or service NS/NAME.
func (t DrainTarget) String() string {
	switch {
	case t.Node != "":
		return "node " + t.Node
	case t.Service != ObjectName{}:
		return "service " + t.Service.String()
	case t.Endpoint.Port() == 0:
		return "endpoint " + t.Endpoint.Addr().String()
	}
	return "endpoint " + t.Endpoint.String()
}

// Covers reports whether an endpoint of a Service is drained by it.
func (t DrainTarget) Covers(service ObjectName, e *Endpoint) bool {
	switch {
	case t.Node != "":
		return e.NodeName == t.Node
	case t.Service != ObjectName{}:
		return service == t.Service
	}
	return e.Address == t.Endpoint || t.Endpoint.Port() == 0 && e.Address.Addr() == t.Endpoint.Addr()
}

// Health is what this host knows of the fleet at one moment. The zero value
// knows nothing: all is as declared.
type Health struct {
	Verdicts Verdicts
	Drains   map[DrainTarget]*Drain // those that are in force
}

// NodeDrained reports whether a node as a whole is drained.
func (h *Health) NodeDrained(name string) bool { return h.Drains[DrainTarget{Node: name}] != nil }

// shardCount is chosen so that a change among 100,000 Checks copies 400.
const shardCount = 256

// shard is a part of Verdicts that never changes: equal pointers, equal
// verdicts.
type shard struct {
	of map[CheckKey]*Judgement
}

// Verdicts holds a Judgement for each Check that has one. It's immutable:
// With gives another one, which shares what didn't change.
type Verdicts struct {
	shards [shardCount]*shard
}

// Get gives the Judgement of a Check, nil where there is none.
func (v *Verdicts) Get(k CheckKey) *Judgement {
	if s := v.shards[k%shardCount]; s != nil {
		return s.of[k]
	}
	return nil
}

// All gives every Judgement, in no order.
func (v *Verdicts) All() iter.Seq2[CheckKey, *Judgement] {
	return func(yield func(CheckKey, *Judgement) bool) {
		for _, s := range v.shards {
			if s == nil {
				continue
			}
			for k, j := range s.of {
				if !yield(k, j) {
					return
				}
			}
		}
	}
}

// With gives the verdicts with some changed; nil takes one out.
func (v *Verdicts) With(changes map[CheckKey]*Judgement) Verdicts {
	next := *v
	for k, j := range changes {
		i := k % shardCount
		if next.shards[i] == v.shards[i] {
			next.shards[i] = v.shards[i].clone()
		}
		if j == nil {
			delete(next.shards[i].of, k)
		} else {
			next.shards[i].of[k] = j
		}
	}
	return next
}

func (s *shard) clone() *shard {
	if s == nil {
		return &shard{map[CheckKey]*Judgement{}}
	}
	return &shard{maps.Clone(s.of)}
}

// CauseKind says what changed an endpoint's conditions from the declared ones,
// or kept them.
type CauseKind uint8

// The kinds of causes.
const (
	SeenDown   CauseKind = iota + 1 // the fleet saw it failing
	Untried                         // no verdict yet, while another endpoint is up
	Drained                         // by an operator, or by its host that shuts down
	KeptAnyway                      // down or untried, and served since too few would be left
)

// String gives the kind as a condition's reason, in a word or two.
func (k CauseKind) String() string {
	switch k {
	case SeenDown:
		return "seen down"
	case Untried:
		return "untried"
	case Drained:
		return "drained"
	case KeptAnyway:
		return "kept anyway"
	}
	return "declared"
}

// Cause is the reason of an endpoint's effective conditions, where they are not
// simply the declared ones.
type Cause struct {
	Kind      CauseKind
	Judgement *Judgement // of what is down, or untried (then it may be nil)
	Drain     *Drain     // of what is drained
}
