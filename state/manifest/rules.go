package manifest

import "slices"

// Rule is the id of a check. Ids are stable: configurations of linters and
// reports of old runs name them.
type Rule string

// RuleInfo describes a Rule.
type RuleInfo struct {
	ID       Rule
	Severity Severity // of every finding of the rule
	Origin   Origin
	Says     string // what is found, as one sentence
}

// Origin tells who else would say so.
type Origin string

// The origins of rules, all of Kubernetes 1.37.
const (
	FromDecoding   Origin = "Kubernetes, strict decoding"
	FromValidation Origin = "Kubernetes, validation"
	FromAllocation Origin = "Kubernetes, allocation"
	FromWarnings   Origin = "Kubernetes, warnings"
	FromPointsman  Origin = "pointsman"
)

// Rules gives all rules, by topic.
func Rules() []RuleInfo { return slices.Clone(rulebook) }

// severityOf gives the severity of a rule's findings. A rule that is not in
// the book is an error, so that nothing is served by an oversight.
func severityOf(r Rule) Severity {
	if s, ok := severities[r]; ok {
		return s
	}
	return Error
}

var severities = func() map[Rule]Severity {
	m := make(map[Rule]Severity, len(rulebook))
	for _, info := range rulebook {
		m[info.ID] = info.Severity
	}
	return m
}()

// Decoding.
const (
	ruleDocumentSize     Rule = "document-size"
	ruleDocumentEncoding Rule = "document-encoding"
	ruleDocumentSyntax   Rule = "document-syntax"
	ruleDocumentEnd      Rule = "document-end"
	ruleAliases          Rule = "yaml-aliases"
	ruleNotAnObject      Rule = "document-not-an-object"
	ruleDuplicateField   Rule = "field-duplicate"
	ruleUnknownField     Rule = "field-unknown"
	ruleUnknownNodeField Rule = "field-unknown-of-node"
	ruleWrongType        Rule = "field-type"
	ruleLeadingZero      Rule = "integer-leading-zero"
	ruleKindRequired     Rule = "kind-required"
	ruleKindUnsupported  Rule = "kind-unsupported"
	ruleVersionRequired  Rule = "apiversion-required"
	ruleVersionMismatch  Rule = "apiversion-unsupported"
	ruleMoreProblems     Rule = "more-problems"
)

// Metadata.
const (
	ruleNameGenerated      Rule = "name-generated"
	ruleNameRequired       Rule = "name-required"
	ruleNameSyntax         Rule = "name-syntax"
	ruleNameDigit          Rule = "name-leading-digit"
	ruleNamespaceSyntax    Rule = "namespace-syntax"
	ruleLabelSyntax        Rule = "label-syntax"
	ruleAnnotationSyntax   Rule = "annotation-syntax"
	ruleAnnotationUnknown  Rule = "annotation-unknown"
	ruleTopologyDeprecated Rule = "topology-annotation-deprecated"
	ruleTopologyMismatch   Rule = "topology-annotation-mismatch"
)

// Addresses, of whatever field.
const (
	ruleAddressSyntax        Rule = "address-syntax"
	ruleAddressCanonical     Rule = "address-not-canonical"
	ruleAddressUnspecified   Rule = "address-unspecified"
	ruleAddressLoopback      Rule = "address-loopback"
	ruleAddressLinkLocal     Rule = "address-link-local"
	ruleAddressLinkMulticast Rule = "address-link-local-multicast"
	ruleAddressMulticast     Rule = "address-multicast"
	ruleAddressBroadcast     Rule = "address-broadcast"
	ruleAddressInServiceCIDR Rule = "address-in-service-cidr"
	ruleAddressFamily        Rule = "address-family-not-programmed"
	ruleAddressTwice         Rule = "address-in-two-fields"
	ruleCIDRSyntax           Rule = "cidr-syntax"
	ruleCIDRCanonical        Rule = "cidr-not-canonical"
)

// A Service's type, ports and fields without effect.
const (
	ruleServiceType          Rule = "service-type"
	ruleHeadlessType         Rule = "headless-type"
	ruleHeadlessIgnored      Rule = "headless-ignored-field"
	ruleExternalNameField    Rule = "external-name-forbidden-field"
	ruleExternalNameIgnored  Rule = "external-name-ignored-field"
	ruleExternalNameRequired Rule = "external-name-required"
	ruleExternalNameSyntax   Rule = "external-name-syntax"
	ruleExternalNameUnused   Rule = "external-name-unused"
	rulePortsRequired        Rule = "service-ports-required"
	rulePortRange            Rule = "service-port-range"
	rulePortDuplicate        Rule = "service-port-duplicate"
	rulePortProtocol         Rule = "service-port-protocol"
	rulePortNameRequired     Rule = "service-port-name-required"
	rulePortNameSyntax       Rule = "service-port-name-syntax"
	rulePortNameDuplicate    Rule = "service-port-name-duplicate"
	ruleAppProtocol          Rule = "app-protocol-syntax"
	ruleTargetPortRange      Rule = "target-port-range"
	ruleTargetPortSyntax     Rule = "target-port-name-syntax"
	ruleTargetPortName       Rule = "target-port-name-unused"
	ruleSelectorSyntax       Rule = "selector-syntax"
	ruleSelectorUnused       Rule = "selector-unused"
	ruleNotReadyUnused       Rule = "publish-not-ready-unused"
)

// NodePorts and health check ports.
const (
	ruleNodePortType      Rule = "node-port-type"
	ruleNodePortRange     Rule = "node-port-range"
	ruleNodePortDuplicate Rule = "node-port-duplicate"
	ruleNodePortConflict  Rule = "node-port-conflict"
	ruleNodePortMissing   Rule = "node-port-missing"
	ruleHealthPortPolicy  Rule = "health-check-port-policy"
	ruleHealthPortRange   Rule = "health-check-port-range"
	ruleHealthPortShared  Rule = "health-check-port-shared"
	ruleHealthConflict    Rule = "health-check-port-conflict"
	ruleHealthPortMissing Rule = "health-check-port-missing"
)

// ClusterIPs and families.
const (
	ruleClusterIPUnset        Rule = "clusterip-unset"
	ruleClusterIPFirst        Rule = "clusterip-first"
	ruleClusterIPTooMany      Rule = "clusterip-too-many"
	ruleClusterIPNone         Rule = "clusterip-none"
	ruleClusterIPSameFamily   Rule = "clusterip-same-family"
	ruleClusterIPFamily       Rule = "clusterip-family"
	ruleClusterIPUnconfigured Rule = "clusterip-family-not-configured"
	ruleClusterIPRange        Rule = "clusterip-range"
	ruleClusterIPNetwork      Rule = "clusterip-network-address"
	ruleClusterIPBroadcast    Rule = "clusterip-broadcast-address"
	ruleClusterIPConflict     Rule = "clusterip-conflict"
	ruleClusterIPMissing      Rule = "clusterip-missing"
	ruleClusterIPOfNode       Rule = "clusterip-of-node"
	ruleFamilyPolicy          Rule = "ip-family-policy"
	ruleFamily                Rule = "ip-family"
	ruleFamilyDuplicate       Rule = "ip-family-duplicate"
	ruleFamilyUnconfigured    Rule = "ip-family-not-configured"
	ruleDualStackPolicy       Rule = "dual-stack-policy"
	ruleDualStackUnconfigured Rule = "dual-stack-not-configured"
)

// Addresses for clients outside, and who may use them.
const (
	ruleExternalIPDuplicate   Rule = "external-ip-duplicate"
	ruleBalancerIPDuplicate   Rule = "load-balancer-ip-duplicate"
	ruleBalancerIPIgnored     Rule = "load-balancer-ip-ignored"
	ruleIngressMode           Rule = "ingress-ip-mode"
	ruleIngressModeWithoutIP  Rule = "ingress-ip-mode-without-ip"
	ruleIngressHostname       Rule = "ingress-hostname-syntax"
	ruleBalancerClassType     Rule = "load-balancer-class-type"
	ruleBalancerClassSyntax   Rule = "load-balancer-class-syntax"
	ruleBalancerClassForeign  Rule = "load-balancer-class-foreign"
	ruleAllocateNodePortsType Rule = "allocate-node-ports-type"
	ruleSourceRangesType      Rule = "source-ranges-type"
	ruleSourceRangesFamily    Rule = "source-ranges-family-open"
	ruleSourceRangesNodePort  Rule = "source-ranges-node-port-open"
	ruleVIPConflict           Rule = "vip-conflict"
	ruleNoFrontend            Rule = "no-frontend"
)

// Policies.
const (
	ruleExternalPolicy     Rule = "external-traffic-policy"
	ruleExternalPolicyType Rule = "external-traffic-policy-type"
	ruleInternalPolicy     Rule = "internal-traffic-policy"
	ruleDistribution       Rule = "traffic-distribution"
	rulePreferClose        Rule = "traffic-distribution-deprecated"
	ruleAffinity           Rule = "session-affinity"
	ruleAffinityTimeout    Rule = "session-affinity-timeout"
	ruleLocalWithoutNodes  Rule = "local-policy-without-node-names"
)

// EndpointSlices and Endpoints, each by itself.
const (
	ruleSliceLabel            Rule = "slice-without-label"
	ruleSliceHeadless         Rule = "slice-headless-label"
	ruleAddressTypeRequired   Rule = "address-type-required"
	ruleAddressType           Rule = "address-type"
	ruleAddressTypeFQDN       Rule = "address-type-fqdn"
	ruleSlicePortsNone        Rule = "slice-ports-none"
	ruleSlicePortsTooMany     Rule = "slice-ports-too-many"
	ruleSlicePortMissing      Rule = "slice-port-missing"
	ruleSlicePortRange        Rule = "slice-port-range"
	ruleSlicePortProtocol     Rule = "slice-port-protocol"
	ruleSlicePortNameRequired Rule = "slice-port-name-required"
	ruleSlicePortNameSyntax   Rule = "slice-port-name-syntax"
	ruleSlicePortDuplicate    Rule = "slice-port-name-duplicate"
	ruleEndpointsTooMany      Rule = "endpoints-too-many"
	ruleEndpointDuplicate     Rule = "endpoint-duplicate"
	ruleEndpointNoAddress     Rule = "endpoint-without-address"
	ruleEndpointAddresses     Rule = "endpoint-addresses-too-many"
	ruleEndpointUnused        Rule = "endpoint-address-unused"
	ruleEndpointFQDN          Rule = "endpoint-fqdn-syntax"
	ruleEndpointFamily        Rule = "endpoint-address-type"
	ruleEndpointHostname      Rule = "endpoint-hostname-syntax"
	ruleEndpointNodeName      Rule = "endpoint-node-name-syntax"
	ruleEndpointTopology      Rule = "endpoint-topology-unread"
	ruleEndpointInServiceCIDR Rule = "endpoint-in-service-cidr"
	ruleHintsTooMany          Rule = "hints-too-many"
	ruleHintDuplicate         Rule = "hint-duplicate"
	ruleHintSyntax            Rule = "hint-syntax"
	ruleEndpointsDeprecated   Rule = "endpoints-deprecated"
	ruleEndpointsSkipped      Rule = "endpoints-skip-mirror"
	ruleSubsetEmpty           Rule = "endpoints-subset-empty"
)

// Nodes.
const (
	ruleNodeNamespace        Rule = "node-namespace"
	ruleNodeWithoutAddress   Rule = "node-without-address"
	ruleNodeAddressDuplicate Rule = "node-address-duplicate"
	ruleNodeAddressShared    Rule = "node-address-shared"
	ruleNodeNameUnknown      Rule = "node-name-unknown"
)

// Annotations of ours.
const (
	ruleAnnotationMisplaced Rule = "annotation-misplaced"
	ruleProbeSize           Rule = "probe-size"
	ruleProbeHandler        Rule = "probe-handler"
	ruleProbeNumber         Rule = "probe-number"
	ruleProbeUnused         Rule = "probe-field-unused"
	ruleProbePort           Rule = "probe-port"
	ruleProbePortUnmatched  Rule = "probe-port-unmatched"
	ruleProbeScheme         Rule = "probe-scheme"
	ruleProbeHost           Rule = "probe-host"
	ruleProbeHeader         Rule = "probe-header"
	ruleProbeCommand        Rule = "probe-command"
	ruleWhenAllFail         Rule = "when-all-fail"
	rulePanicThreshold      Rule = "panic-threshold"
	ruleNodeSelector        Rule = "node-selector-syntax"
	ruleNodeSelectorNoNodes Rule = "node-selector-without-nodes"
	ruleNodeSelectorNone    Rule = "node-selector-selects-none"
)

// Services and slices together.
const (
	ruleNoSlices             Rule = "service-without-slices"
	ruleSelectorNoSlices     Rule = "selector-without-slices"
	ruleNoService            Rule = "slice-without-service"
	rulePortUnmatched        Rule = "service-port-unmatched"
	ruleTargetPortDiffers    Rule = "target-port-differs"
	ruleFamilyNoEndpoints    Rule = "family-without-endpoints"
	ruleFamilyUnused         Rule = "endpoints-family-unused"
	ruleEndpointRepeated     Rule = "endpoint-in-two-slices"
	ruleEndpointOwnClusterIP Rule = "endpoint-own-clusterip"
	ruleEndpointClusterIP    Rule = "endpoint-is-clusterip"
	ruleEndpointFrontend     Rule = "endpoint-is-frontend"
)

// Files, and what was served before.
const (
	ruleFileUnreadable  Rule = "file-unreadable"
	ruleFileEmpty       Rule = "file-empty"
	ruleUnidentified    Rule = "document-unidentified"
	ruleObjectDuplicate Rule = "object-duplicate"
	ruleStale           Rule = "last-good-in-force"
	ruleLastGoodDamaged Rule = "last-good-damaged"
	ruleLastGoodRefused Rule = "last-good-refused"
	ruleApproval        Rule = "approval-unreadable"
)
