package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/intstr"

	"pointsman/state"
)

// inquiry is how it's found out of the endpoints at one port of a slice
// whether they work.
type inquiry struct {
	probe    *state.Probe
	port     uint16
	protocol state.Protocol // where probe is nil
	from     []string
	checks   *checks
}

// inquire gives the inquiry for a port of a slice. A probe that can't be made
// there is an error of its annotation, and then the endpoints are served as if
// it weren't there.
func (j *joined) inquire(f *fleet, b *backing, p backingPort) *inquiry {
	q := &inquiry{checks: &j.checks, from: j.choose(f, b.asked.probingFrom(j.demand.asked))}
	if a := b.asked.probing(j.demand.asked); a != nil {
		port, why := b.probed(a.probe, p)
		if why == "" {
			q.probe, q.port = a.probe.Probe, port
			return q
		}
		j.findings = append(j.findings, a.object.problem(ruleProbePortUnmatched, a.probe.field, "%s; its endpoints are not probed", why))
	}
	q.port, q.protocol = p.number, p.protocol
	if tcp := b.tcpFor(p); tcp != 0 {
		q.port, q.protocol = tcp, state.TCP
	}
	return q
}

// probed gives the port of the endpoints at which a probe judges a port of
// their slice, or why there is none.
func (b *backing) probed(a *askedProbe, p backingPort) (port uint16, why string) {
	switch {
	case a.Exec != nil:
		return p.number, ""
	case a.port == nil:
		if port = b.tcpFor(p); port == 0 {
			why = fmt.Sprintf("Required value: %s (%s) has no TCP port, so the probe must name one", b.object.Key, b.object.Source)
		}
		return port, why
	case a.port.Type == intstr.Int:
		return uint16(a.port.IntVal), ""
	}
	for _, bp := range b.ports {
		if bp.name == a.port.StrVal && bp.protocol == state.TCP {
			return bp.number, ""
		}
	}
	return 0, fmt.Sprintf("Invalid value: %q: %s (%s) has no TCP port of that name", a.port.StrVal, b.object.Key, b.object.Source)
}

// tcpFor gives the TCP port by which a port is judged: itself; else the one of
// the same number, as DNS has it; else the slice's first; 0 where it has none.
func (b *backing) tcpFor(p backingPort) uint16 {
	first := uint16(0)
	for _, bp := range b.ports {
		switch {
		case bp.protocol != state.TCP:
		case bp.number == p.number:
			return p.number
		case first == 0:
			first = bp.number
		}
	}
	return first
}

// check gives the Check of an endpoint at an address, nil where nothing can be
// found out of it.
func (q *inquiry) check(at netip.Addr, home string) *state.Check {
	if q.probe == nil && home == "" {
		return nil
	}
	return q.checks.intern(state.Check{
		Target: netip.AddrPortFrom(at, q.port), Protocol: q.protocol, Probe: q.probe, Home: home, From: q.from,
	})
}

// checks are the Checks of one Service, those that are equal only once. The
// ports of an endpoint often are judged by one of them.
type checks struct {
	known map[state.CheckKey]*state.Check // nil where no two are expected to be equal
	text  []byte                          // used again for each
}

func (s *checks) intern(c state.Check) *state.Check {
	s.text = appendCheck(s.text[:0], &c)
	sum := sha256.Sum256(s.text)
	c.Key = state.CheckKey(binary.BigEndian.Uint64(sum[:]))
	if old := s.known[c.Key]; old != nil {
		return old
	}
	if s.known != nil {
		s.known[c.Key] = &c
	}
	return &c
}

// The kinds of probes in the text that is hashed.
const (
	kindNone = iota
	kindTCP
	kindHTTP
	kindGRPC
	kindExec
)

// appendCheck appends what a Check says besides its Key: no two that differ
// have the same text. The text never changes from release to release, since
// hosts of two releases talk of Checks by the hashes of it.
func appendCheck(b []byte, c *state.Check) []byte {
	b = appendText(b, string(c.Protocol), c.Target.String(), c.Home)
	if c.From == nil {
		b = append(b, 0)
	} else {
		b = appendList(append(b, 1), c.From)
	}
	return appendProbe(b, c.Probe)
}

func appendProbe(b []byte, p *state.Probe) []byte {
	switch {
	case p == nil:
		return append(b, kindNone)
	case p.HTTP != nil:
		b = appendHTTP(append(b, kindHTTP), p.HTTP)
	case p.GRPC != nil:
		b = appendText(append(b, kindGRPC), p.GRPC.Service)
	case p.Exec != nil:
		b = appendList(append(b, kindExec), p.Exec)
	default:
		b = append(b, kindTCP)
	}
	b = binary.AppendVarint(b, int64(p.Period))
	b = binary.AppendVarint(b, int64(p.Timeout))
	b = binary.AppendVarint(b, int64(p.SuccessThreshold))
	return binary.AppendVarint(b, int64(p.FailureThreshold))
}

func appendHTTP(b []byte, h *state.HTTPProbe) []byte {
	tls := byte(0)
	if h.TLS {
		tls = 1
	}
	b = appendText(append(b, tls), h.Host, h.Path)
	b = binary.AppendUvarint(b, uint64(len(h.Headers)))
	for _, header := range h.Headers {
		b = appendText(b, header.Name, header.Value)
	}
	return b
}

func appendList(b []byte, list []string) []byte {
	return appendText(binary.AppendUvarint(b, uint64(len(list))), list...)
}

// appendText appends texts so that it can be told where each ends.
func appendText(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
	}
	return b
}

// sameCheck reports whether two Checks, each perhaps nil, are equal.
func sameCheck(a, b *state.Check) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Key == b.Key
}
