package change

import (
	"fmt"
	"slices"

	"pointsman/state"
)

// Limits say how much a single change may take away.
type Limits struct {
	// Percent of what there is may go (--max-removal), and atLeast of it in any
	// case: three of the four Services of a small host are an evening's work.
	Percent int

	// AllowEmpty lets a change to no Service at all through, if that is within
	// Percent (--allow-empty).
	AllowEmpty bool
}

// atLeast is how many Services, and how many endpoints, may always go.
const atLeast = 10

// exceeded reports whether more goes than may.
func (l Limits) exceeded(loss Loss) bool {
	return loss.Gone > atLeast && loss.Gone*100 > l.Percent*loss.Before
}

// Loss is what a change takes away of one kind of thing.
type Loss struct {
	Before int      // how many there were; 0 where so little goes that it doesn't matter
	Gone   int      // how many of them would not be there any more; others may come
	First  []string // the names of the first of them
}

// maxNamed bounds the names in a Loss.
const maxNamed = 5

func (l *Loss) gone(name string) {
	if l.Gone++; l.Gone <= maxNamed {
		l.First = append(l.First, name)
	}
}

// Verdict is what Judge says of a change.
type Verdict struct {
	// Services are those that some host serves, Endpoints those of them that are
	// in use; one with another address or port is another one. If only what this
	// host loses is too much, it's that.
	Services, Endpoints Loss

	// Frontends are what clients connect to, of the Services that stay.
	Frontends Loss

	// Reasons are why the change is to be held; there are none if it isn't.
	Reasons []string
}

// Held reports whether the change is to be held.
func (v *Verdict) Held() bool { return len(v.Reasons) > 0 }

// Judge says what goes from one list of Services (sorted by name) to another,
// and whether that is too much. It looks at what all hosts serve, so that all
// decide alike, and at what the named node serves: a selector that selects the
// wrong hosts takes nothing from the fleet, and everything from a host.
func Judge(before, after []*state.Service, node string, l Limits) Verdict {
	fleet := view{before: before, serves: isServed}
	here := view{before: before, serves: func(s *state.Service) bool { return isServed(s) && s.ServedBy(node) }}
	walk(before, after, func(b, a *state.Service) {
		if b != nil && b != a {
			fleet.see(b, a)
			here.see(b, a)
		}
	})
	empty := fleet.services.Gone > 0 && !slices.ContainsFunc(after, isServed)
	fleet.count(empty || here.matters())
	here.count(false)
	v := Verdict{Services: l.worse(fleet.services, here.services), Endpoints: l.worse(fleet.endpoints, here.endpoints),
		Frontends: l.worse(fleet.frontends, here.frontends)}
	if empty && !l.AllowEmpty {
		v.Reasons = append(v.Reasons, "no Service is left")
	}
	v.Reasons = append(v.Reasons, l.reasons("Services", fleet.services, here.services)...)
	v.Reasons = append(v.Reasons, l.reasons("endpoints", fleet.endpoints, here.endpoints)...)
	v.Reasons = append(v.Reasons, l.reasons("frontends", fleet.frontends, here.frontends)...)
	return v
}

// worse gives the loss that is to be told: this host's, if that alone is too
// much.
func (l Limits) worse(fleet, here Loss) Loss {
	if l.exceeded(here) && !l.exceeded(fleet) {
		return here
	}
	return fleet
}

// reasons gives the one reason that is to be told of a kind, if any.
func (l Limits) reasons(name string, fleet, here Loss) []string {
	switch {
	case l.exceeded(fleet):
		return []string{l.text(name, fleet)}
	case l.exceeded(here):
		return []string{l.text(name+" of this host", here)}
	}
	return nil
}

func (l Limits) text(name string, loss Loss) string {
	return fmt.Sprintf("%d of %d %s would go, more than %d %%", loss.Gone, loss.Before, name, l.Percent)
}

// isServed reports whether any host serves anything of a Service.
func isServed(s *state.Service) bool {
	reached := slices.ContainsFunc(s.Ports, func(p state.Port) bool { return len(p.Frontends) > 0 })
	return reached && (s.Nodes == nil || len(s.Nodes) > 0)
}

// view is what is lost of the Services that somebody serves.
type view struct {
	before                         []*state.Service
	serves                         func(*state.Service) bool
	services, endpoints, frontends Loss
}

// see takes in a Service that isn't the same value after the change; a is nil
// if it isn't there any more.
func (v *view) see(b, a *state.Service) {
	if !v.serves(b) {
		return
	}
	if a == nil || !v.serves(a) {
		v.services.gone(b.ObjectName.String())
		a = nil
	}
	for _, e := range without(endpoints(b, inUse), endpoints(a, inUse), Endpoint.Compare) {
		v.endpoints.gone(fmt.Sprintf("%s of %s", e.Address, b.ObjectName))
	}
	if a != nil {
		for _, f := range without(frontends(b), frontends(a), frontend.compare) {
			v.frontends.gone(fmt.Sprintf("%s of %s", FrontendText(f.Frontend, f.protocol), b.ObjectName))
		}
	}
}

// count counts what there was, where that matters: nearly every change takes
// next to nothing away.
func (v *view) count(always bool) {
	if !always && !v.matters() {
		return
	}
	for _, s := range v.before {
		if v.serves(s) {
			v.services.Before++
			v.endpoints.Before += usable(s)
			for i := range s.Ports {
				v.frontends.Before += len(s.Ports[i].Frontends)
			}
		}
	}
}

func (v *view) matters() bool {
	return max(v.services.Gone, v.endpoints.Gone, v.frontends.Gone) > atLeast
}

// usable counts a Service's endpoints in use. Of one port they are each another
// one.
func usable(s *state.Service) int {
	if len(s.Ports) != 1 {
		return len(endpoints(s, inUse))
	}
	n := 0
	for k := range s.Ports[0].Endpoints {
		if inUse(&s.Ports[0].Endpoints[k]) {
			n++
		}
	}
	return n
}
