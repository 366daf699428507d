package manifest

import (
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of an EndpointSlice. The type's own documentation still says 100
// ports.
const (
	maxSlicePorts     = 20000
	maxSliceEndpoints = 1000
	maxAddresses      = 100
	maxHints          = 8
)

var addressTypes = []discoveryv1.AddressType{discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}

// readSlice defaults an EndpointSlice, and tells all that is wrong with it.
func readSlice(slice *discoveryv1.EndpointSlice, cfg Config) []finding {
	defaultSlice(slice)
	var f findings
	f.namespacedMeta(&slice.ObjectMeta, validation.IsDNS1123Subdomain)
	f.sliceAnnotations(slice.Annotations, KindEndpointSlice)
	if slice.Labels[discoveryv1.LabelServiceName] == "" {
		f.warn(ruleSliceLabel, metaPath.Child("labels"), "no label %s: the slice belongs to no Service", discoveryv1.LabelServiceName)
	}
	typePath := field.NewPath("addressType")
	switch slice.AddressType {
	case "":
		f.err(ruleAddressTypeRequired, field.Required(typePath, ""))
	case discoveryv1.AddressTypeFQDN:
		f.warn(ruleAddressTypeFQDN, typePath, "FQDN endpoints are deprecated, and not programmed")
	default:
		f.err(ruleAddressType, oneOf(typePath, slice.AddressType, addressTypes)...)
	}
	f.slicePorts(slice.Ports)
	f.endpoints(slice, cfg)
	return f
}

func (f *findings) slicePorts(ports []discoveryv1.EndpointPort) {
	path := field.NewPath("ports")
	switch {
	case len(ports) > maxSlicePorts:
		f.err(ruleSlicePortsTooMany, field.TooMany(path, len(ports), maxSlicePorts))
		return
	case len(ports) == 0:
		f.warn(ruleSlicePortsNone, path, "there are none: the slice is ignored")
	}
	names := map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		if *p.Name != "" {
			f.err(ruleSlicePortNameSyntax, invalid(at.Child("name"), *p.Name, validation.IsDNS1123Label(*p.Name))...)
		}
		if names[*p.Name] {
			f.err(ruleSlicePortDuplicate, field.Duplicate(at.Child("name"), *p.Name))
		}
		names[*p.Name] = true
		f.err(ruleSlicePortProtocol, oneOf(at.Child("protocol"), *p.Protocol, protocols)...)
		f.appProtocol(at, p.AppProtocol)
		f.slicePort(at.Child("port"), p.Port)
	}
}

// slicePort checks a port number, as Kubernetes does not. No number would be
// every port, in words that no proxy follows.
func (f *findings) slicePort(path *field.Path, n *int32) {
	if n == nil {
		f.err(ruleSlicePortMissing, field.Required(path, "must be between 1 and 65535, inclusive"))
		return
	}
	f.err(ruleSlicePortRange, portNumber(path, *n)...)
}

func (f *findings) endpoints(slice *discoveryv1.EndpointSlice, cfg Config) {
	path := field.NewPath("endpoints")
	if len(slice.Endpoints) > maxSliceEndpoints {
		f.err(ruleEndpointsTooMany, field.TooMany(path, len(slice.Endpoints), maxSliceEndpoints))
		return
	}
	first := make(map[netip.Addr]int, len(slice.Endpoints))
	for i := range slice.Endpoints {
		at := path.Index(i)
		f.endpoint(at, &slice.Endpoints[i])
		addr := f.addresses(at.Child("addresses"), slice.AddressType, slice.Endpoints[i].Addresses)
		if !addr.IsValid() {
			continue
		}
		f.backendOutsideCIDRs(at.Child("addresses").Index(0), addr, cfg)
		if j, ok := first[addr]; ok {
			f.warn(ruleEndpointDuplicate, at.Child("addresses").Index(0), "%s is that of endpoints[%d] too: it counts once", addr, j)
			continue
		}
		first[addr] = i
	}
}

// backendOutsideCIDRs warns of a backend that is a clusterIP: NAT is done
// once for a connection, so nobody would answer.
func (f *findings) backendOutsideCIDRs(path *field.Path, addr netip.Addr, cfg Config) {
	if cidr, ok := serviceCIDR(cfg, addr); ok {
		f.warn(ruleEndpointInServiceCIDR, path, "%s is in the service CIDR %s: a backend cannot be a clusterIP", addr, cidr)
	}
}

// addresses checks the addresses of an endpoint, all of them, and gives the
// first, the only one that any proxy uses. It is not valid where there was an
// error, or where it is a name.
func (f *findings) addresses(path *field.Path, t discoveryv1.AddressType, texts []string) netip.Addr {
	switch {
	case len(texts) == 0:
		f.err(ruleEndpointNoAddress, field.Required(path, "must contain at least 1 address"))
		return netip.Addr{}
	case len(texts) > maxAddresses:
		f.err(ruleEndpointAddresses, field.TooMany(path, len(texts), maxAddresses))
	case len(texts) > 1:
		f.warn(ruleEndpointUnused, path, "only the first address is used")
	}
	var first netip.Addr
	for i, text := range texts {
		addr := f.address(path.Index(i), t, text)
		if i == 0 {
			first = addr
		}
	}
	return first
}

// address checks an address of a type. IPv6 must be canonical, as it need not
// be in a Service.
func (f *findings) address(path *field.Path, t discoveryv1.AddressType, text string) netip.Addr {
	switch t {
	case discoveryv1.AddressTypeFQDN:
		f.err(ruleEndpointFQDN, validation.IsFullyQualifiedDomainName(path, text)...)
		return netip.Addr{}
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	default:
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Is4In6() || addr.Zone() != "" || addr.Is6() && addr.String() != text {
		f.err(ruleAddressSyntax, validation.IsValidIP(path, text)...)
		return netip.Addr{}
	}
	if string(familyOf(addr)) != string(t) {
		f.err(ruleEndpointFamily, field.Invalid(path, text, "must be an "+string(t)+" address"))
		return netip.Addr{}
	}
	if !f.usable(path, addr) {
		return netip.Addr{}
	}
	return addr
}

func (f *findings) endpoint(path *field.Path, e *discoveryv1.Endpoint) {
	if e.Hostname != nil {
		f.err(ruleEndpointHostname, invalid(path.Child("hostname"), *e.Hostname, validation.IsDNS1123Label(*e.Hostname))...)
	}
	if e.NodeName != nil {
		f.err(ruleEndpointNodeName, invalid(path.Child("nodeName"), *e.NodeName, validation.IsDNS1123Subdomain(*e.NodeName))...)
	}
	if len(e.DeprecatedTopology) > 0 {
		f.warn(ruleEndpointTopology, path.Child("deprecatedTopology"), "is not read: use nodeName and zone")
	}
	if e.Hints != nil {
		f.hints(path.Child("hints"), e.Hints)
	}
}

func (f *findings) hints(path *field.Path, h *discoveryv1.EndpointHints) {
	zones := make([]string, len(h.ForZones))
	for i, z := range h.ForZones {
		zones[i] = z.Name
	}
	nodes := make([]string, len(h.ForNodes))
	for i, n := range h.ForNodes {
		nodes[i] = n.Name
	}
	f.hintNames(path.Child("forZones"), zones, validation.IsValidLabelValue)
	f.hintNames(path.Child("forNodes"), nodes, validation.IsDNS1123Subdomain)
}

func (f *findings) hintNames(path *field.Path, names []string, check func(string) []string) {
	if len(names) > maxHints {
		f.err(ruleHintsTooMany, field.TooMany(path, len(names), maxHints))
		return
	}
	seen := map[string]bool{}
	for i, name := range names {
		at := path.Index(i).Child("name")
		if seen[name] {
			f.err(ruleHintDuplicate, field.Duplicate(at, name))
		}
		seen[name] = true
		f.err(ruleHintSyntax, invalid(at, name, check(name))...)
	}
}
