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
	list := nameList{prefix: q.Get("prefix")}
	c.listNames(&list, q.Get("kind"), q.Get("namespace"))
	reply(w, namesAnswer{list.fewest()})
}

// nameList takes in names with a prefix.
type nameList struct {
	prefix string
	names  []nameAnswer
}

// add takes in a name. There may be 100,000 endpoints: what can't be told any
// more is forgotten on the way.
func (l *nameList) add(name, about string) {
	if name == "" || !strings.HasPrefix(name, l.prefix) {
		return
	}
	if l.names = append(l.names, nameAnswer{name, about}); len(l.names) > 20*maxNames {
		l.names = l.fewest()
	}
}

// fewest gives the first names, and the last: a shell completes as much as all
// that it's told have in common, and so have the two ends of a sorted list.
func (l *nameList) fewest() []nameAnswer {
	all := append([]nameAnswer{}, l.names...)
	slices.SortFunc(all, func(a, b nameAnswer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.About, b.About)) })
	all = slices.CompactFunc(all, func(a, b nameAnswer) bool { return a.Name == b.Name })
	if len(all) > maxNames {
		all = append(all[:maxNames-1], all[len(all)-1])
	}
	return all
}

// listNames lists the names of a kind. Of one that it doesn't know there are none.
func (c *control) listNames(l *nameList, kind, namespace string) {
	switch kind {
	case "nodes":
		c.listNodes(l)
		return
	case "held":
		c.listHeld(l)
		return
	}
	if of, drained := strings.CutPrefix(kind, "drained-"); drained {
		c.listDrained(l, strings.TrimSuffix(of, "s")+" ")
		return
	}
	if d := c.source.latest.Load(); d != nil {
		for _, s := range d.Services {
			l.ofService(kind, namespace, s)
		}
	}
}

// ofService lists the names of a kind that a Service has.
func (l *nameList) ofService(kind, namespace string, s *state.Service) {
	switch kind {
	case "namespaces":
		l.add(s.Namespace, "")
	case "services":
		l.add(s.ObjectName.String(), "")
	case "service-names":
		if namespace == "" || namespace == s.Namespace {
			l.add(s.Name, "")
		}
	case "frontends", "endpoints":
		for i := range s.Ports {
			p := &s.Ports[i]
			l.ofPort(kind, s.ObjectName.String()+" "+portText(p.Name, string(p.Protocol)), p)
		}
	}
}

// ofPort lists the addresses of a port's frontends, or of its endpoints: each
// with the port and without, which means all of them. NodePorts have no address.
func (l *nameList) ofPort(kind, about string, p *state.Port) {
	if kind == "endpoints" {
		for i := range p.Endpoints {
			a := p.Endpoints[i].Address
			l.add(a.String(), about)
			l.add(a.Addr().String(), "all its ports")
		}
		return
	}
	for _, f := range p.Frontends {
		if f.Kind == state.NodePort {
			continue
		}
		name := netip.AddrPortFrom(f.Address, f.Port).String()
		if p.Protocol != state.TCP {
			name += "/" + string(p.Protocol)
		}
		l.add(name, about)
	}
}

func (c *control) listNodes(l *nameList) {
	s := c.fleet.Status()
	l.add(c.source.nodeName, "")
	for _, m := range s.View.Members {
		l.add(m.Name, m.State.String())
	}
	for _, name := range s.Absent() {
		l.add(name, "absent")
	}
}

func (c *control) listDrained(l *nameList, kind string) {
	for _, d := range c.fleet.Health().Drains {
		if name, ok := strings.CutPrefix(d.Target.String(), kind); ok {
			l.add(name, d.Reason)
		}
	}
}

func (c *control) listHeld(l *nameList) {
	if f := c.source.inForce.Load(); f != nil && f.held != nil {
		h := heldOf(f.held)
		l.add(h.To, "the hash of what is held")
		l.add(h.Commit, "the commit that is held")
	}
}
