package manifest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pointsman/state"
)

const mentionedYAML = `apiVersion: v1
kind: Service
metadata: {name: proxied, labels: {service.kubernetes.io/service-proxy-name: cilium}}
spec: {clusterIP: 10.96.0.9, externalIPs: [198.51.100.9], ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, ports: [{port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.20.0.12]}]
ports: [{port: 5432}]
---
apiVersion: v1
kind: Service
metadata: {name: broken}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80, protocol: ICMP}]}
---
apiVersion: v1
kind: Service
metadata: {name: served}
spec: {clusterIP: 10.96.0.8, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: served-1, labels: {kubernetes.io/service-name: served}}
addressType: IPv4
endpoints: [{addresses: [10.20.0.13]}]
ports: [{port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: lost, labels: {kubernetes.io/service-name: sevred}}
addressType: IPv4
endpoints: [{addresses: [10.20.0.14]}]
ports: [{port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: bare}
addressType: IPv4
endpoints: [{addresses: [10.20.0.15]}]
ports: [{port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: broken-1, labels: {kubernetes.io/service-name: broken}}
addressType: IPv4
endpoints: [{addresses: [10.20.0.16]}]
ports: [{port: 5432}]
`

// TestMentions: what names an address and isn't served is found, with the
// reason; what is served, and addresses that only look like it, are not.
func TestMentions(t *testing.T) {
	s := NewSnapshot([]*File{{Path: "all.yaml", Data: []byte(mentionedYAML)}})
	r := NewLoader(Config{NodePortFirst: 30000, NodePortLast: 32767}, "").Load(s)
	for address, want := range map[string]string{
		"10.96.0.9":    `Service default/proxied all.yaml:1 left to the proxy "cilium"`,
		"198.51.100.9": `Service default/proxied all.yaml:1 left to the proxy "cilium"`,
		"10.20.0.12":   "EndpointSlice default/db-1 all.yaml:11 of Service default/db, which is headless",
		"10.96.0.1":    "all.yaml:21 spec.ports[0].protocol",
		"10.96.0.8":    "",
		"10.20.0.13":   "",
		"10.20.0.14":   "EndpointSlice default/lost all.yaml:35 of Service default/sevred, which isn't there",
		"10.20.0.15":   "EndpointSlice default/bare all.yaml:42 of no Service, for want of a label kubernetes.io/service-name",
		"10.20.0.16":   "EndpointSlice default/broken-1 all.yaml:49 of Service default/broken, which has errors",
		"10.20.0.1":    "",
		"0.96.0.1":     "",
	} {
		a := netip.MustParseAddr(address)
		var got []string
		for _, m := range r.Mentions(a) {
			got = append(got, fmt.Sprintf("%s %s %s", m.Object, m.Source, m.Why))
		}
		for _, p := range s.Refusals(a, r.Problems) {
			got = append(got, fmt.Sprintf("%s %s", p.Source, p.Field))
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s:\n%s\nwant\n%s", address, text, want)
		}
	}
	if got := r.Backed(netip.MustParseAddr("10.20.0.13")); len(got) != 1 || got[0].Name != "served" {
		t.Errorf("backed: %v", got)
	}
	got := r.Backers(state.ObjectName{Namespace: "default", Name: "db"})
	if len(got) != 1 || got[0].Name != "db-1" {
		t.Errorf("backers: %v", got)
	}
}
