package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pointsman/state"
)

// ourLoadBalancerClass is the one loadBalancerClass whose addresses are
// programmed, next to none at all; names below it are ours too.
const ourLoadBalancerClass = "pointsman"

// serviceProxyNameLabel leaves a Service to the proxy it names (KEP-2447),
// whatever the value.
const serviceProxyNameLabel = "service.kubernetes.io/service-proxy-name"

// demand is what a Service asks for by itself: everything its manifest says,
// before slices are joined and before other Services had their say.
type demand struct {
	object   *Object
	asked    *asked
	families stack
	service  state.Service // without ClusterIPs, HealthCheckNodePort and Ports
	claims   []claim
	findings []Problem
}

// address is an address that a Service is to be reached by.
type address struct {
	netip.Addr
	kind  state.FrontendKind
	field string // where it stands
}

// take works out what a Service's manifest asks for: nothing where the Service
// is headless, an ExternalName or left to another proxy. A manifest that asks
// to be programmed and has no frontend is in error, like one that doesn't
// validate: the last good version stays, should `clusterIP` have gone missing
// from the file.
func (e *digest) take() {
	if !isProgrammed(e.object.Service) {
		return
	}
	d := newDemand(e.object)
	d.asked = e.asked
	if slices.ContainsFunc(d.claims, func(c claim) bool { return c.kind == claimAddressPort || c.kind == claimNodePort }) {
		e.demand = d
		return
	}
	e.failed = true
	e.findings = append(d.findings, e.object.problem(ruleNoFrontend, "spec", "no frontend is left: there is no clusterIP, no external address and no nodePort that could be served"))
}

func isProgrammed(s *corev1.Service) bool {
	_, other := s.Labels[serviceProxyNameLabel]
	return !other && s.Spec.Type != corev1.ServiceTypeExternalName && !isHeadless(&s.Spec)
}

func newDemand(o *Object) *demand {
	d := &demand{object: o, service: serviceOf(o)}
	for _, f := range o.Service.Spec.IPFamilies {
		d.families |= map[corev1.IPFamily]stack{corev1.IPv4Protocol: ipv4, corev1.IPv6Protocol: ipv6}[f]
	}
	addresses := clusterIPsOf(o.Service)
	for _, a := range addresses {
		d.families |= stackOf(a.Addr)
		d.claims = append(d.claims, claim{kind: claimClusterIP, port: -1, frontend: state.Frontend{Address: a.Addr}, field: a.field})
	}
	d.checkClusterIPs(addresses)
	for _, a := range externalAddresses(o.Service) {
		addresses = d.addExternal(addresses, a)
	}
	for i, p := range o.Service.Spec.Ports {
		d.claimPort(i, p, addresses)
	}
	d.claimHealthCheck()
	d.checkSourceRanges()
	d.checkClass()
	return d
}

func (d *demand) claimPort(i int, p corev1.ServicePort, addresses []address) {
	protocol := state.Protocol(p.Protocol)
	for _, a := range addresses {
		d.claims = append(d.claims, claim{kind: claimAddressPort, port: i, protocol: protocol, field: a.field,
			frontend: state.Frontend{Kind: a.kind, Address: a.Addr, Port: uint16(p.Port)}})
	}
	switch {
	case hasNodePorts(d.object.Service) && p.NodePort > 0:
		d.claims = append(d.claims, claim{kind: claimNodePort, port: i, protocol: protocol,
			frontend: state.Frontend{Kind: state.NodePort, Port: uint16(p.NodePort)}})
	case d.object.Service.Spec.Type == corev1.ServiceTypeNodePort:
		d.missing(ruleNodePortMissing, fmt.Sprintf("spec.ports[%d].nodePort", i), "nodePort")
	}
}

func (d *demand) claimHealthCheck() {
	if !isLoadBalancer(d.object.Service) || d.service.ExternalTrafficPolicy != state.Local {
		return
	}
	port := d.object.Service.Spec.HealthCheckNodePort
	if port == 0 {
		d.missing(ruleHealthPortMissing, "spec.healthCheckNodePort", "healthCheckNodePort")
		return
	}
	d.claims = append(d.claims, claim{kind: claimHealthCheck, port: -1,
		frontend: state.Frontend{Port: uint16(port)}, field: "spec.healthCheckNodePort"})
}

// missing warns of a value that a cluster would allocate. Hosts must not guess
// different ones, so it is absent until it is written down.
func (d *demand) missing(rule Rule, field, what string) {
	d.warn(rule, field, "Required value: there is no %s, so it is not served; `pointsman pin DIR` writes one into the file", what)
}

// checkClusterIPs warns of clusterIPs that a cluster would allocate:
// PreferDualStack is content with one.
func (d *demand) checkClusterIPs(have []address) {
	policy := deref(d.object.Service.Spec.IPFamilyPolicy, "")
	switch {
	case len(have) == 0:
		d.missing(ruleClusterIPMissing, "spec.clusterIP", "clusterIP")
	case len(have) == 1 && policy == corev1.IPFamilyPolicyRequireDualStack:
		d.missing(ruleClusterIPMissing, "spec.clusterIPs", fmt.Sprintf("%s clusterIP", (ipv4|ipv6)&^stackOf(have[0].Addr)))
	}
}

// checkClass warns of load-balancer addresses that are somebody else's to serve.
func (d *demand) checkClass() {
	s := d.object.Service
	if !isLoadBalancer(s) || isOurClass(s) {
		return
	}
	if addresses := loadBalancerAddresses(s); len(addresses) > 0 {
		d.warn(ruleBalancerClassForeign, "spec.loadBalancerClass", "the load-balancer addresses are left to %q and not served", *s.Spec.LoadBalancerClass)
	}
}

func (d *demand) warn(rule Rule, field, format string, args ...any) {
	d.findings = append(d.findings, d.object.problem(rule, field, format, args...))
}

// addExternal adds an external address to those a Service is reached by,
// unless it is of a family that the Service doesn't have: kube-proxy's pass
// over a family leaves out Services without a clusterIP of it (C95; validation
// warns of such an address). What counts is spec.ipFamilies, which has the
// families of the clusterIPs, and of a clusterIP that is yet to be written
// down, so that `pointsman pin` doesn't change what else is served.
func (d *demand) addExternal(have []address, a address) []address {
	if d.families&stackOf(a.Addr) == 0 {
		return have
	}
	if slices.ContainsFunc(have, func(h address) bool { return h.Addr == a.Addr }) {
		return have // an exported manifest has an address in its spec and its status
	}
	return append(have, a)
}

func clusterIPsOf(s *corev1.Service) []address {
	texts, field := s.Spec.ClusterIPs, "spec.clusterIPs[%d]"
	if len(texts) == 0 {
		texts = []string{s.Spec.ClusterIP}
	}
	if len(texts) == 1 && s.Spec.ClusterIP != "" {
		field = "spec.clusterIP"
	}
	return appendAddresses(nil, state.ClusterIP, field, texts)
}

// externalAddresses gives the externalIPs and load-balancer addresses.
func externalAddresses(s *corev1.Service) []address {
	out := appendAddresses(nil, state.ExternalIP, "spec.externalIPs[%d]", s.Spec.ExternalIPs)
	if isLoadBalancer(s) && isOurClass(s) {
		out = append(out, loadBalancerAddresses(s)...)
	}
	return out
}

// loadBalancerAddresses gives them from the three places they may stand in
// (semantics.md, Frontends).
func loadBalancerAddresses(s *corev1.Service) []address {
	out := appendAddresses(nil, state.LoadBalancerIP, "spec.loadBalancerIP", []string{s.Spec.LoadBalancerIP})
	out = appendAddresses(out, state.LoadBalancerIP, "metadata.annotations["+annotationLoadBalancerIPs+"]",
		strings.Split(s.Annotations[annotationLoadBalancerIPs], ","))
	for i, in := range s.Status.LoadBalancer.Ingress {
		if deref(in.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP {
			out = appendAddresses(out, state.LoadBalancerIP, fmt.Sprintf("status.loadBalancer.ingress[%d].ip", i), []string{in.IP})
		}
	}
	return out
}

// appendAddresses parses addresses; those that are none were reported when
// the document was validated. A field with %d gets the index.
func appendAddresses(to []address, kind state.FrontendKind, field string, texts []string) []address {
	for i, text := range texts {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			continue
		}
		a := address{addr.Unmap(), kind, field}
		if strings.Contains(field, "%d") {
			a.field = fmt.Sprintf(field, i)
		}
		to = append(to, a)
	}
	return to
}

func isLoadBalancer(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }

func hasNodePorts(s *corev1.Service) bool {
	return isLoadBalancer(s) || s.Spec.Type == corev1.ServiceTypeNodePort
}

func isOurClass(s *corev1.Service) bool {
	class := deref(s.Spec.LoadBalancerClass, "")
	return class == "" || class == ourLoadBalancerClass || strings.HasPrefix(class, ourLoadBalancerClass+"/")
}

// serviceOf fills in what needs no claim.
func serviceOf(o *Object) state.Service {
	spec := &o.Service.Spec
	return state.Service{
		ObjectName:            o.Key.ObjectName,
		Source:                o.Source,
		InternalTrafficPolicy: state.TrafficPolicy(deref(spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)),
		ExternalTrafficPolicy: externalPolicyOf(o.Service),
		Affinity:              affinityOf(spec),
		SourceRanges:          sourceRangesOf(o.Service),
		RejectWhenAllFail:     o.Service.Annotations[annotationWhenAllFail] == rejectAll,
		PanicThreshold:        panicThresholdOf(o.Service.Annotations),
	}
}

// externalPolicyOf: Local counts for Services that are reached from outside
// only, which one with externalIPs is (pkg/api/v1/service, ExternalPolicyLocal).
func externalPolicyOf(s *corev1.Service) state.TrafficPolicy {
	outside := hasNodePorts(s) || len(s.Spec.ExternalIPs) > 0
	if outside && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		return state.Local
	}
	return state.Cluster
}

func affinityOf(spec *corev1.ServiceSpec) time.Duration {
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		seconds = deref(c.ClientIP.TimeoutSeconds, seconds)
	}
	return time.Duration(seconds) * time.Second
}

// sourceRangesOf gives the ranges of the field, or of the legacy annotation
// where the field is empty. kube-proxy ignores the annotation; to drop a
// firewall without a word would be the worst answer (validation.md, 4.4).
func sourceRangesOf(s *corev1.Service) []netip.Prefix {
	if !isLoadBalancer(s) {
		return nil
	}
	_, texts := sourceRanges(s)
	var ranges []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			ranges = append(ranges, p.Masked())
		}
	}
	return ranges
}

// checkSourceRanges says what the ranges leave open: they guard the
// load-balancer addresses only (C28).
func (d *demand) checkSourceRanges() {
	if len(d.service.SourceRanges) == 0 {
		return
	}
	for _, c := range d.claims {
		if c.kind == claimNodePort {
			d.warn(ruleSourceRangesNodePort, "spec.loadBalancerSourceRanges", "the ranges do not cover nodePort %d; set allocateLoadBalancerNodePorts: false and drop nodePort", c.frontend.Port)
		}
	}
}
