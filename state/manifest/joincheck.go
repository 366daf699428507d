package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pointsman/state"
)

// check looks for what is legal by itself and wrong in company.
func (j *joined) check(repeats []repeat) {
	if len(j.slices) == 0 {
		j.checkNoSlices()
		return
	}
	for i, p := range j.demand.object.Service.Spec.Ports {
		j.checkPort(i, p)
	}
	j.checkFamilies()
	j.checkPolicies()
	j.checkRepeats(repeats)
}

func (j *joined) warn(rule Rule, o *Object, field, format string, args ...any) {
	j.findings = append(j.findings, o.problem(rule, field, format, args...))
}

func (j *joined) checkNoSlices() {
	o := j.demand.object
	if len(o.Service.Spec.Selector) > 0 {
		j.warn(ruleSelectorNoSlices, o, "spec.selector", "selector present, no slices: a selector has no effect here; "+
			"connections are refused until an EndpointSlice is labelled %s: %s", discoveryv1.LabelServiceName, o.Key.Name)
		return
	}
	j.warn(ruleNoSlices, o, "", "no EndpointSlice in namespace %s is labelled %s: %s: connections are refused",
		o.Key.Namespace, discoveryv1.LabelServiceName, o.Key.Name)
}

// checkPort compares a Service port with the slices' ports. targetPort plays
// no part in the match, which few expect (validation.md, 8).
func (j *joined) checkPort(i int, p corev1.ServicePort) {
	var numbers []uint16
	j.eachMatch(p, func(_ *backing, bp backingPort) { numbers = append(numbers, bp.number) })
	field := fmt.Sprintf("spec.ports[%d]", i)
	target := p.TargetPort
	switch {
	case len(numbers) == 0:
		j.checkUnmatched(field, p)
	case target.Type == intstr.Int && target.IntVal != 0 && target.IntVal != p.Port &&
		!slices.Contains(numbers, uint16(target.IntVal)):
		j.warn(ruleTargetPortDiffers, j.demand.object, field+".targetPort", "Invalid value: %d: targetPort has no effect: the slices' port %q is %d, and that is used",
			target.IntVal, p.Name, numbers[0])
	}
}

// checkUnmatched reports a Service port that no slice has (C10), with both
// sides' names.
func (j *joined) checkUnmatched(field string, p corev1.ServicePort) {
	offers := j.offers()
	if len(offers) == 0 {
		return // every slice is unusable, and says why
	}
	hint := ""
	if t := p.TargetPort; t.Type == intstr.String && j.offersName(t.StrVal) {
		hint = fmt.Sprintf("; targetPort %q has no effect, slices are matched by the Service port's name", t.StrVal)
	}
	j.warn(rulePortUnmatched, j.demand.object, field+".name", "no slice has a port %q for %s: connections to port %d are refused; the slices have %s%s",
		p.Name, p.Protocol, p.Port, strings.Join(offers, ", "), hint)
}

// offers lists the ports that the slices have, as text.
func (j *joined) offers() []string {
	const most = 6
	var out []string
	for _, e := range j.slices {
		for _, b := range e.backings {
			for _, p := range b.ports {
				out = append(out, fmt.Sprintf("%q %d/%s (%s)", p.name, p.number, p.protocol, b.object.lineOf("ports")))
			}
		}
		if len(out) > most {
			return append(out[:most], "...")
		}
	}
	return slices.Compact(out)
}

func (j *joined) offersName(name string) bool {
	return slices.ContainsFunc(j.slices, func(e *digest) bool {
		return slices.ContainsFunc(e.backings, func(b backing) bool {
			return slices.ContainsFunc(b.ports, func(p backingPort) bool { return p.name == name })
		})
	})
}

// checkFamilies reports frontends without endpoints of their family, which
// are rejected rather than translated across families (C95), and slices of a
// family that the Service has no address of.
func (j *joined) checkFamilies() {
	var behind stack
	for _, eps := range j.endpoints {
		for _, ep := range eps {
			behind |= stackOf(ep.Address.Addr())
		}
	}
	if behind == 0 {
		return
	}
	front := map[stack]claim{}
	for _, c := range j.demand.claims {
		if f := stackOf(c.frontend.Address); c.frontend.Address.IsValid() && front[f].field == "" {
			front[f] = c
		}
	}
	for _, f := range (ipv4 | ipv6).each() {
		if c, ok := front[f]; ok && behind&f == 0 {
			j.warn(ruleFamilyNoEndpoints, j.demand.object, c.field, "no endpoint is %s: connections to %s are refused", f, c.frontend.Address)
		}
	}
	j.checkUnusedFamilies()
}

func (j *joined) checkUnusedFamilies() {
	for _, e := range j.slices {
		for _, b := range e.backings {
			if len(b.endpoints) > 0 && j.demand.families&b.family == 0 {
				j.warn(ruleFamilyUnused, e.object, "addressType", "the %s endpoints are not used: Service %s has no %s address",
					b.family, j.demand.object.Key.ObjectName, b.family)
			}
		}
	}
}

// checkPolicies: policy Local needs nodeNames, which the endpoint controller
// of a cluster fills in and people forget (validation.md, 10).
func (j *joined) checkPolicies() {
	some, local := false, false
	for _, eps := range j.endpoints {
		some = some || len(eps) > 0
		local = local || slices.ContainsFunc(eps, func(ep state.Endpoint) bool { return ep.NodeName != "" })
	}
	if !some || local {
		return
	}
	if j.demand.service.ExternalTrafficPolicy == state.Local {
		j.warn(ruleLocalWithoutNodes, j.demand.object, "spec.externalTrafficPolicy", "Local, but no endpoint has a nodeName: no host has endpoints of its own, and all drop the traffic")
	}
	if j.demand.service.InternalTrafficPolicy == state.Local {
		j.warn(ruleLocalWithoutNodes, j.demand.object, "spec.internalTrafficPolicy", "Local, but no endpoint has a nodeName: no host has endpoints of its own, and all drop the traffic")
	}
}

// checkRepeats reports endpoints that occur in two slices, once for each two;
// validation looks into each slice.
func (j *joined) checkRepeats(repeats []repeat) {
	type pair struct{ lost, kept *Object }
	type sum struct {
		first  netip.AddrPort
		n      int
		differ bool
	}
	var pairs []pair
	sums := map[pair]*sum{}
	for _, r := range repeats {
		k := pair{r.lost.object, r.kept.object}
		if k.lost == k.kept {
			continue
		}
		if sums[k] == nil {
			sums[k] = &sum{first: r.lost.address}
			pairs = append(pairs, k)
		}
		sums[k].n++
		sums[k].differ = sums[k].differ || r.differ()
	}
	for _, k := range pairs {
		s, differ := sums[k], ""
		if s.differ {
			differ = "; where they differ, that one counts"
		}
		j.warn(ruleEndpointRepeated, k.lost, fieldOf(k.lost, s.first.Addr()), "Duplicate value: %q: also in %s (%s)%s%s", s.first, k.kept.Key, k.kept.Source, differ, more(s.n))
	}
}

func more(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (and %d more like it)", n-1)
}

// withoutLoops takes out endpoints that are the Service's own clusterIP. No
// host has such an address, and nat runs once a connection, so what is sent
// there is lost.
func (j *joined) withoutLoops(eps []state.Endpoint) []state.Endpoint {
	return slices.DeleteFunc(eps, func(ep state.Endpoint) bool {
		loop := slices.ContainsFunc(j.demand.claims, func(c claim) bool {
			return c.kind == claimClusterIP && c.frontend.Address == ep.Address.Addr()
		})
		if loop {
			j.reportLoop(ep.Address.Addr())
		}
		return loop
	})
}

func (j *joined) reportLoop(a netip.Addr) {
	for _, e := range j.slices {
		if field := fieldOf(e.object, a); field != "" {
			j.findings = append(j.findings, e.object.problem(ruleEndpointOwnClusterIP, field,
				"Invalid value: %q: this is the clusterIP of the endpoint's own Service %s; the endpoint is not used", a, j.demand.object.Key.ObjectName))
		}
	}
}

// fieldOf tells where an address stands among the endpoints of a slice or an
// Endpoints object, "" if it doesn't.
func fieldOf(o *Object, a netip.Addr) string {
	is := func(text string) bool {
		parsed, err := netip.ParseAddr(text)
		return err == nil && parsed == a
	}
	if o.EndpointSlice != nil {
		for i, ep := range o.EndpointSlice.Endpoints {
			if len(ep.Addresses) > 0 && is(ep.Addresses[0]) {
				return fmt.Sprintf("endpoints[%d].addresses[0]", i)
			}
		}
		return ""
	}
	for i, subset := range o.Endpoints.Subsets {
		if k := slices.IndexFunc(subset.Addresses, func(a corev1.EndpointAddress) bool { return is(a.IP) }); k >= 0 {
			return fmt.Sprintf("subsets[%d].addresses[%d].ip", i, k)
		}
		if k := slices.IndexFunc(subset.NotReadyAddresses, func(a corev1.EndpointAddress) bool { return is(a.IP) }); k >= 0 {
			return fmt.Sprintf("subsets[%d].notReadyAddresses[%d].ip", i, k)
		}
	}
	return ""
}
