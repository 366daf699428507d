package manifest

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The annotations that pointsman reads.
const (
	ownName                   = "pointsman"
	annotationPrefix          = ownName + "/"
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
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if meant, ok := misspelt(key); ok {
			f.warn(ruleAnnotationUnknown, annPath.Key(key), "unknown annotation: %s", meant)
		}
	}
}

// misspelt tells an annotation that was to be ours and isn't, and what may be
// meant by it. One of a known name is, without a prefix or with another that
// names us; the prefixes of others are theirs.
func misspelt(key string) (meant string, ok bool) {
	if slices.Contains(ownAnnotations, key) || key == annotationReasons {
		return "", false
	}
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	known := annotationPrefix + strings.ToLower(name)
	switch ours := strings.Contains(strings.ToLower(prefix), ownName); {
	case (ours || prefix == "") && slices.Contains(ownAnnotations, known):
		return known + " is meant?", true
	case ours:
		return "the known ones are " + strings.Join(ownAnnotations, ", "), true
	}
	return "", false
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
