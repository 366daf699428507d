package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The rules are those of ValidateServiceCreate and
// ValidateEndpointSliceCreate of Kubernetes 1.37, with their field paths and
// words, and some that a cluster leaves to its allocators or to nobody. What
// passes here holds only addresses and prefixes that net/netip parses, of the
// family they stand for, and ports from 1 to 65535.

var (
	protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
	metaPath  = field.NewPath("metadata")
	annPath   = metaPath.Child("annotations")
	specPath  = field.NewPath("spec")
)

// meta checks the metadata of an object. A generated name would be another on
// every host. Finalizers, owners and managed fields mean nothing here.
func (f *findings) meta(m *metav1.ObjectMeta, name func(string) []string) {
	namePath := metaPath.Child("name")
	switch {
	case m.GenerateName != "":
		f.err(ruleNameGenerated, field.Forbidden(metaPath.Child("generateName"), "must have a name: a generated one would differ from host to host"))
	case m.Name == "":
		f.err(ruleNameRequired, field.Required(namePath, ""))
	}
	if m.Name != "" {
		f.err(ruleNameSyntax, invalid(namePath, m.Name, name(m.Name))...)
	}
	f.sorted(ruleLabelSyntax, metavalidation.ValidateLabels(m.Labels, metaPath.Child("labels")))
	if len(m.Annotations) > 0 {
		f.sorted(ruleAnnotationSyntax, apivalidation.ValidateAnnotations(m.Annotations, annPath))
		f.ownAnnotations(m.Annotations)
	}
}

// namespacedMeta is meta of an object that has a namespace.
func (f *findings) namespacedMeta(m *metav1.ObjectMeta, name func(string) []string) {
	f.meta(m, name)
	f.err(ruleNamespaceSyntax, invalid(metaPath.Child("namespace"), m.Namespace, validation.IsDNS1123Label(m.Namespace))...)
}

// invalid gives an error for each message that a check of a value gave.
func invalid(path *field.Path, value any, messages []string) (list field.ErrorList) {
	for _, m := range messages {
		list = append(list, field.Invalid(path, value, m))
	}
	return list
}

// oneOf checks that a value is one of a set.
func oneOf[T ~string](path *field.Path, value T, set []T) field.ErrorList {
	if slices.Contains(set, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, set)}
}

// legacyAddr reads an address of a field that may hold IPv6 in any spelling.
// It is not valid where there was an error.
func (f *findings) legacyAddr(path *field.Path, text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Is4In6() || addr.Zone() != "" {
		f.err(ruleAddressSyntax, validation.IsValidIPForLegacyField(path, text, true, nil)...)
		return netip.Addr{}
	}
	if addr.Is6() && addr.String() != text {
		f.warn(ruleAddressCanonical, path, "IPv6 address %q should be in RFC 5952 canonical format (%q)", text, addr)
	}
	return addr
}

// usableAddr is legacyAddr of an address that a packet can be sent to from
// another host. Kubernetes lets global multicast and 255.255.255.255 pass.
func (f *findings) usableAddr(path *field.Path, text string) netip.Addr {
	addr := f.legacyAddr(path, text)
	if addr.IsValid() && !f.usable(path, addr) {
		return netip.Addr{}
	}
	return addr
}

func (f *findings) usable(path *field.Path, addr netip.Addr) bool {
	var rule Rule
	var detail string
	switch {
	case addr.IsUnspecified():
		rule, detail = ruleAddressUnspecified, fmt.Sprintf("may not be unspecified (%s)", addr)
	case addr.IsLoopback():
		rule, detail = ruleAddressLoopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"
	case addr.IsLinkLocalUnicast():
		rule, detail = ruleAddressLinkLocal, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
	case addr.IsLinkLocalMulticast():
		rule, detail = ruleAddressLinkMulticast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/16)"
	case addr.IsMulticast():
		rule, detail = ruleAddressMulticast, "may not be a multicast address (224.0.0.0/4, ff00::/8)"
	case addr == limitedBroadcast:
		rule, detail = ruleAddressBroadcast, "may not be the broadcast address"
	default:
		return true
	}
	f.err(rule, field.Invalid(path, addr.String(), detail))
	return false
}

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// prefix reads a CIDR. Blanks around it are part of the API.
func (f *findings) prefix(path *field.Path, text string) netip.Prefix {
	text = strings.TrimSpace(text)
	errs := validation.IsValidCIDRForLegacyField(path, text, true, nil)
	p, err := netip.ParsePrefix(text)
	if len(errs) > 0 || err != nil {
		f.err(ruleCIDRSyntax, errs...)
		if len(errs) == 0 {
			f.err(ruleCIDRSyntax, field.Invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
		}
		return netip.Prefix{}
	}
	if p.Addr().Is6() && p.String() != text {
		f.warn(ruleCIDRCanonical, path, "IPv6 CIDR value %q should be in RFC 5952 canonical format (%q)", text, p)
	}
	return p
}

// portNumber checks a port number.
func portNumber(path *field.Path, n int32) field.ErrorList {
	return invalid(path, n, validation.IsValidPortNum(int(n)))
}

// appProtocol checks an appProtocol, which is not used.
func (f *findings) appProtocol(path *field.Path, p *string) {
	if p != nil {
		f.err(ruleAppProtocol, invalid(path.Child("appProtocol"), *p, validation.IsQualifiedName(*p))...)
	}
}

// serviceCIDR gives the configured range that holds an address.
func serviceCIDR(cfg Config, addr netip.Addr) (netip.Prefix, bool) {
	for _, cidr := range cfg.ServiceCIDRs {
		if cidr.Contains(addr) {
			return cidr, true
		}
	}
	return netip.Prefix{}, false
}

// outsideCIDRs warns of an address that others know as a clusterIP.
func (f *findings) outsideCIDRs(path *field.Path, addr netip.Addr, cfg Config) {
	if cidr, ok := serviceCIDR(cfg, addr); ok {
		f.warn(ruleAddressInServiceCIDR, path, "%s is in the service CIDR %s, which is for clusterIPs", addr, cidr)
	}
}
