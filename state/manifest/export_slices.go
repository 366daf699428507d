package manifest

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pointsman/state"
)

// annotationReasons stands on the EndpointSlices that are exported, and is
// passed over where they are read: a line ADDR:PORT: WHY for each endpoint whose
// conditions are not simply the declared ones. A condition has no reason in
// discovery/v1.
const annotationReasons = annotationPrefix + "reasons"

// maxReason bounds a reason, so that the annotations of a full slice stay below
// the 256 KiB that they may have.
const maxReason = 160

// EndpointSlices gives a Service's endpoints in the form of
// discovery.k8s.io/v1 EndpointSlices that can be encoded as JSON, with the
// effective conditions. Why gives the reason of an endpoint's, or nothing.
//
// Each slice has one port, since what is known of an endpoint is known by port.
func EndpointSlices(s *state.Service, why func(*state.Endpoint) string) iter.Seq[any] {
	return func(yield func(any) bool) {
		for i := range s.Ports {
			p := &s.Ports[i]
			for _, alike := range alike(p.Endpoints) {
				number := 0
				for part := range slices.Chunk(alike, maxSliceEndpoints) {
					number++
					if !yield(exportSlice(s, p, part, number, why)) {
						return
					}
				}
			}
		}
	}
}

// alike parts endpoints by what a slice has one of: the family and the port's
// number.
func alike(endpoints []state.Endpoint) [][]*state.Endpoint {
	type key struct {
		ipv6 bool
		port uint16
	}
	keyOf := func(e *state.Endpoint) key { return key{e.Address.Addr().Is6(), e.Address.Port()} }
	byKey := map[key][]*state.Endpoint{}
	for i := range endpoints {
		k := keyOf(&endpoints[i])
		byKey[k] = append(byKey[k], &endpoints[i])
	}
	var all [][]*state.Endpoint
	for _, part := range byKey {
		all = append(all, part)
	}
	slices.SortFunc(all, func(a, b []*state.Endpoint) int {
		x, y := a[0].Address, b[0].Address
		return cmp.Or(cmp.Compare(x.Addr().BitLen(), y.Addr().BitLen()), cmp.Compare(x.Port(), y.Port()))
	})
	return all
}

func exportSlice(s *state.Service, p *state.Port, endpoints []*state.Endpoint, number int, why func(*state.Endpoint) string) *discoveryv1.EndpointSlice {
	first := endpoints[0].Address
	family := familyOf(first.Addr())
	port, protocol := int32(first.Port()), corev1.Protocol(p.Protocol)
	// No name of a Service or a port has a dot in it, so no two are the same.
	name := strings.ToLower(fmt.Sprintf("%s.%s.%d.%s", s.Name, cmp.Or(p.Name, string(p.Protocol)), port, family))
	if number > 1 {
		name += fmt.Sprintf(".%d", number)
	}
	out := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: string(KindEndpointSlice)},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name, discoveryv1.LabelManagedBy: "pointsman"}},
		AddressType: discoveryv1.AddressType(family),
		Ports:       []discoveryv1.EndpointPort{{Name: &p.Name, Protocol: &protocol, Port: &port}},
	}
	var reasons []string
	for _, e := range endpoints {
		out.Endpoints = append(out.Endpoints, exportEndpoint(e))
		if text := why(e); text != "" {
			reasons = append(reasons, e.Address.String()+": "+clip(text))
		}
	}
	if reasons != nil {
		out.Annotations = map[string]string{annotationReasons: strings.Join(reasons, "\n")}
	}
	return out
}

func exportEndpoint(e *state.Endpoint) discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{
		Addresses:  []string{e.Address.Addr().String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &e.Ready, Serving: &e.Serving, Terminating: &e.Terminating},
	}
	if e.NodeName != "" {
		out.NodeName = &e.NodeName
	}
	if e.Zone != "" {
		out.Zone = &e.Zone
	}
	if len(e.HintNodes)+len(e.HintZones) == 0 {
		return out
	}
	out.Hints = &discoveryv1.EndpointHints{}
	for _, n := range e.HintNodes {
		out.Hints.ForNodes = append(out.Hints.ForNodes, discoveryv1.ForNode{Name: n})
	}
	for _, z := range e.HintZones {
		out.Hints.ForZones = append(out.Hints.ForZones, discoveryv1.ForZone{Name: z})
	}
	return out
}

// clip cuts a reason to one line of at most maxReason bytes.
func clip(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxReason {
		return text
	}
	cut := maxReason - len("...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
