package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// readEndpoints defaults an Endpoints object, and tells all that is wrong
// with it. Each subset is mirrored into slices.
//
//lint:ignore SA1019 legacy manifests carry them
func readEndpoints(ep *corev1.Endpoints, cfg Config) []finding {
	defaultEndpoints(ep)
	var f findings
	f.namespacedMeta(&ep.ObjectMeta, validation.IsDNS1123Subdomain)
	f.sliceAnnotations(ep.Annotations, KindEndpoints)
	for i := range ep.Subsets {
		ss := &ep.Subsets[i]
		path := field.NewPath("subsets").Index(i)
		if len(ss.Addresses)+len(ss.NotReadyAddresses) == 0 {
			f.err(ruleSubsetEmpty, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		f.subsetAddrs(path.Child("addresses"), ss.Addresses, cfg)
		f.subsetAddrs(path.Child("notReadyAddresses"), ss.NotReadyAddresses, cfg)
		f.subsetPorts(path.Child("ports"), ss.Ports)
	}
	return f
}

func (f *findings) subsetAddrs(path *field.Path, addrs []corev1.EndpointAddress, cfg Config) {
	for i := range addrs {
		a, at := &addrs[i], path.Index(i)
		if addr := f.usableAddr(at.Child("ip"), a.IP); addr.IsValid() {
			f.backendOutsideCIDRs(at.Child("ip"), addr, cfg)
		}
		if a.Hostname != "" {
			f.err(ruleEndpointHostname, invalid(at.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
		}
		if a.NodeName != nil {
			f.err(ruleEndpointNodeName, invalid(at.Child("nodeName"), *a.NodeName, validation.IsDNS1123Subdomain(*a.NodeName))...)
		}
	}
}

func (f *findings) subsetPorts(path *field.Path, ports []corev1.EndpointPort) {
	for i, p := range ports {
		at := path.Index(i)
		switch {
		case p.Name == "" && len(ports) > 1:
			f.err(ruleSlicePortNameRequired, field.Required(at.Child("name"), ""))
		case p.Name != "":
			f.err(ruleSlicePortNameSyntax, invalid(at.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
		}
		f.err(ruleSlicePortRange, portNumber(at.Child("port"), p.Port)...)
		f.err(ruleSlicePortProtocol, oneOf(at.Child("protocol"), p.Protocol, protocols)...)
		f.appProtocol(at, p.AppProtocol)
	}
}
