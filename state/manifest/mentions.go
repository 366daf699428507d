package manifest

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"pointsman/state"
)

// Mention is an object that names an address and of which nothing is served.
type Mention struct {
	Object Key
	Source state.Source
	Why    string // such as: headless
}

// maxMentions bounds what is listed of one address.
const maxMentions = 10

// Mentions gives the Services that are left to other proxies and have an
// address, and the slices that have an endpoint of it and whose Service isn't
// programmed, or isn't there.
func (r *Result) Mentions(a netip.Addr) []Mention {
	services := map[state.ObjectName]string{} // why nothing of them is served
	for _, e := range r.effective {
		if s := e.object.Service; s != nil {
			services[e.object.Key.ObjectName] = unserved(s)
		}
	}
	var out []Mention
	for _, e := range r.effective {
		o := e.object
		text := services[o.Key.ObjectName]
		if o.Service == nil {
			text = r.unused(o, services)
		}
		if text != "" && len(out) < maxMentions && o.names(a) {
			out = append(out, Mention{o.Key, o.Source, text})
		}
	}
	return out
}

// unused says why nobody gets the endpoints of an object, if that's for its
// Service.
func (r *Result) unused(o *Object, services map[state.ObjectName]string) string {
	of := Key{KindService, state.ObjectName{Namespace: o.Key.Namespace, Name: o.backed}}
	why, known := services[of.ObjectName]
	switch {
	case o.backed == "":
		return "of no Service, for want of a label " + discoveryv1.LabelServiceName
	case why != "":
		return fmt.Sprintf("of %s, which is %s", of, why)
	case known:
		return ""
	case slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Object == of && p.Severity == Error }):
		return fmt.Sprintf("of %s, which has errors", of)
	}
	return fmt.Sprintf("of %s, which isn't there", of)
}

// names reports whether a good object has an address of its own, or for an
// endpoint.
func (o *Object) names(a netip.Addr) bool {
	if o.Service == nil {
		return (o.EndpointSlice != nil || o.Endpoints != nil) && fieldOf(o, a) != ""
	}
	all := append(clusterIPsOf(o.Service), externalAddresses(o.Service)...)
	return slices.ContainsFunc(all, func(x address) bool { return x.Addr == a })
}

// Backed gives the Services whose slices have an endpoint of an address: they
// get it if its port has the right name, too.
func (r *Result) Backed(a netip.Addr) []state.ObjectName {
	var out []state.ObjectName
	for _, e := range r.effective {
		o := e.object
		of := state.ObjectName{Namespace: o.Key.Namespace, Name: o.backed}
		if o.backed != "" && !slices.Contains(out, of) && o.names(a) {
			out = append(out, of)
		}
	}
	return out
}

// Backers gives the slices, and Endpoints objects, of a Service.
func (r *Result) Backers(service state.ObjectName) []Key {
	var out []Key
	for _, e := range r.effective {
		if o := e.object; o.Key.Namespace == service.Namespace && o.backed == service.Name {
			out = append(out, o.Key)
		}
	}
	return out
}

// Refusals gives those of some Problems that are errors of a document which has
// an address in its text: what a document means that doesn't decode can't be
// told.
func (s *Snapshot) Refusals(a netip.Addr, problems []Problem) []Problem {
	var out []Problem
	for _, f := range s.Files {
		of := slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Severity != Error || p.Source.File != f.Path })
		if len(of) == 0 {
			continue
		}
		for _, d := range split(f.Data) {
			for _, p := range of {
				if p.Document == d.number && len(out) < maxMentions && hasWord(d.text, a.String()) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// hasWord reports whether a text has an address that isn't a part of another.
func hasWord(text []byte, address string) bool {
	for {
		i := bytes.Index(text, []byte(address))
		if i < 0 {
			return false
		}
		end := i + len(address)
		if (i == 0 || !ofAddress(text[i-1])) && (end == len(text) || !ofAddress(text[end])) {
			return true
		}
		text = text[end:]
	}
}

func ofAddress(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' || c == '.' || c == ':'
}
