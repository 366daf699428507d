package reconcile

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// A UDP flow has no end that anybody could see. The kernel translates it as it
// did its first packet for as long as packets come, whatever the rules say by
// then: a sender that expects no answer (statsd, syslog) sends to a backend
// that is gone for good (kubernetes/kubernetes#139628), and one that began
// before there was any never reaches the first (#48370). So the flows are
// compared with what is served, and those that differ are forgotten. Those to a
// drained endpoint stay until the drain's grace is over: nobody could tell when
// they are done. TCP and SCTP connections end by themselves, and may be
// draining (#102631).

// udpFrontend is what flows to a frontend may be translated to.
type udpFrontend struct {
	// serving are the endpoints whose flows are left alone, sorted: whether
	// new flows would come to them (readiness, policy, topology) is of no
	// matter. An endpoint that is said to be ready but not serving is among
	// them, because new flows do.
	serving []netip.AddrPort
	// over are those of them, sorted, whose flows have had the grace of a drain
	// and would go elsewhere if they began now.
	over []netip.AddrPort
	// usable says that new flows are translated.
	usable bool
}

func (f udpFrontend) equal(o udpFrontend) bool {
	return f.usable == o.usable && slices.Equal(f.serving, o.serving) && slices.Equal(f.over, o.over)
}

// udpFrontends are a host's UDP frontends of one family.
type udpFrontends map[netip.AddrPort]udpFrontend

// udpFrontendsOf gives the frontends that the Planner makes of an input, as of a
// time, and when that changes by itself: the next end of a drain's grace, zero
// if there is none. A frontend that two Services claim is the first's, as in
// addMissing.
func udpFrontendsOf(f nft.Family, in *Input, now time.Time) (all udpFrontends, next time.Time) {
	p := &Planner{family: f}
	all = make(udpFrontends, len(in.Services))
	for _, s := range in.Services {
		for i := range s.Ports {
			port := &s.Ports[i]
			if port.Protocol != state.UDP {
				continue
			}
			backends := udpFrontendOf(f, port.Endpoints)
			over, ends := graceOver(f, port.Endpoints, now)
			if next.IsZero() || !ends.IsZero() && ends.Before(next) {
				next = ends
			}
			var chosen choice
			if len(over) > 0 {
				chosen = choose(port.Endpoints, f == nft.IPv6, in.Node)
			}
			for _, frontend := range p.frontends(port, in) {
				key := netip.AddrPortFrom(frontend.Address, frontend.Port)
				if _, taken := all[key]; !taken {
					backends.over = goElsewhere(over, newFlows(s, frontend.Kind, chosen))
					all[key] = backends
				}
			}
		}
	}
	return all, next
}

// graceOver gives the endpoints of a family, sorted, whose drain's grace is over
// at a time, and the next time at which one's is.
func graceOver(family nft.Family, endpoints []state.Endpoint, now time.Time) (over []netip.AddrPort, next time.Time) {
	for i := range endpoints {
		e := &endpoints[i]
		if e.Cause == nil || e.Cause.Drain == nil || e.Address.Addr().Is6() != (family == nft.IPv6) {
			continue
		}
		switch ends := e.Cause.Drain.GraceEnds(); {
		case !now.Before(ends):
			over = append(over, e.Address)
		case next.IsZero() || ends.Before(next):
			next = ends
		}
	}
	slices.SortFunc(over, netip.AddrPort.Compare)
	return over, next
}

// newFlows gives the endpoints that new flows to a frontend of a kind may go to,
// wherever they come from: policy Local means the whole fleet's to this host's
// own clients, if it's an external frontend's.
func newFlows(s *state.Service, kind state.FrontendKind, chosen choice) []netip.AddrPort {
	switch {
	case s.TrafficPolicy(kind) != state.Local:
		return chosen.cluster
	case kind.External():
		return slices.Concat(chosen.local, chosen.cluster)
	}
	return chosen.local
}

// goElsewhere gives the endpoints that get no new flows. Where nobody gets any, a
// flow is better off where it is.
func goElsewhere(over, newFlows []netip.AddrPort) []netip.AddrPort {
	if len(over) == 0 || len(newFlows) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(over), func(e netip.AddrPort) bool { return slices.Contains(newFlows, e) })
}

// udpFrontendOf sorts out a port's endpoints of a family. Which of the usable
// ones a packet may get (see choose) is of no matter.
func udpFrontendOf(family nft.Family, endpoints []state.Endpoint) udpFrontend {
	f := udpFrontend{serving: make([]netip.AddrPort, 0, len(endpoints))}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Address.Addr().Is6() != (family == nft.IPv6) {
			continue
		}
		if e.Serving || e.Ready {
			f.serving = append(f.serving, e.Address)
		}
		f.usable = f.usable || e.Ready || e.Serving && e.Terminating
	}
	slices.SortFunc(f.serving, netip.AddrPort.Compare)
	return f
}

// serve tells whether a flow goes to an endpoint that serves its frontend.
func (all udpFrontends) serve(f host.Flow) bool {
	frontend := all[f.Destination]
	return has(frontend.serving, f.ReplySource) && !has(frontend.over, f.ReplySource)
}

func has(sorted []netip.AddrPort, e netip.AddrPort) bool {
	_, ok := slices.BinarySearchFunc(sorted, e, netip.AddrPort.Compare)
	return ok
}

// formerUDP gives the UDP frontends among the groups that the kernel's table
// held before a change and does not hold after it. What was read back from the
// kernel after a restart is among them, so a Service that was deleted while no
// agent ran is no exception.
func formerUDP(going []string) map[netip.AddrPort]bool {
	former := map[netip.AddrPort]bool{}
	for _, id := range going {
		if f, ok := parseUDP(id); ok {
			former[f] = true
		}
	}
	return former
}

// parseUDP reads the name of a UDP frontend's group. Names that begin with a
// set's are not those of frontends.
func parseUDP(id string) (netip.AddrPort, bool) {
	columns := strings.Split(id, " . ")
	if len(columns) != len(frontendKey) || columns[1] != protoName(state.UDP) {
		return netip.AddrPort{}, false
	}
	f, err := addrPort(columns[0], columns[2])
	return f, err == nil
}

// fate is what becomes of a flow, and why.
type fate string

// The fates. Flows are forgotten when their frontend would not send them where
// they go: the last four.
const (
	notOurs    fate = "not to a frontend"
	served     fate = "to an endpoint that serves"
	noEndpoint fate = "untranslated, as there is no endpoint"
	elsewhere  fate = "untranslated in a zone of somebody else"

	endpointGone fate = "to an endpoint that is gone or does not serve"
	drainOver    fate = "to an endpoint whose drain has had its grace"
	untranslated fate = "untranslated, though there are endpoints"
	frontendGone fate = "translated by a frontend that is gone"
)

func (f fate) forgotten() bool {
	return f == endpointGone || f == drainOver || f == untranslated || f == frontendGone
}

// flowRules decide about the flows of one family.
type flowRules struct {
	now udpFrontends
	// former are frontends that are no more, and since when.
	former map[netip.AddrPort]time.Time
}

// judge decides about a flow. Whether it is masqueraded makes no difference:
// replies come from the backend.
//
// A frontend is an exact address and port. So a process that listens on a
// node's address keeps its clients whatever NodePorts there are (kube-proxy
// forgets flows to every address of a NodePort's number), also on an address
// that used to be a frontend: untranslated flows are nobody's business then.
//
// Where zones are in use, packets may be tracked twice, by Open vSwitch and by
// the host. Ours is the entry that is translated.
func (r *flowRules) judge(f host.Flow) fate {
	translated := f.ReplySource != f.Destination
	frontend, ok := r.now[f.Destination]
	if !ok {
		if _, was := r.former[f.Destination]; was && translated {
			return frontendGone
		}
		return notOurs
	}
	switch {
	case r.now.serve(f):
		return served
	case has(frontend.over, f.ReplySource):
		return drainOver
	case translated:
		return endpointGone
	case f.Zoned:
		return elsewhere
	case !frontend.usable:
		return noEndpoint
	}
	return untranslated
}

// update changes the rules to what is served now, and tells whether any flow's
// fate may have changed by that. former left at a time.
func (r *flowRules) update(now udpFrontends, former map[netip.AddrPort]bool, at time.Time) (changed bool) {
	changed = r.now == nil || !maps.EqualFunc(r.now, now, udpFrontend.equal)
	for f := range former {
		if _, known := r.former[f]; !known {
			r.former[f], changed = at, true
		}
	}
	for f := range now {
		delete(r.former, f)
	}
	r.now = now
	return changed
}
