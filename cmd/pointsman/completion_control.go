package main

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"pointsman/state"
)

// namesAnswer is what a word on a command line may become: the names of a kind
// that begin as it does.
type namesAnswer struct {
	Names []nameAnswer `json:"names"`
}

type nameAnswer struct {
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
}

// maxNames is how many names are told. Nobody reads more.
const maxNames = 200

func (c *control) names(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	reply(w, namesAnswer{fewest(c.namesOf(q.Get("kind"), q.Get("namespace")), q.Get("prefix"))})
}

// fewest gives the first names with a prefix, and the last: a shell completes as
// much as all that it's told have in common, and so have the two ends of a sorted
// list.
func fewest(all []nameAnswer, prefix string) []nameAnswer {
	all = slices.DeleteFunc(all, func(n nameAnswer) bool { return !strings.HasPrefix(n.Name, prefix) })
	slices.SortFunc(all, func(a, b nameAnswer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.About, b.About)) })
	all = slices.CompactFunc(all, func(a, b nameAnswer) bool { return a.Name == b.Name })
	if len(all) > maxNames {
		all = append(all[:maxNames-1], all[len(all)-1])
	}
	return append([]nameAnswer{}, all...)
}

// namesOf gives all names of a kind. Of one that it doesn't know there are none.
func (c *control) namesOf(kind, namespace string) []nameAnswer {
	switch kind {
	case "nodes":
		return c.nodeNames()
	case "held":
		return c.heldNames()
	}
	if of, drained := strings.CutPrefix(kind, "drained-"); drained {
		return c.drainedNames(strings.TrimSuffix(of, "s") + " ")
	}
	d := c.source.latest.Load()
	if d == nil {
		return nil
	}
	var all []nameAnswer
	for _, s := range d.Services {
		all = append(all, serviceNames(kind, namespace, s)...)
	}
	return all
}

// serviceNames gives the names of a kind that a Service has.
func serviceNames(kind, namespace string, s *state.Service) []nameAnswer {
	switch kind {
	case "namespaces":
		return []nameAnswer{{Name: s.Namespace}}
	case "services":
		return []nameAnswer{{Name: s.ObjectName.String()}}
	case "service-names":
		if namespace == "" || namespace == s.Namespace {
			return []nameAnswer{{Name: s.Name}}
		}
	case "frontends", "endpoints":
		var all []nameAnswer
		for i := range s.Ports {
			all = append(all, addressNames(kind, s, &s.Ports[i])...)
		}
		return all
	}
	return nil
}

// addressNames gives the addresses of a port's frontends, or of its endpoints: each
// with the port and without, which means all of them. NodePorts have no address.
func addressNames(kind string, s *state.Service, p *state.Port) (all []nameAnswer) {
	about := s.ObjectName.String() + " " + portText(p.Name, string(p.Protocol))
	if kind == "endpoints" {
		for i := range p.Endpoints {
			a := p.Endpoints[i].Address
			all = append(all, nameAnswer{a.String(), about}, nameAnswer{a.Addr().String(), "all its ports"})
		}
		return all
	}
	for _, f := range p.Frontends {
		if f.Kind == state.NodePort {
			continue
		}
		name := netip.AddrPortFrom(f.Address, f.Port).String()
		if p.Protocol != state.TCP {
			name += "/" + string(p.Protocol)
		}
		all = append(all, nameAnswer{name, about})
	}
	return all
}

func (c *control) nodeNames() []nameAnswer {
	s := c.fleet.Status()
	all := []nameAnswer{{Name: c.source.nodeName, About: "this host"}}
	for _, m := range s.View.Members {
		all = append(all, nameAnswer{m.Name, m.State.String()})
	}
	for _, name := range s.Absent() {
		all = append(all, nameAnswer{name, "absent"})
	}
	return all
}

func (c *control) drainedNames(kind string) (all []nameAnswer) {
	for _, d := range c.fleet.Health().Drains {
		if name, ok := strings.CutPrefix(d.Target.String(), kind); ok {
			all = append(all, nameAnswer{name, d.Reason})
		}
	}
	return all
}

func (c *control) heldNames() []nameAnswer {
	f := c.source.inForce.Load()
	if f == nil || f.held == nil {
		return nil
	}
	h := heldOf(f.held)
	return slices.DeleteFunc([]nameAnswer{{h.To, "the hash of what is held"}, {h.Commit, "the commit that is held"}},
		func(n nameAnswer) bool { return n.Name == "" })
}
