package manifest

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"pointsman/state"
)

// backing is a slice as the join needs it: parsed, and usable. An
// EndpointSlice gives one or none, an Endpoints object one for each subset and
// family.
type backing struct {
	object    *Object
	asked     *asked
	family    stack
	ports     []backingPort
	endpoints []state.Endpoint // as declared; the ports are zero
}

type backingPort struct {
	name     string
	protocol state.Protocol
	number   uint16
}

// stack is a set of address families.
type stack uint8

const (
	ipv4 stack = 1 << iota
	ipv6
)

// String names a family.
func (f stack) String() string {
	if f == ipv4 {
		return "IPv4"
	}
	return "IPv6"
}

// each gives the families of the set one by one.
func (f stack) each() []stack {
	return slices.DeleteFunc([]stack{ipv4, ipv6}, func(one stack) bool { return f&one == 0 })
}

func stackOf(a netip.Addr) stack {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

// parse works out, once, what a slice contributes to its Service.
func (e *digest) parse() {
	if e.parsed {
		return
	}
	e.parsed = true
	switch {
	case e.object.EndpointSlice != nil:
		e.parseSlice(e.object.EndpointSlice)
	case e.object.Endpoints != nil:
		e.mirror(e.object.Endpoints)
	}
	for i := range e.backings {
		e.backings[i].asked = e.asked
	}
}

func (e *digest) warn(rule Rule, field, format string, args ...any) {
	e.findings = append(e.findings, e.object.problem(rule, field, format, args...))
}

// parseSlice reads an EndpointSlice as kube-proxy does: FQDN endpoints can't be
// programmed and a slice without ports matches no Service port (validation
// warns of both, C16), and slices labelled as a headless Service's are not even
// watched (kubeproxy.md, 6).
func (e *digest) parseSlice(s *discoveryv1.EndpointSlice) {
	family, ok := map[discoveryv1.AddressType]stack{
		discoveryv1.AddressTypeIPv4: ipv4, discoveryv1.AddressTypeIPv6: ipv6}[s.AddressType]
	if !ok {
		return
	}
	if _, headless := s.Labels[corev1.IsHeadlessService]; headless {
		e.warn(ruleSliceHeadless, "metadata.labels["+corev1.IsHeadlessService+"]", "the slice is ignored for this label, as kube-proxy does")
		return
	}
	b := backing{object: e.object, family: family}
	for _, p := range s.Ports {
		b.addPort(deref(p.Name, ""), deref(p.Protocol, corev1.ProtocolTCP), deref(p.Port, 0))
	}
	for i := range s.Endpoints {
		b.addSliceEndpoint(&s.Endpoints[i])
	}
	e.backings = []backing{b}
}

// addPort adds a port. Numbers that no port can have are an error of the
// document (validation.md, 7). One that came this far all the same would make
// the kernel refuse all Services at once.
func (b *backing) addPort(name string, protocol corev1.Protocol, number int32) {
	if number >= 1 && number <= 65535 {
		b.ports = append(b.ports, backingPort{name, state.Protocol(protocol), uint16(number)})
	}
}

// addSliceEndpoint adds an endpoint. Only its first address counts
// (discovery/v1: the others have no meaning). Absent conditions are ready,
// serving and not terminating, each by itself.
func (b *backing) addSliceEndpoint(ep *discoveryv1.Endpoint) {
	if len(ep.Addresses) == 0 {
		return
	}
	b.addEndpoint(ep.Addresses[0], state.Endpoint{
		NodeName:    deref(ep.NodeName, ""),
		Zone:        deref(ep.Zone, ""),
		HintNodes:   hintNodes(ep.Hints),
		HintZones:   hintZones(ep.Hints),
		Ready:       deref(ep.Conditions.Ready, true),
		Serving:     deref(ep.Conditions.Serving, true),
		Terminating: deref(ep.Conditions.Terminating, false),
	})
}

func (b *backing) addEndpoint(address string, ep state.Endpoint) {
	addr, err := netip.ParseAddr(address)
	if err != nil || stackOf(addr) != b.family {
		return
	}
	ep.Address = netip.AddrPortFrom(addr, 0)
	b.endpoints = append(b.endpoints, ep)
}

// hinted gives the endpoints with the hints that a trafficDistribution means,
// as the controller of a cluster writes them into slices (KEP-4444, KEP-3015):
// PreferSameNode hints at the node and the zone, the others at the zone. A
// slice that carries hints of its own keeps those alone.
func (b *backing) hinted(distribution string) []state.Endpoint {
	if distribution == "" || slices.ContainsFunc(b.endpoints, hasHints) {
		return b.endpoints
	}
	out := slices.Clone(b.endpoints)
	for i := range out {
		ep := &out[i]
		if ep.Zone != "" {
			ep.HintZones = []string{ep.Zone}
		}
		if distribution == corev1.ServiceTrafficDistributionPreferSameNode && ep.NodeName != "" {
			ep.HintNodes = []string{ep.NodeName}
		}
	}
	return out
}

func hasHints(ep state.Endpoint) bool { return len(ep.HintNodes)+len(ep.HintZones) > 0 }

func hintNodes(h *discoveryv1.EndpointHints) []string {
	if h == nil {
		return nil
	}
	var names []string
	for _, n := range h.ForNodes {
		names = append(names, n.Name)
	}
	return names
}

func hintZones(h *discoveryv1.EndpointHints) []string {
	if h == nil {
		return nil
	}
	var names []string
	for _, z := range h.ForZones {
		names = append(names, z.Name)
	}
	return names
}

func deref[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}

// Endpoints with this label are left alone by the mirroring controller
// (KEP-0752, pkg/controller/endpointslicemirroring), and so they are here.
const skipMirrorLabel = discoveryv1.LabelSkipMirror

// mirror reads v1/Endpoints the way the mirroring controller makes slices of
// them: for every subset one slice a family, by the addresses in it, and
// notReadyAddresses with ready: false.
//
//lint:ignore SA1019 legacy manifests carry them
func (e *digest) mirror(eps *corev1.Endpoints) {
	if eps.Labels[skipMirrorLabel] == "true" {
		e.warn(ruleEndpointsSkipped, "metadata.labels", "the object is ignored for its label %s", skipMirrorLabel)
		return
	}
	e.warn(ruleEndpointsDeprecated, "", "Endpoints are deprecated and are mirrored here; to convert them, write an EndpointSlice (discovery.k8s.io/v1)"+
		" with the label %s: %s, an addressType, and these ports and endpoints", discoveryv1.LabelServiceName, eps.Name)
	for i := range eps.Subsets {
		e.mirrorSubset(&eps.Subsets[i])
	}
}

//lint:ignore SA1019 legacy manifests carry them
func (e *digest) mirrorSubset(subset *corev1.EndpointSubset) {
	for _, family := range (ipv4 | ipv6).each() {
		b := backing{object: e.object, family: family}
		for _, p := range subset.Ports {
			b.addPort(p.Name, cmp.Or(p.Protocol, corev1.ProtocolTCP), p.Port)
		}
		b.addMirrored(subset.Addresses, true)
		b.addMirrored(subset.NotReadyAddresses, false)
		if len(b.endpoints) > 0 {
			e.backings = append(e.backings, b)
		}
	}
}

func (b *backing) addMirrored(addresses []corev1.EndpointAddress, ready bool) {
	for _, a := range addresses {
		b.addEndpoint(a.IP, state.Endpoint{NodeName: deref(a.NodeName, ""), Ready: ready, Serving: true})
	}
}

// candidate is an endpoint of one Service port with the slice it comes from.
type candidate struct {
	address  netip.AddrPort
	endpoint *state.Endpoint
	object   *Object
	inquiry  *inquiry
}

// compare orders candidates by address, and those of one address so that the
// first is the one to keep: a non-terminating one before a terminating one, as
// kube-proxy has it. What kube-proxy leaves to the order of a Go map is
// settled by what the endpoints say, so that neither the order of slices nor
// that of files matters.
func (c candidate) compare(o candidate) int {
	if r := c.address.Compare(o.address); r != 0 {
		return r
	}
	a, b := c.endpoint, o.endpoint
	return cmp.Or(
		falseFirst(a.Terminating, b.Terminating),
		falseFirst(!a.Ready, !b.Ready),
		falseFirst(!a.Serving, !b.Serving),
		cmp.Compare(b.NodeName, a.NodeName), // one that is told before none
		cmp.Compare(b.Zone, a.Zone),
		slices.Compare(b.HintNodes, a.HintNodes),
		slices.Compare(b.HintZones, a.HintZones),
		c.object.Key.Compare(o.object.Key))
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// repeat is an endpoint that lost its place to another of the same address.
type repeat struct{ lost, kept candidate }

// dedup gives the endpoints of one Service port, sorted by address, none
// twice (C13: a repeated one must not get double weight; C14: one address with
// two ports is two endpoints).
func dedup(all []candidate) ([]state.Endpoint, []repeat) {
	slices.SortFunc(all, candidate.compare)
	out := make([]state.Endpoint, 0, len(all))
	var repeats []repeat
	kept := 0
	for i, c := range all {
		if i > 0 && c.address == all[kept].address {
			repeats = append(repeats, repeat{lost: c, kept: all[kept]})
			continue
		}
		kept = i
		ep := *c.endpoint
		ep.Address = c.address
		ep.Check = c.inquiry.check(c.address.Addr(), ep.NodeName)
		out = append(out, ep)
	}
	return out, repeats
}

// differ reports whether two endpoints of one address say different things
// about traffic.
func (r repeat) differ() bool {
	a, b := r.lost.endpoint, r.kept.endpoint
	return a.Ready != b.Ready || a.Serving != b.Serving || a.Terminating != b.Terminating || a.NodeName != b.NodeName
}

func equalEndpoints(a, b state.Endpoint) bool {
	return a.Address == b.Address && a.NodeName == b.NodeName && a.Zone == b.Zone &&
		a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating && sameCheck(a.Check, b.Check) &&
		slices.Equal(a.HintNodes, b.HintNodes) && slices.Equal(a.HintZones, b.HintZones)
}
