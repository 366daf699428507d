package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	affinities       = []corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone}
	externalPolicies = []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal}
	internalPolicies = []corev1.ServiceInternalTrafficPolicy{corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal}
	distributions    = []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}
)

// affinity checks the session affinity. The API server's message has it that
// the time must be less than 86400; it takes 86400 too.
func (f *findings) affinity(spec *corev1.ServiceSpec) {
	f.err(ruleAffinity, oneOf(specPath.Child("sessionAffinity"), spec.SessionAffinity, affinities)...)
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return
	}
	if t := *spec.SessionAffinityConfig.ClientIP.TimeoutSeconds; t < 1 || t > maxAffinitySeconds {
		f.err(ruleAffinityTimeout, field.Invalid(specPath.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), t, validation.InclusiveRangeError(1, maxAffinitySeconds)))
	}
}

// maxAffinitySeconds is core.MaxClientIPServiceAffinitySeconds: a day.
const maxAffinitySeconds = 86400

func (f *findings) trafficPolicies(svc *corev1.Service) {
	spec := &svc.Spec
	external := specPath.Child("externalTrafficPolicy")
	switch {
	case externallyAccessible(svc):
		f.err(ruleExternalPolicy, oneOf(external, spec.ExternalTrafficPolicy, externalPolicies)...)
	case spec.ExternalTrafficPolicy != "":
		f.err(ruleExternalPolicyType, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if p := spec.InternalTrafficPolicy; p != nil {
		f.err(ruleInternalPolicy, oneOf(specPath.Child("internalTrafficPolicy"), *p, internalPolicies)...)
	}
	if d := spec.TrafficDistribution; d != nil {
		path := specPath.Child("trafficDistribution")
		f.err(ruleDistribution, oneOf(path, *d, distributions)...)
		if *d == corev1.ServiceTrafficDistributionPreferClose {
			f.warn(rulePreferClose, path, "%q is deprecated; use %q", *d, corev1.ServiceTrafficDistributionPreferSameZone)
		}
	}
}

// healthCheckNodePort checks the port where it is given. It is from the range
// of the node ports, and none of them may be the same.
func (f *findings) healthCheckNodePort(svc *corev1.Service, cfg Config) {
	n := svc.Spec.HealthCheckNodePort
	path := specPath.Child("healthCheckNodePort")
	switch {
	case n == 0:
		return
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		f.err(ruleHealthPortPolicy, field.Invalid(path, n, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		return
	}
	f.err(ruleHealthPortRange, inNodePortRange(path, n, cfg)...)
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].NodePort == n {
			f.err(ruleHealthPortShared, field.Invalid(path, n, "already used by "+specPath.Child("ports").Index(i).Child("nodePort").String()))
		}
	}
}

// loadBalancerOnly checks the fields that only a load balancer may have.
func (f *findings) loadBalancerOnly(spec *corev1.ServiceSpec) {
	const only = "may only be used when `type` is 'LoadBalancer'"
	class := specPath.Child("loadBalancerClass")
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		if spec.LoadBalancerClass != nil {
			f.err(ruleBalancerClassSyntax, invalid(class, *spec.LoadBalancerClass, validation.IsQualifiedName(*spec.LoadBalancerClass))...)
		}
		return
	}
	if spec.LoadBalancerClass != nil {
		f.err(ruleBalancerClassType, field.Forbidden(class, only))
	}
	if spec.AllocateLoadBalancerNodePorts != nil {
		f.err(ruleAllocateNodePortsType, field.Forbidden(specPath.Child("allocateLoadBalancerNodePorts"), only))
	}
}
