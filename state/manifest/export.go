package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pointsman/state"
)

// YAML encodes a value by its JSON form, as Kubernetes' tools do.
func YAML(v any) ([]byte, error) { return yaml.Marshal(v) }

// Declaration is a Service as its manifest has it, whether it's served or not.
type Declaration struct {
	state.ObjectName
	Source   state.Source
	Type     string         // as spec.type has it
	Ports    []DeclaredPort // in the manifest's order, as are those of state.Service
	Unserved string         // why no host serves it, such as headless; empty for those that are

	object *corev1.Service
}

// DeclaredPort is one of spec.ports; NodePort is 0 where there's none.
type DeclaredPort struct {
	Number, NodePort int32
	Protocol         state.Protocol
}

// Declarations gives the Services of a Result that are asked for (all, if
// wanted is nil), by name: also those that no host serves.
func (r *Result) Declarations(wanted func(state.ObjectName) bool) []Declaration {
	var all []Declaration
	for _, e := range r.effective {
		if e.kind != KindService[0] || e.object.Service == nil || wanted != nil && !wanted(e.object.Key.ObjectName) {
			continue
		}
		s := e.object.Service
		d := Declaration{ObjectName: e.object.Key.ObjectName, Source: e.object.Source, Type: string(s.Spec.Type), Unserved: unserved(s), object: s}
		for _, p := range s.Spec.Ports {
			d.Ports = append(d.Ports, DeclaredPort{p.Port, p.NodePort, state.Protocol(p.Protocol)})
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Declaration) int { return a.Compare(b.ObjectName) })
	return all
}

// unserved says why isProgrammed is false.
func unserved(s *corev1.Service) string {
	proxy, other := s.Labels[serviceProxyNameLabel]
	switch {
	case isProgrammed(s):
		return ""
	case other:
		return fmt.Sprintf("left to the proxy %q", proxy)
	case isHeadless(&s.Spec):
		return "headless"
	}
	return string(s.Spec.Type)
}

// Effective gives the Service as it's served, in the form of a v1 Service that
// can be encoded as JSON: the manifest's, without what another Service has won,
// and with its load-balancer addresses in the status, as in a cluster. An
// address that was lost by one port alone stays.
func (d *Declaration) Effective(s *state.Service) any {
	out := d.object.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: string(KindService)}
	kinds := frontendKinds(s)
	served := func(text string) bool {
		addr, err := netip.ParseAddr(strings.TrimSpace(text))
		_, ok := kinds[addr.Unmap()]
		return err == nil && ok
	}
	keepClusterIPs(&out.Spec, s.ClusterIPs)
	out.Spec.ExternalIPs = slices.DeleteFunc(out.Spec.ExternalIPs, func(a string) bool { return !served(a) })
	if !served(out.Spec.LoadBalancerIP) {
		out.Spec.LoadBalancerIP = ""
	}
	if text, ok := out.Annotations[annotationLoadBalancerIPs]; ok {
		kept := slices.DeleteFunc(strings.Split(text, ","), func(a string) bool { return !served(a) })
		if out.Annotations[annotationLoadBalancerIPs] = strings.Join(kept, ","); len(kept) == 0 {
			delete(out.Annotations, annotationLoadBalancerIPs)
		}
	}
	out.Status.LoadBalancer.Ingress = ingress(kinds)
	for i := range s.Ports {
		if !slices.ContainsFunc(s.Ports[i].Frontends, func(f state.Frontend) bool { return f.Kind == state.NodePort }) {
			out.Spec.Ports[i].NodePort = 0
		}
	}
	out.Spec.HealthCheckNodePort = int32(s.HealthCheckNodePort)
	if !externallyAccessible(out) {
		out.Spec.ExternalTrafficPolicy = "" // it would be an error
	}
	return out
}

// frontendKinds gives the addresses of a Service, and what each is.
func frontendKinds(s *state.Service) map[netip.Addr]state.FrontendKind {
	kinds := map[netip.Addr]state.FrontendKind{}
	for i := range s.Ports {
		for _, f := range s.Ports[i].Frontends {
			if f.Kind != state.NodePort {
				kinds[f.Address] = f.Kind
			}
		}
	}
	return kinds
}

// keepClusterIPs leaves those that are served. The families stay, since they
// say by which NodePorts and external addresses answer; the first is that of
// the first address.
func keepClusterIPs(spec *corev1.ServiceSpec, served []netip.Addr) {
	if len(served) == len(clusterIPsOf(&corev1.Service{Spec: *spec})) {
		return
	}
	spec.ClusterIP, spec.ClusterIPs = "", nil
	for _, a := range served {
		spec.ClusterIPs = append(spec.ClusterIPs, a.String())
	}
	if len(served) > 0 {
		first := familyOf(served[0])
		spec.ClusterIP = spec.ClusterIPs[0]
		if i := slices.Index(spec.IPFamilies, first); i > 0 {
			spec.IPFamilies[0], spec.IPFamilies[i] = spec.IPFamilies[i], spec.IPFamilies[0]
		}
	}
}

// ingress gives the load-balancer addresses as a status has them.
func ingress(kinds map[netip.Addr]state.FrontendKind) []corev1.LoadBalancerIngress {
	var addrs []netip.Addr
	for a, kind := range kinds {
		if kind == state.LoadBalancerIP {
			addrs = append(addrs, a)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	mode := corev1.LoadBalancerIPModeVIP
	var out []corev1.LoadBalancerIngress
	for _, a := range addrs {
		out = append(out, corev1.LoadBalancerIngress{IP: a.String(), IPMode: &mode})
	}
	return out
}
