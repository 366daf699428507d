package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/reconcile/nft"
)

// KernelState is what the kernel holds of an address, and where that isn't what
// it should.
type KernelState struct {
	Known       bool         `json:"known"`
	Error       string       `json:"error,omitempty"` // why it isn't known
	Table       string       `json:"table"`
	Elements    []string     `json:"elements"` // in nft's words
	Differences []Difference `json:"differences,omitempty"`
	Faults      []string     `json:"faults,omitempty"` // of the table, its chains and sets
	Unsteady    bool         `json:"unsteady,omitempty"`
	Behind      bool         `json:"behind,omitempty"` // something else is to be served by now
	Remedy      string       `json:"remedy,omitempty"` // what becomes of the differences
}

// OK reports whether nothing is wrong that is known.
func (k *KernelState) OK() bool { return len(k.Differences)+len(k.Faults) == 0 }

// Difference is an element that isn't as it should be.
type Difference struct {
	Kind    string `json:"kind"` // missing, extra or changed
	Element string `json:"element"`
	Want    string `json:"want,omitempty"` // of one that was changed: its value
}

// The kinds of differences.
const (
	isMissing = "missing"
	isExtra   = "extra"
	isChanged = "changed"
)

// compare holds what the kernel has of the address against what was planned.
//
// The plan begins with the slots that are held, so what is only this host's
// history (see Canonical) is the same in both, and what differs is what the
// loop would write.
func (x *explaining) compare() KernelState {
	k := KernelState{Table: string(x.planner.family) + " " + nft.TableName, Elements: []string{}}
	if x.Kernel == nil {
		return k
	}
	k.Known, k.Unsteady = true, x.Kernel.Unsteady
	k.Faults = append(slices.Clone(x.Kernel.Faults), x.chainFaults()...)
	if x.Kernel.Gone {
		return k
	}
	for _, id := range x.concerned() {
		k.add(x.want.groups[id], x.have.groups[id], x.shared(id))
	}
	k.Elements = slices.DeleteFunc(k.Elements, x.isFarRange)
	return k
}

// concerned names the groups that have to do with the question.
func (x *explaining) concerned() []string {
	a := x.q.To.Addr().String()
	ids := []string{x.key(), "cluster-ips " + a, "external-vips " + a}
	for _, e := range x.endpoints() {
		ids = append(ids, "hairpin "+hairpinKey(e.Address, x.q.Protocol))
	}
	for _, v := range []*view{&x.want, &x.have} {
		for id := range v.groups {
			if strings.HasPrefix(id, "local-cidrs ") || strings.HasPrefix(id, "service-cidrs ") {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids[3:])
	return slices.Compact(ids)
}

// isFarRange reports whether an element is a range that holds none of the
// addresses in question.
func (x *explaining) isFarRange(element string) bool {
	set, text, _ := strings.Cut(element, " { ")
	p, err := netip.ParsePrefix(strings.TrimSuffix(text, " }"))
	return err == nil && (set == "service-cidrs" || set == "local-cidrs") && !p.Contains(x.q.To.Addr()) && !p.Contains(x.q.From)
}

// shared reports whether a Service that wasn't planned may need a group.
func (x *explaining) shared(id string) bool { return strings.HasPrefix(id, "hairpin ") }

// add adds a group's elements and differences. What is there too much may be
// another Service's, if the group is shared.
func (k *KernelState) add(want, have *nft.Group, shared bool) {
	wanted := map[string]nft.Element{}
	if want != nil {
		for _, e := range *want {
			wanted[e.Set+" "+e.Key] = e
		}
	}
	if have != nil {
		for _, e := range *have {
			k.Elements = append(k.Elements, elementText(e))
			w, ok := wanted[e.Set+" "+e.Key]
			switch {
			case !ok && !shared:
				k.Differences = append(k.Differences, Difference{Kind: isExtra, Element: elementText(e)})
			case ok && w.Value != e.Value:
				k.Differences = append(k.Differences, Difference{Kind: isChanged, Element: elementText(e), Want: w.Value})
			}
			delete(wanted, e.Set+" "+e.Key)
		}
	}
	if want != nil {
		for _, e := range *want {
			if _, left := wanted[e.Set+" "+e.Key]; left {
				k.Differences = append(k.Differences, Difference{Kind: isMissing, Element: elementText(e)})
			}
		}
	}
}

// elementText writes an element as nft lists it.
func elementText(e nft.Element) string {
	if e.Value == "" {
		return fmt.Sprintf("%s { %s }", e.Set, e.Key)
	}
	return fmt.Sprintf("%s { %s : %s }", e.Set, e.Key, e.Value)
}

// chainFaults are chains made on demand that the frontend's elements lead to
// and that somebody emptied.
func (x *explaining) chainFaults() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(x.planner.onDemand)) {
		rules, ok := x.Kernel.Rules[name]
		if want := len(x.planner.onDemand[name].Rules); ok && rules != want && x.leadsTo(name) {
			out = append(out, fmt.Sprintf("chain %s has %d rules, and should have %d", name, rules, want))
		}
	}
	return out
}

// leadsTo reports whether an element of the frontend goes to a chain. (A
// sticky chain goes on to a pick chain.)
func (x *explaining) leadsTo(name string) bool {
	g := x.have.groups[x.key()]
	return g != nil && slices.ContainsFunc(*g, func(e nft.Element) bool {
		return strings.HasSuffix(e.Value, " "+name) || strings.HasPrefix(e.Value, "goto sticky-") && strings.HasPrefix(name, "pick-"+x.have.proto+"-")
	})
}

// Affinity is whether the client is bound to an endpoint.
type Affinity struct {
	Timeout  time.Duration  `json:"timeout"` // after the client's last new connection
	Bound    bool           `json:"bound"`
	Endpoint netip.AddrPort `json:"endpoint,omitzero"` // not valid: it's gone, and another is picked
	Left     time.Duration  `json:"left,omitempty"`
}

// affinity finds out what the client is bound to: of several slots the lowest
// that an endpoint is in, as in the sticky chains.
func (x *explaining) affinity() *Affinity {
	s := x.claim.service
	if s.Affinity == 0 {
		return nil
	}
	a := &Affinity{Timeout: s.Affinity}
	if x.Kernel == nil || !x.q.From.IsValid() {
		return a
	}
	g := x.have.groups[x.key()]
	slots := g.Slots(stickyMap + x.have.proto)
	if x.onlyLocal() {
		slots = g.Slots(stickyLocalMap + x.have.proto)
	}
	for _, b := range x.Kernel.Bindings {
		e, ok := parseEndpoint(slots[b.Slot])
		if !a.Bound || ok {
			a.Bound, a.Left = true, b.Left
		}
		if ok {
			a.Endpoint = e
			break
		}
	}
	return a
}

// onlyLocal reports whether the client is sent to this host's endpoints by the
// rules for clients outside.
func (x *explaining) onlyLocal() bool {
	verdict, _ := x.have.lookup("services")
	c := client{addr: x.q.From, own: x.isOwn(x.q.From), here: x.have.within("local-cidrs", x.q.From)}
	return verdict == "goto external-local" && strings.Contains(x.have.externalLocal(c), "-local-")
}
