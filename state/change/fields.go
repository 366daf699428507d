package change

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"pointsman/state"
)

// Field is a field of a Service that means something else after a change. Its
// name is that of the manifest's field, or says what is meant.
type Field struct{ Name, Before, After string }

// differ reports whether two Services of one name mean something else.
func differ(b, a *state.Service) bool {
	x, y := *b, *a
	x.Source, y.Source = state.Source{}, state.Source{}
	return !reflect.DeepEqual(&x, &y)
}

// Fields gives the fields in which the Services of a Pair differ, but for the
// endpoints that come and go.
func (p Pair) Fields() []Field {
	b, a := p.Before, p.After
	out := fields{}
	add := out.add
	add("clusterIPs", b.ClusterIPs, a.ClusterIPs)
	add("internalTrafficPolicy", b.InternalTrafficPolicy, a.InternalTrafficPolicy)
	add("externalTrafficPolicy", b.ExternalTrafficPolicy, a.ExternalTrafficPolicy)
	add("session affinity", b.Affinity, a.Affinity)
	add("loadBalancerSourceRanges", b.SourceRanges, a.SourceRanges)
	add("healthCheckNodePort", b.HealthCheckNodePort, a.HealthCheckNodePort)
	add("nodes that serve it", nodes(b), nodes(a))
	add("when-all-fail: reject", b.RejectWhenAllFail, a.RejectWhenAllFail)
	add("panic-threshold", b.PanicThreshold, a.PanicThreshold)
	add("ports", portNames(b), portNames(a))
	add("addresses", Frontends(b), Frontends(a))
	if n := altered(b, a); n > 0 {
		out = append(out, Field{"endpoints that stay", "", fmt.Sprintf("%d are declared otherwise", n)})
	}
	return out
}

type fields []Field

// add adds a field if its values differ.
func (f *fields) add(name string, before, after any) {
	b, a := listText(before), listText(after)
	if b != a {
		*f = append(*f, Field{name, b, a})
	}
}

// listText gives a value, or a list's items, as a person writes them.
func listText(v any) string {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return fmt.Sprint(v)
	}
	items := make([]string, r.Len())
	for i := range items {
		items[i] = fmt.Sprint(r.Index(i).Interface())
	}
	return strings.Join(items, ", ")
}

func nodes(s *state.Service) any {
	if s.Nodes == nil {
		return "all"
	}
	return s.Nodes
}

// portNames tells ports apart as the join of Services and slices does.
func portNames(s *state.Service) []string {
	var names []string
	for i := range s.Ports {
		names = append(names, strings.TrimPrefix(s.Ports[i].Name+"/"+string(s.Ports[i].Protocol), "/"))
	}
	return names
}

// Frontends gives what clients of a Service connect to, sorted; see
// FrontendText.
func Frontends(s *state.Service) []string {
	var texts []string
	for i := range s.Ports {
		for _, f := range s.Ports[i].Frontends {
			texts = append(texts, FrontendText(f, s.Ports[i].Protocol))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// FrontendText gives a frontend as a client writes it: address, port and
// protocol. NodePorts are at no address of their own.
func FrontendText(f state.Frontend, p state.Protocol) string {
	address := netip.AddrPortFrom(f.Address, f.Port).String()
	if f.Kind == state.NodePort {
		family := "IPv4"
		if f.Address.Is6() {
			family = "IPv6"
		}
		address = fmt.Sprintf("NodePort %d (%s)", f.Port, family)
	}
	return address + "/" + string(p)
}

// altered counts the endpoints of a port that are there before and after, and
// not the same: in their conditions, place, hints or check.
func altered(b, a *state.Service) int {
	type key struct {
		port int
		Endpoint
	}
	index := func(s *state.Service) map[key]state.Endpoint {
		m := map[key]state.Endpoint{}
		for i := range s.Ports {
			for _, e := range s.Ports[i].Endpoints {
				m[key{i, Endpoint{s.Ports[i].Protocol, e.Address}}] = e
			}
		}
		return m
	}
	after, n := index(a), 0
	for k, e := range index(b) {
		if o, ok := after[k]; ok && !reflect.DeepEqual(e, o) {
			n++
		}
	}
	return n
}
