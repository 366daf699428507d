// Package change compares what manifests meant before with what they mean now:
// what goes, which decides whether a change is held (Judge), and what differs,
// for a person to read (Compare). Everything in it is a pure function of
// declared Services, so that hosts that serve the same and see the same come to
// the same answer.
package change

import (
	"cmp"
	"net/netip"
	"slices"

	"pointsman/state"
)

// Pair is a Service before and after a change.
type Pair struct{ Before, After *state.Service }

// Diff is what differs between two lists of Services. All lists are sorted by
// namespace and name.
type Diff struct {
	Added, Removed []*state.Service
	Changed        []Pair // those that mean something else; where they are declared doesn't count
}

// Empty reports whether nothing differs.
func (d *Diff) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Compare tells two lists of Services apart, each sorted by namespace and name.
func Compare(before, after []*state.Service) *Diff {
	d := &Diff{}
	walk(before, after, func(b, a *state.Service) {
		switch {
		case b == nil:
			d.Added = append(d.Added, a)
		case a == nil:
			d.Removed = append(d.Removed, b)
		case b != a && differ(b, a):
			d.Changed = append(d.Changed, Pair{b, a})
		}
	})
	return d
}

// walk calls see once for each name of two sorted lists, with nil for a
// Service that isn't there.
func walk(before, after []*state.Service, see func(b, a *state.Service)) {
	for len(before) > 0 || len(after) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = 1
		case len(after) == 0:
			order = -1
		default:
			order = before[0].ObjectName.Compare(after[0].ObjectName)
		}
		var b, a *state.Service
		if order <= 0 {
			b, before = before[0], before[1:]
		}
		if order >= 0 {
			a, after = after[0], after[1:]
		}
		see(b, a)
	}
}

// Endpoint is a backend of a Service: the same one behind several ports of a
// protocol counts once.
type Endpoint struct {
	Protocol state.Protocol
	Address  netip.AddrPort
}

// Compare orders endpoints by address and protocol.
func (e Endpoint) Compare(o Endpoint) int {
	return cmp.Or(e.Address.Compare(o.Address), cmp.Compare(e.Protocol, o.Protocol))
}

// endpoints gives a Service's endpoints that keep asks for, sorted; none of nil.
func endpoints(s *state.Service, keep func(*state.Endpoint) bool) []Endpoint {
	if s == nil {
		return nil
	}
	n := 0
	for i := range s.Ports {
		n += len(s.Ports[i].Endpoints)
	}
	all := make([]Endpoint, 0, n)
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			if e := &s.Ports[i].Endpoints[k]; keep(e) {
				all = append(all, Endpoint{s.Ports[i].Protocol, e.Address})
			}
		}
	}
	slices.SortFunc(all, Endpoint.Compare)
	return slices.Compact(all)
}

func each(*state.Endpoint) bool { return true }

// inUse reports whether connections may go to an endpoint, as it's declared:
// to one that terminates only where no other is left, but they do.
func inUse(e *state.Endpoint) bool { return e.Ready || e.Serving }

// frontend is what clients connect to.
type frontend struct {
	state.Frontend
	protocol state.Protocol
}

func (f frontend) compare(o frontend) int {
	return cmp.Or(f.Frontend.Compare(o.Frontend), cmp.Compare(f.protocol, o.protocol))
}

// frontends gives a Service's frontends, sorted.
func frontends(s *state.Service) []frontend {
	var all []frontend
	for i := range s.Ports {
		for _, f := range s.Ports[i].Frontends {
			all = append(all, frontend{f, s.Ports[i].Protocol})
		}
	}
	slices.SortFunc(all, frontend.compare)
	return all
}

// without gives what is in the first sorted list and not in the second.
func without[T any](a, b []T, compare func(T, T) int) []T {
	var out []T
	for _, e := range a {
		for len(b) > 0 && compare(b[0], e) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || compare(b[0], e) != 0 {
			out = append(out, e)
		}
	}
	return out
}

// Endpoints gives the endpoints that a change adds to a Service and takes from
// it, sorted. Either may be nil: one that isn't there.
func (p Pair) Endpoints() (added, removed []Endpoint) {
	b, a := endpoints(p.Before, each), endpoints(p.After, each)
	return without(a, b, Endpoint.Compare), without(b, a, Endpoint.Compare)
}
