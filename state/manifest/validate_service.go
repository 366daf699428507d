package manifest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var serviceTypes = []corev1.ServiceType{
	corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
}

// readService defaults a Service, and tells all that is wrong with it.
func readService(svc *corev1.Service, cfg Config) []finding {
	defaultService(svc, cfg)
	var f findings
	f.namespacedMeta(&svc.ObjectMeta, validation.IsDNS1123Label)
	if svc.Name != "" && len(validation.IsDNS1123Label(svc.Name)) == 0 && len(validation.IsDNS1035Label(svc.Name)) > 0 {
		f.warn(ruleNameDigit, metaPath.Child("name"), "%q starts with a digit: Kubernetes before 1.37 refuses it", svc.Name)
	}
	f.topologyAnnotations(svc)
	f.serviceAnnotations(svc.Annotations)
	f.serviceType(&svc.Spec)
	f.servicePorts(&svc.Spec)
	f.nodePorts(&svc.Spec, cfg)
	f.clusterIPs(&svc.Spec, cfg)
	f.families(&svc.Spec, cfg)
	f.serviceAddrs(svc, cfg)
	f.sourceRanges(svc)
	f.loadBalancerOnly(&svc.Spec)
	f.affinity(&svc.Spec)
	f.trafficPolicies(svc)
	f.healthCheckNodePort(svc, cfg)
	f.noEffect(&svc.Spec)
	return f
}

// topologyAnnotations warns: nobody reads them any more.
func (f *findings) topologyAnnotations(svc *corev1.Service) {
	hints, hasHints := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, hasMode := svc.Annotations[corev1.AnnotationTopologyMode]
	if hasHints {
		f.warn(ruleTopologyDeprecated, annPath.Key(corev1.DeprecatedAnnotationTopologyAwareHints), "is deprecated, please use %s instead", corev1.AnnotationTopologyMode)
	}
	if hasHints && hasMode && hints != mode {
		f.warn(ruleTopologyMismatch, annPath.Key(corev1.AnnotationTopologyMode), "must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints)
	}
}

func (f *findings) serviceType(spec *corev1.ServiceSpec) {
	f.err(ruleServiceType, oneOf(specPath.Child("type"), spec.Type, serviceTypes)...)
	if spec.Type == corev1.ServiceTypeExternalName {
		f.externalName(spec)
		return
	}
	if spec.ExternalName != "" {
		f.warn(ruleExternalNameUnused, specPath.Child("externalName"), "is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	headless := isHeadless(spec)
	if len(spec.Ports) == 0 && !headless {
		f.err(rulePortsRequired, field.Required(specPath.Child("ports"), ""))
	}
	if headless && (spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort) {
		f.err(ruleHeadlessType, field.Invalid(specPath.Child("clusterIPs").Index(0), corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
	}
}

func (f *findings) externalName(spec *corev1.ServiceSpec) {
	const not = "may not be set for ExternalName services"
	if len(spec.ClusterIPs) > 0 {
		f.err(ruleExternalNameField, field.Forbidden(specPath.Child("clusterIPs"), not))
	}
	if len(spec.IPFamilies) > 0 {
		f.err(ruleExternalNameField, field.Forbidden(specPath.Child("ipFamilies"), not))
	}
	if spec.IPFamilyPolicy != nil {
		f.err(ruleExternalNameField, field.Forbidden(specPath.Child("ipFamilyPolicy"), not))
	}
	namePath := specPath.Child("externalName")
	if name := strings.TrimSuffix(spec.ExternalName, "."); name == "" {
		f.err(ruleExternalNameRequired, field.Required(namePath, ""))
	} else {
		f.err(ruleExternalNameSyntax, invalid(namePath, name, validation.IsDNS1123Subdomain(name))...)
	}
	if len(spec.ExternalIPs) > 0 {
		f.warn(ruleExternalNameIgnored, specPath.Child("externalIPs"), "is ignored when spec.type is %q", spec.Type)
	}
}

// portKey is what has to be unique among the ports of a Service.
type portKey struct {
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

func (f *findings) servicePorts(spec *corev1.ServiceSpec) {
	names := map[string]bool{}
	keys := map[portKey]bool{}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		path := specPath.Child("ports").Index(i)
		f.servicePort(p, path)
		switch {
		case p.Name == "" && len(spec.Ports) > 1:
			f.err(rulePortNameRequired, field.Required(path.Child("name"), ""))
		case p.Name != "" && names[p.Name]:
			f.err(rulePortNameDuplicate, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
		key := portKey{p.Protocol, p.Port}
		if keys[key] {
			f.err(rulePortDuplicate, field.Duplicate(path, key))
		}
		keys[key] = true
	}
}

func (f *findings) servicePort(p *corev1.ServicePort, path *field.Path) {
	if p.Name != "" {
		f.err(rulePortNameSyntax, invalid(path.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
	}
	f.err(rulePortRange, portNumber(path.Child("port"), p.Port)...)
	f.err(rulePortProtocol, oneOf(path.Child("protocol"), p.Protocol, protocols)...)
	f.appProtocol(path, p.AppProtocol)
	target := path.Child("targetPort")
	if p.TargetPort.Type == intstr.Int {
		f.err(ruleTargetPortRange, portNumber(target, p.TargetPort.IntVal)...)
		return
	}
	if bad := validation.IsValidPortName(p.TargetPort.StrVal); len(bad) > 0 {
		f.err(ruleTargetPortSyntax, invalid(target, p.TargetPort.StrVal, bad)...)
		return
	}
	f.warn(ruleTargetPortName, target, "%q has no effect here: a backend's port is that of the EndpointSlice port named %q", p.TargetPort.StrVal, p.Name)
}

// nodePorts checks the node ports of one Service. TCP and UDP may share one,
// whatever their ports: the API server allows that on update only.
func (f *findings) nodePorts(spec *corev1.ServiceSpec, cfg Config) {
	seen := map[portKey]bool{}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.NodePort == 0 {
			continue
		}
		path := specPath.Child("ports").Index(i).Child("nodePort")
		switch key := (portKey{p.Protocol, p.NodePort}); {
		case seen[key]:
			f.err(ruleNodePortDuplicate, field.Duplicate(path, p.NodePort))
		default:
			seen[key] = true
		}
		switch spec.Type {
		case corev1.ServiceTypeClusterIP:
			f.err(ruleNodePortType, field.Forbidden(path, "may not be used when `type` is 'ClusterIP'"))
		case corev1.ServiceTypeExternalName:
			f.warn(ruleExternalNameIgnored, path, "is ignored when spec.type is %q", spec.Type)
		default:
			f.err(ruleNodePortRange, inNodePortRange(path, p.NodePort, cfg)...)
		}
	}
}

// inNodePortRange does what the port allocator does. A Config without a range
// allows every port.
func inNodePortRange(path *field.Path, n int32, cfg Config) field.ErrorList {
	first, last := int32(cfg.NodePortFirst), int32(cfg.NodePortLast)
	if last == 0 {
		return portNumber(path, n)
	}
	if n >= max(first, 1) && n <= last {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", first, last))}
}

// noEffect warns of fields that only a cluster gives a meaning.
func (f *findings) noEffect(spec *corev1.ServiceSpec) {
	if spec.Selector != nil {
		f.sorted(ruleSelectorSyntax, metavalidation.ValidateLabels(spec.Selector, specPath.Child("selector")))
	}
	if len(spec.Selector) > 0 && spec.Type != corev1.ServiceTypeExternalName {
		f.warn(ruleSelectorUnused, specPath.Child("selector"), "selector has no effect here: there are no pods, endpoints come from EndpointSlices")
	}
	if spec.PublishNotReadyAddresses {
		f.warn(ruleNotReadyUnused, specPath.Child("publishNotReadyAddresses"), "has no effect on EndpointSlices that are written by hand: set ready in their conditions")
	}
	if isHeadless(spec) {
		f.headless(spec)
	}
}

func (f *findings) headless(spec *corev1.ServiceSpec) {
	if spec.LoadBalancerIP != "" {
		f.warn(ruleHeadlessIgnored, specPath.Child("loadBalancerIP"), "is ignored for headless services")
	}
	if len(spec.ExternalIPs) > 0 {
		f.warn(ruleHeadlessIgnored, specPath.Child("externalIPs"), "is ignored for headless services")
	}
	if spec.SessionAffinity != corev1.ServiceAffinityNone {
		f.warn(ruleHeadlessIgnored, specPath.Child("sessionAffinity"), "is ignored for headless services")
	}
}
