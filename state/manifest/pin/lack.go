package pin

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"pointsman/state/manifest"
)

// The fields that are written.
const (
	keyClusterIP   = "clusterIP"
	keyClusterIPs  = "clusterIPs"
	keyNodePort    = "nodePort"
	keyHealthCheck = "healthCheckNodePort"
)

// setting is a value that is to stand in a Service.
type setting struct {
	holder []string // the way from the Service to the mapping it belongs in: spec, ports, 0
	key    string
	value  any      // string, []string or uint16
	after  []string // the keys that it reads well after, the best first
}

// missingFamilies gives the families that a Service lacks a clusterIP of, in
// the order in which they are to stand. A Service that is left to another proxy
// by its label lacks them, too: an API server doesn't ask. PreferDualStack is content with one
// where there's no range for the other.
func missingFamilies(spec *corev1.ServiceSpec, cfg manifest.Config) []corev1.IPFamily {
	headless := slices.Equal(spec.ClusterIPs, []string{corev1.ClusterIPNone})
	if headless || spec.Type == corev1.ServiceTypeExternalName || len(spec.ClusterIPs) >= len(spec.IPFamilies) {
		return nil
	}
	missing := spec.IPFamilies[len(spec.ClusterIPs):]
	content := len(spec.ClusterIPs) > 0 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack
	if content && len(rangesOf(missing[0], cfg)) == 0 {
		return nil
	}
	return missing
}

// rangesOf gives the service CIDRs of a family.
func rangesOf(f corev1.IPFamily, cfg manifest.Config) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(cfg.ServiceCIDRs), func(p netip.Prefix) bool { return familyOf(p.Addr()) != f })
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// checkRanges finds out whether there is a range for every clusterIP.
func (s *survey) checkRanges(cfg manifest.Config) error {
	for _, svc := range s.services {
		for _, f := range missingFamilies(&svc.object.Service.Spec, cfg) {
			if len(rangesOf(f, cfg)) == 0 {
				return fmt.Errorf("%s: %s has no %s clusterIP, and %w", svc.source(), svc.object.Key, f, ErrNoServiceCIDR)
			}
		}
	}
	return nil
}

// wantsNodePorts: a LoadBalancer has NodePorts, too, unless it says otherwise.
func wantsNodePorts(spec *corev1.ServiceSpec) bool {
	switch spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts
	}
	return false
}

func lacksHealthCheck(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer && spec.HealthCheckNodePort == 0 &&
		spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// clusterIPSettings are those for a Service whose clusterIPs are to be all.
// The singular field alone says as much as a list of one.
func clusterIPSettings(spec *corev1.ServiceSpec, all []string) []setting {
	var out []setting
	if spec.ClusterIP == "" {
		out = append(out, setting{holder: []string{"spec"}, key: keyClusterIP, value: all[0], after: []string{"type"}})
	}
	if len(all) > 1 {
		out = append(out, setting{holder: []string{"spec"}, key: keyClusterIPs, value: all, after: []string{keyClusterIP, "type"}})
	}
	return out
}

func nodePortSetting(i int, n uint16) setting {
	return setting{holder: []string{"spec", "ports", strconv.Itoa(i)}, key: keyNodePort, value: n, after: []string{"port"}}
}

func healthCheckSetting(n uint16) setting {
	return setting{holder: []string{"spec"}, key: keyHealthCheck, value: n, after: []string{"externalTrafficPolicy"}}
}
