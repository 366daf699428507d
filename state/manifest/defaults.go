package manifest

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// defaultMeta fills in what kubectl does, and drops what only a cluster has a
// use for.
func defaultMeta(m *metav1.ObjectMeta) {
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	m.ManagedFields = nil
}

// defaultService does what SetDefaults_Service, normalizeClusterIPs and
// initIPFamilyFields do in Kubernetes 1.37, allocation aside. It takes any
// input; what is wrong with it stays as it is, for the validation to find.
func defaultService(svc *corev1.Service, cfg Config) {
	defaultMeta(&svc.ObjectMeta)
	spec := &svc.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	defaultAffinity(spec)
	defaultServicePorts(spec.Ports)
	if spec.ExternalTrafficPolicy == "" && externallyAccessible(svc) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.InternalTrafficPolicy == nil && spec.Type != corev1.ServiceTypeExternalName {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		defaultLoadBalancer(svc)
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		defaultFamilies(spec, families(cfg))
	}
}

// defaultAffinity replaces a sessionAffinityConfig that is not used or says
// nothing. An explicit timeout of 0 stays, and is an error.
func defaultAffinity(spec *corev1.ServiceSpec) {
	switch spec.SessionAffinity {
	case "", corev1.ServiceAffinityNone:
		spec.SessionAffinity = corev1.ServiceAffinityNone
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		c := spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
}

func defaultServicePorts(ports []corev1.ServicePort) {
	for i := range ports {
		p := &ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
}

func defaultLoadBalancer(svc *corev1.Service) {
	if svc.Spec.AllocateLoadBalancerNodePorts == nil {
		svc.Spec.AllocateLoadBalancerNodePorts = new(true)
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		in := &svc.Status.LoadBalancer.Ingress[i]
		if in.IP != "" && in.IPMode == nil {
			in.IPMode = new(corev1.LoadBalancerIPModeVIP)
		}
	}
}

// defaultFamilies says which families a Service has: those of its clusterIPs,
// else the first configured one, and the other one where the policy asks for
// it and there is one. Without clusterIPs that all parse it guesses nothing.
func defaultFamilies(spec *corev1.ServiceSpec, configured []corev1.IPFamily) {
	bare := isHeadless(spec) && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		if bare {
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		}
	}
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if !isHeadless(spec) && !inferFamilies(spec, single) {
		return
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{configured[0]}
	}
	if !single && len(spec.IPFamilies) == 1 && len(spec.ClusterIPs) < 2 && (bare || len(configured) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
}

// inferFamilies adds the families of the clusterIPs that ipFamilies does not
// name, and reports whether the clusterIPs could be read.
func inferFamilies(spec *corev1.ServiceSpec, single bool) bool {
	for i, ip := range spec.ClusterIPs {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return false
		}
		family := familyOf(addr)
		if i >= len(spec.IPFamilies) && (i == 0 || !single) && !slices.Contains(spec.IPFamilies, family) {
			spec.IPFamilies = append(spec.IPFamilies, family)
		}
	}
	return true
}

// families are those of the service CIDRs, in their order. Where there is no
// CIDR to say it, both may be used, and IPv4 comes first.
func families(cfg Config) []corev1.IPFamily {
	if len(cfg.ServiceCIDRs) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	first := familyOf(cfg.ServiceCIDRs[0].Addr())
	for _, cidr := range cfg.ServiceCIDRs {
		if familyOf(cidr.Addr()) != first {
			return []corev1.IPFamily{first, otherFamily(first)}
		}
	}
	return []corev1.IPFamily{first}
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// isHeadless reports whether a Service asks for no clusterIP.
func isHeadless(spec *corev1.ServiceSpec) bool {
	return len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// externallyAccessible reports whether externalTrafficPolicy has a meaning.
func externallyAccessible(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(svc.Spec.ExternalIPs) > 0
	}
	return false
}

// defaultSlice does what SetDefaults_EndpointPort does. Absent conditions and
// port numbers stay absent.
func defaultSlice(slice *discoveryv1.EndpointSlice) {
	defaultMeta(&slice.ObjectMeta)
	for i := range slice.Ports {
		p := &slice.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

// defaultEndpoints does what SetDefaults_Endpoints does.
//
//lint:ignore SA1019 legacy manifests carry them
func defaultEndpoints(ep *corev1.Endpoints) {
	defaultMeta(&ep.ObjectMeta)
	for i := range ep.Subsets {
		for j := range ep.Subsets[i].Ports {
			if p := &ep.Subsets[i].Ports[j]; p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
		}
	}
}
