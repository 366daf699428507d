package manifest

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// readNode tells what is wrong with what is read of a Node: its name, its
// labels and its InternalIPs.
func readNode(node *corev1.Node) []finding {
	var f findings
	f.meta(&node.ObjectMeta, validation.IsDNS1123Subdomain)
	f.misplaced(node.Annotations, KindNode)
	if node.Namespace != "" {
		f.err(ruleNodeNamespace, field.Forbidden(metaPath.Child("namespace"), "not allowed on this type"))
	}
	var seen []netip.Addr
	for i, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		path := field.NewPath("status", "addresses").Index(i).Child("address")
		addr := f.usableAddr(path, a.Address)
		if addr.IsValid() && slices.Contains(seen, addr) {
			f.err(ruleNodeAddressDuplicate, field.Duplicate(path, a.Address))
		}
		seen = append(seen, addr)
	}
	if len(seen) == 0 {
		f.warn(ruleNodeWithoutAddress, field.NewPath("status", "addresses"), "there is no InternalIP: where this node is cannot be told")
	}
	return f
}
