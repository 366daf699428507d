package manifest

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The annotations that pointsman reads.
const (
	annotationPrefix          = "pointsman/"
	annotationLoadBalancerIPs = annotationPrefix + "load-balancer-ips"
	annotationReadinessProbe  = annotationPrefix + "readiness-probe"
	annotationNodeSelector    = annotationPrefix + "node-selector"
	annotationProbeFrom       = annotationPrefix + "probe-from"
	annotationWhenAllFail     = annotationPrefix + "when-all-fail"
	annotationPanicThreshold  = annotationPrefix + "panic-threshold"
)

var ownAnnotations = []string{
	annotationLoadBalancerIPs, annotationNodeSelector, annotationPanicThreshold,
	annotationProbeFrom, annotationReadinessProbe, annotationWhenAllFail,
}

// ownAnnotations warns of annotations that look like ours and are not.
func (f *findings) ownAnnotations(annotations map[string]string) {
	var unknown []string
	for key := range annotations {
		if len(key) >= len(annotationPrefix) && strings.EqualFold(key[:len(annotationPrefix)], annotationPrefix) && !slices.Contains(ownAnnotations, key) && key != annotationReasons {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	for _, key := range unknown {
		f.warn(ruleAnnotationUnknown, annPath.Key(key), "unknown annotation: the known ones are %s", strings.Join(ownAnnotations, ", "))
	}
}

// annotatedAddrs reads the comma list of addresses of an annotation.
func (f *findings) annotatedAddrs(path *field.Path, text string) []netip.Addr {
	var addrs []netip.Addr
	for item := range strings.SplitSeq(text, ",") {
		addr := f.usableAddr(path, strings.TrimSpace(item))
		switch {
		case !addr.IsValid():
		case slices.Contains(addrs, addr):
			f.err(ruleBalancerIPDuplicate, field.Duplicate(path, addr.String()))
		default:
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
