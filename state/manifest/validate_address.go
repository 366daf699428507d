package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	ipFamilies       = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	ipFamilyPolicies = []corev1.IPFamilyPolicy{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack}
)

// clusterIPs checks clusterIP and clusterIPs, and what the allocator would
// check of them: a daemon has none.
func (f *findings) clusterIPs(spec *corev1.ServiceSpec, cfg Config) {
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	path := specPath.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		f.err(ruleClusterIPUnset, field.Invalid(path, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && !sameAddr(spec.ClusterIPs[0], spec.ClusterIP):
		f.err(ruleClusterIPFirst, field.Invalid(path, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	if len(spec.ClusterIPs) > 2 {
		f.err(ruleClusterIPTooMany, field.Invalid(path, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	addrs, ok := f.parseClusterIPs(path, spec, cfg)
	if !ok || len(addrs) < 2 {
		return
	}
	if !slices.ContainsFunc(addrs, netip.Addr.Is4) || !slices.ContainsFunc(addrs, netip.Addr.Is6) {
		f.err(ruleClusterIPSameFamily, field.Invalid(path, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		f.err(ruleDualStackPolicy, field.Invalid(specPath.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
}

// parseClusterIPs reads the clusterIPs, and reports whether all are good.
func (f *findings) parseClusterIPs(path *field.Path, spec *corev1.ServiceSpec, cfg Config) (addrs []netip.Addr, ok bool) {
	ok = true
	for i, text := range spec.ClusterIPs {
		if i == 0 && text == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				f.err(ruleClusterIPNone, field.Invalid(path, spec.ClusterIPs, "'None' must be the first and only value"))
				ok = false
			}
			continue
		}
		addr := f.usableAddr(path.Index(i), text)
		if !addr.IsValid() {
			ok = false
			continue
		}
		addrs = append(addrs, addr)
		if i < len(spec.IPFamilies) && slices.Contains(ipFamilies, spec.IPFamilies[i]) && spec.IPFamilies[i] != familyOf(addr) {
			f.err(ruleClusterIPFamily, field.Invalid(path.Index(i), text, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", spec.IPFamilies[i], i)))
			continue
		}
		f.allocatable(path.Index(i), addr, cfg)
	}
	return addrs, ok
}

// allocatable does what the allocator does with an address that is asked for.
func (f *findings) allocatable(path *field.Path, addr netip.Addr, cfg Config) {
	if len(cfg.ServiceCIDRs) == 0 {
		return
	}
	cidr, ok := serviceCIDR(cfg, addr)
	var rule Rule
	var detail string
	switch {
	case !slices.Contains(families(cfg), familyOf(addr)):
		rule, detail = ruleClusterIPUnconfigured, fmt.Sprintf("%s is not configured: no service CIDR is %s", familyOf(addr), familyOf(addr))
	case !ok:
		rule, detail = ruleClusterIPRange, fmt.Sprintf("is not in a service CIDR (%s)", prefixList(cfg.ServiceCIDRs))
	case addr == cidr.Masked().Addr():
		rule, detail = ruleClusterIPNetwork, fmt.Sprintf("is the network address of the service CIDR %s", cidr)
	case addr.Is4() && !cidr.Contains(addr.Next()):
		rule, detail = ruleClusterIPBroadcast, fmt.Sprintf("is the broadcast address of the service CIDR %s", cidr)
	default:
		return
	}
	f.err(rule, field.Invalid(path, addr.String(), detail))
}

func prefixList(ps []netip.Prefix) string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// sameAddr compares addresses as addresses, and what is none as text.
func sameAddr(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return a == b || errX == nil && errY == nil && x == y
}

// families checks ipFamilies and ipFamilyPolicy, against the configured
// families too.
func (f *findings) families(spec *corev1.ServiceSpec, cfg Config) {
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	path := specPath.Child("ipFamilyPolicy")
	policy := *spec.IPFamilyPolicy
	f.err(ruleFamilyPolicy, oneOf(path, policy, ipFamilyPolicies)...)
	f.familyList(spec.IPFamilies)
	if policy == corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 2 {
		f.err(ruleDualStackPolicy, field.Invalid(path, policy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	if isHeadless(spec) && len(spec.Selector) == 0 {
		return
	}
	configured := families(cfg)
	if policy == corev1.IPFamilyPolicyRequireDualStack && len(configured) < 2 {
		f.err(ruleDualStackUnconfigured, field.Invalid(path, policy, fmt.Sprintf("there are no dual-stack services: every service CIDR is %s", configured[0])))
	}
	for i, family := range spec.IPFamilies {
		given := i < len(spec.ClusterIPs) && !isHeadless(spec) // then the address has the error
		if !given && slices.Contains(ipFamilies, family) && !slices.Contains(configured, family) {
			f.err(ruleFamilyUnconfigured, field.Invalid(specPath.Child("ipFamilies").Index(i), family, "not configured: no service CIDR is of this family"))
		}
	}
}

func (f *findings) familyList(list []corev1.IPFamily) {
	for i, family := range list {
		path := specPath.Child("ipFamilies").Index(i)
		f.err(ruleFamily, oneOf(path, family, ipFamilies)...)
		if slices.Contains(list[:i], family) {
			f.err(ruleFamilyDuplicate, field.Duplicate(path, family))
		}
	}
}

// located is an address with the field it stands in.
type located struct {
	path *field.Path
	addr netip.Addr
}

// serviceAddrs checks the addresses that a Service has for clients outside:
// each by itself, and that none is there as two kinds of frontend, whose
// rules would contradict each other. Load-balancer addresses may be repeated:
// an exported manifest has them in its spec and in its status.
func (f *findings) serviceAddrs(svc *corev1.Service, cfg Config) {
	external := f.externalIPs(&svc.Spec)
	balancer := f.loadBalancerAddrs(svc)
	taken := map[netip.Addr]string{}
	for i, text := range svc.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(text); err == nil {
			taken[addr] = specPath.Child("clusterIPs").Index(i).String()
		}
	}
	f.apart(external, taken)
	for _, l := range external {
		taken[l.addr] = l.path.String()
	}
	f.apart(balancer, taken)
	for _, l := range slices.Concat(external, balancer) {
		f.outsideCIDRs(l.path, l.addr, cfg)
		if families := svc.Spec.IPFamilies; len(families) > 0 && !slices.Contains(families, familyOf(l.addr)) {
			f.warn(ruleAddressFamily, l.path, "%s is not programmed: spec.ipFamilies has no %s", l.addr, familyOf(l.addr))
		}
	}
}

func (f *findings) apart(list []located, taken map[netip.Addr]string) {
	for _, l := range list {
		if other, ok := taken[l.addr]; ok {
			f.err(ruleAddressTwice, field.Invalid(l.path, l.addr.String(), "already used by "+other))
		}
	}
}

func (f *findings) externalIPs(spec *corev1.ServiceSpec) []located {
	var all []located
	seen := map[netip.Addr]bool{}
	for i, text := range spec.ExternalIPs {
		path := specPath.Child("externalIPs").Index(i)
		addr := f.usableAddr(path, text)
		switch {
		case !addr.IsValid():
		case seen[addr]:
			f.err(ruleExternalIPDuplicate, field.Duplicate(path, text))
		default:
			seen[addr] = true
			all = append(all, located{path, addr})
		}
	}
	return all
}
