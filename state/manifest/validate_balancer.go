package manifest

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var ipModes = []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP}

// loadBalancerAddrs reads the addresses of a load balancer. Kubernetes never
// looks at loadBalancerIP, and wipes the status of what it is given.
func (f *findings) loadBalancerAddrs(svc *corev1.Service) []located {
	var all []located
	if text := svc.Spec.LoadBalancerIP; text != "" {
		path := specPath.Child("loadBalancerIP")
		all = append(all, located{path, f.usableAddr(path, text)})
	}
	if text, ok := svc.Annotations[annotationLoadBalancerIPs]; ok {
		path := annPath.Key(annotationLoadBalancerIPs)
		for _, addr := range f.annotatedAddrs(path, text) {
			all = append(all, located{path, addr})
		}
	}
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		all = append(all, f.ingress(svc)...)
	}
	all = slices.DeleteFunc(all, func(l located) bool { return !l.addr.IsValid() })
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		for _, l := range all {
			f.warn(ruleBalancerIPIgnored, l.path, "is ignored when spec.type is not %q", corev1.ServiceTypeLoadBalancer)
		}
		return nil
	}
	return all
}

// ingress checks status.loadBalancer.ingress as an update of the status is
// checked. An address of mode Proxy is not programmed.
func (f *findings) ingress(svc *corev1.Service) []located {
	var all []located
	for i, in := range svc.Status.LoadBalancer.Ingress {
		path := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if in.IP != "" {
			addr := f.usableAddr(path.Child("ip"), in.IP)
			if in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
				all = append(all, located{path.Child("ip"), addr})
			}
		}
		switch {
		case in.IPMode == nil:
		case in.IP == "":
			f.err(ruleIngressModeWithoutIP, field.Forbidden(path.Child("ipMode"), "may not be specified when `ip` is not set"))
		default:
			f.err(ruleIngressMode, oneOf(path.Child("ipMode"), *in.IPMode, ipModes)...)
		}
		f.ingressHostname(path.Child("hostname"), in.Hostname)
	}
	return all
}

func (f *findings) ingressHostname(path *field.Path, name string) {
	if name == "" {
		return
	}
	f.err(ruleIngressHostname, invalid(path, name, validation.IsDNS1123Subdomain(name))...)
	if _, err := netip.ParseAddr(name); err == nil {
		f.err(ruleIngressHostname, field.Invalid(path, name, "must be a DNS name, not an IP address"))
	}
}

// sourceRanges checks loadBalancerSourceRanges, or the annotation that came
// before it and counts only where the field is empty. Kubernetes writes the
// field's path with a capital L. A family without ranges is open to all.
func (f *findings) sourceRanges(svc *corev1.Service) {
	path, ranges := sourceRanges(svc)
	if path == nil {
		return
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		f.err(ruleSourceRangesType, field.Forbidden(path, "may only be used when `type` is 'LoadBalancer'"))
	}
	limited := map[corev1.IPFamily]bool{}
	for i, text := range ranges {
		at := path
		if len(svc.Spec.LoadBalancerSourceRanges) > 0 {
			at = path.Index(i)
		}
		if p := f.prefix(at, text); p.IsValid() {
			limited[familyOf(p.Addr())] = true
		}
	}
	for _, family := range svc.Spec.IPFamilies {
		if len(limited) > 0 && !limited[family] {
			f.warn(ruleSourceRangesFamily, path, "has no %s range: any %s client may connect", family, family)
		}
	}
}

// sourceRanges gives the ranges that limit a load balancer's clients and the
// path they stand at, which is nil where there are none.
func sourceRanges(svc *corev1.Service) (*field.Path, []string) {
	if ranges := svc.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		return specPath.Child("LoadBalancerSourceRanges"), ranges
	}
	text, ok := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok {
		return nil, nil
	}
	path := annPath.Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if strings.TrimSpace(text) == "" {
		return path, nil
	}
	return path, strings.Split(text, ",")
}
