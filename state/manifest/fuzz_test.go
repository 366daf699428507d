package manifest

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Whatever a file holds, Decode returns; what has no error is of one kind,
// has a name, and holds nothing that nft or net/netip would refuse.
func FuzzDecode(f *testing.F) {
	for _, doc := range corpus(f) {
		f.Add([]byte(doc))
	}
	for _, text := range []string{
		threeServices, "", "--- |\n---\n", "{\"a\":1}{\"b\":2}", "\ufeffa: 1", "a: &a [*a]", "%YAML 1.1\n---\n", "a: \u2028--- x",
		"apiVersion: v1\nkind: List\nitems: [null, {kind: Service}, []]\n", "? {}\n: 1\n", "<<: {kind: Service}\n", "a: !!binary x\n",
	} {
		f.Add([]byte(text))
	}
	cfg := testConfig("service-cidr.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &File{Path: "f", Data: data}
		objects := Decode(file, cfg)
		for _, o := range objects {
			checkObject(t, o)
		}
		for i, o := range redecode(file, cfg, objects) {
			if o != objects[i] && strings.Count(string(data), string(o.doc.text)) < 2 {
				t.Errorf("object %d was decoded again", i)
			}
		}
	})
}

func checkObject(t *testing.T, o *Object) {
	if o.Source.File != "f" || o.Source.Line < 1 || o.doc == nil || len(o.Raw) == 0 {
		t.Errorf("object without a place: %+v", o)
	}
	for _, p := range o.Problems {
		if severity, known := severities[p.Rule]; !known || severity != p.Severity {
			t.Errorf("problem without a rule: %+v", p)
		}
		if p.Message == "" || p.Document < 1 || p.Source.Line < o.doc.line || p.Object != o.Key {
			t.Errorf("problem without a place: %+v", p)
		}
	}
	if o.Failed() {
		if o.Service != nil || o.EndpointSlice != nil || o.Endpoints != nil || o.Node != nil {
			t.Errorf("%s is in error and has a value", o.Key)
		}
		return
	}
	if typed(o) == nil || o.Key.Name == "" || (o.Key.Namespace == "") != (o.Key.Kind == KindNode) {
		t.Errorf("%+v", o)
	}
	switch {
	case o.Service != nil:
		checkService(t, o.Service)
	case o.EndpointSlice != nil:
		checkSlice(t, o.EndpointSlice)
	case o.Endpoints != nil:
		for _, ss := range o.Endpoints.Subsets {
			for _, a := range append(ss.Addresses, ss.NotReadyAddresses...) {
				mustAddr(t, a.IP)
			}
			for _, p := range ss.Ports {
				mustPort(t, p.Port, p.Protocol)
			}
		}
	case o.Node != nil:
		for _, a := range o.Node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				mustAddr(t, a.Address)
			}
		}
	}
}

func checkService(t *testing.T, svc *corev1.Service) {
	spec := &svc.Spec
	texts := append(append([]string{}, spec.ExternalIPs...), spec.ClusterIPs...)
	if spec.LoadBalancerIP != "" {
		texts = append(texts, spec.LoadBalancerIP)
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			texts = append(texts, in.IP)
		}
	}
	if list, ok := svc.Annotations[annotationLoadBalancerIPs]; ok {
		texts = append(texts, strings.Split(list, ",")...)
	}
	for _, text := range texts {
		if text != corev1.ClusterIPNone {
			mustAddr(t, strings.TrimSpace(text))
		}
	}
	_, ranges := sourceRanges(svc)
	for _, text := range ranges {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err != nil || p != p.Masked() {
			t.Errorf("range %q: %v", text, err)
		}
	}
	for _, p := range spec.Ports {
		mustPort(t, p.Port, p.Protocol)
		if p.NodePort != 0 && spec.Type != corev1.ServiceTypeExternalName && (p.NodePort < 30000 || p.NodePort > 32767) {
			t.Errorf("node port %d", p.NodePort)
		}
	}
}

func checkSlice(t *testing.T, slice *discoveryv1.EndpointSlice) {
	for _, p := range slice.Ports {
		mustPort(t, *p.Port, *p.Protocol)
	}
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return
	}
	for _, e := range slice.Endpoints {
		for _, text := range e.Addresses {
			if addr := mustAddr(t, text); addr.Is4() != (slice.AddressType == discoveryv1.AddressTypeIPv4) {
				t.Errorf("%s in a slice of %s", addr, slice.AddressType)
			}
		}
	}
}

func mustAddr(t *testing.T, text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		t.Errorf("address %q: %v", text, err)
	}
	return addr
}

func mustPort(t *testing.T, n int32, p corev1.Protocol) {
	if n < 1 || n > 65535 || p != corev1.ProtocolTCP && p != corev1.ProtocolUDP && p != corev1.ProtocolSCTP {
		t.Errorf("port %d/%s", n, p)
	}
}
