package manifest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// The cases of the case book, as far as one document goes.

// Service port and slice port are matched by name: an absent name is "" on
// both sides, and nothing else is put in its place.
func TestC10PortNamesStayAsWritten(t *testing.T) {
	objects := decodeText(`apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: 10.96.0.5, ports: [{port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: pg, port: 5432}]
endpoints: [{addresses: [10.20.0.11]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-2, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{port: 5432}]
endpoints: [{addresses: [10.20.0.11]}]
`)
	wantProblems(t, objects)
	got := []string{objects[0].Service.Spec.Ports[0].Name, *objects[1].EndpointSlice.Ports[0].Name, *objects[2].EndpointSlice.Ports[0].Name}
	if want := []string{"", "pg", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Endpoints are never taken for a Service, nor left out without a word.
func TestC11EndpointsAreDecodedAsEndpoints(t *testing.T) {
	objects := decodeText(`apiVersion: v1
kind: Endpoints
metadata: {name: legacy}
subsets:
- addresses: [{ip: 10.20.0.11}]
  notReadyAddresses: [{ip: 10.20.0.12}]
  ports: [{name: http, port: 8080}]
`)
	wantProblems(t, objects)
	o := objects[0]
	if o.Key.Kind != KindEndpoints || o.Service != nil || o.Endpoints == nil || o.Endpoints.Subsets[0].NotReadyAddresses[0].IP != "10.20.0.12" {
		t.Errorf("got %+v", o)
	}
}

// An address may be in several slices; twice in one is worth a word.
func TestC13RepeatedAddresses(t *testing.T) {
	slice := func(name, endpoints string) string {
		return "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n" +
			"metadata: {name: " + name + ", labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{port: 80}]\nendpoints: " + endpoints + "\n"
	}
	objects := decodeText(slice("web-a", "[{addresses: [10.20.0.11]}, {addresses: [10.20.0.12]}]") +
		slice("web-b", "[{addresses: [10.20.0.12]}, {addresses: [10.20.0.13]}, {addresses: [10.20.0.12]}]"))
	wantProblems(t, objects, "m.yaml:14: warning: endpoints[2].addresses[0]: 10.20.0.12 is that of endpoints[0] too: it counts once")
	if objects[0].Failed() || len(objects[1].EndpointSlice.Endpoints) != 3 {
		t.Error("an endpoint was lost")
	}
}

// The API server checks no port number of a slice.
func TestC16SlicePorts(t *testing.T) {
	for _, tt := range []struct{ ports, want string }{
		{"null", "m.yaml:5: warning: ports: there are none: the slice is ignored"},
		{"[]", "m.yaml:5: warning: ports: there are none: the slice is ignored"},
		{"[{name: web}]", "m.yaml:5: ports[0].port: Required value: must be between 1 and 65535, inclusive"},
		{"[{name: web, port: null}]", "m.yaml:5: ports[0].port: Required value: must be between 1 and 65535, inclusive"},
		{"[{port: 0}]", "m.yaml:5: ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"},
		{"[{port: 70000}]", "m.yaml:5: ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive"},
		{"[{port: -3}]", "m.yaml:5: ports[0].port: Invalid value: -3: must be between 1 and 65535, inclusive"},
	} {
		t.Run(tt.ports, func(t *testing.T) {
			objects := decodeText("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n" +
				"metadata: {name: web, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: " + tt.ports + "\nendpoints: [{addresses: [10.20.0.12]}]\n")
			wantProblems(t, objects, tt.want)
			if failed := !strings.Contains(tt.want, "warning"); objects[0].Failed() != failed {
				t.Errorf("failed: %t", !failed)
			}
		})
	}
}

func TestC17SelectorIsAWarning(t *testing.T) {
	objects := decodeText(`apiVersion: v1
kind: Service
metadata: {name: app}
spec:
  clusterIP: 10.96.0.5
  selector: {app: x}
  ports: [{port: 80}]
`)
	wantProblems(t, objects, "m.yaml:6: warning: spec.selector: selector has no effect here: there are no pods, endpoints come from EndpointSlices")
	if objects[0].Failed() {
		t.Error("failed")
	}
}

// Both families, blanks, overlaps and repeats are fine.
func TestC26SourceRangesOfBothFamilies(t *testing.T) {
	objects := decodeText(`apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  ipFamilyPolicy: RequireDualStack
  clusterIP: 10.96.0.5
  clusterIPs: [10.96.0.5, "fd00::5"]
  loadBalancerSourceRanges: ['10.0.0.0/8', ' 10.1.0.0/16 ', '2001:db8::/32', '10.0.0.0/8', 0.0.0.0/0]
  ports: [{port: 80}]
`)
	wantProblems(t, objects)
	for _, text := range objects[0].Service.Spec.LoadBalancerSourceRanges {
		if _, err := netip.ParsePrefix(strings.TrimSpace(text)); err != nil {
			t.Error(err)
		}
	}
}

// Names as long as they may be are nothing to complain of.
func TestC40NamesOfFullLength(t *testing.T) {
	name := strings.Repeat("n", 63)
	wantProblems(t, decodeText("apiVersion: v1\nkind: Service\nmetadata: {name: "+name+", namespace: "+name[:62]+"}\n"+
		"spec: {clusterIP: 10.96.0.5, ports: [{name: "+name+", port: 80}]}\n"))
}

// A field in the wrong case is unknown, and a value of the wrong type is not
// taken for what it might mean.
func TestC41MisspeltCase(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"clusterIp", service + "  clusterIp: 10.96.0.5\n  ports: [{port: 80}]\n", []string{`m.yaml:5: spec.clusterIp: unknown field "spec.clusterIp": did you mean "clusterIP"?`}},
		{"both spellings", service + "  clusterIP: 10.96.0.5\n  clusterIp: 10.96.0.6\n  ports: [{port: 80}]\n", []string{`m.yaml:6: spec.clusterIp: unknown field "spec.clusterIp": did you mean "clusterIP"?`}},
		{"Ports", service + "  Ports: [{port: 80}]\n", []string{`m.yaml:5: spec.Ports: unknown field "spec.Ports": did you mean "ports"?`, "m.yaml:5: spec.ports: Required value"}},
		{"nodeport", service + "  type: NodePort\n  ports:\n  - port: 80\n    nodeport: 30080\n", []string{`m.yaml:8: spec.ports[0].nodeport: unknown field "spec.ports[0].nodeport": did you mean "nodePort"?`}},
		{
			"addresstype", "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web, labels: {kubernetes.io/service-name: web}}\naddresstype: IPv4\nports: [{port: 80}]\n",
			[]string{`m.yaml:4: addresstype: unknown field "addresstype": did you mean "addressType"?`, "m.yaml:4: addressType: Required value"},
		},
		{"name: no", service + "  ports:\n  - name: no\n    port: 80\n", []string{"m.yaml:6: spec.ports[0].name: Invalid value: false: must be a string: put it in quotes, YAML reads it as something else"}},
		{
			"a label's value yes", "apiVersion: v1\nkind: Service\nmetadata: {name: web, labels: {a: yes}}\nspec: {ports: [{port: 80}]}\n",
			[]string{"m.yaml:3: metadata.labels[a]: Invalid value: true: must be a string: put it in quotes, YAML reads it as something else"},
		},
		{"a quoted port", service + "  ports: [{port: \"80\"}]\n", []string{`m.yaml:5: spec.ports[0].port: Invalid value: "80": must be an integer, without quotes`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := decodeText(tt.text)
			wantProblems(t, objects, tt.want...)
			if typed(objects[0]) != nil || objects[0].Problems[0].Document != 1 {
				t.Errorf("got %+v", objects[0])
			}
		})
	}
}

// A document that does not parse is named, and the others are not touched.
func TestC43OneBadDocument(t *testing.T) {
	before := decodeText(threeServices)
	text := strings.Replace(threeServices, "spec: {clusterIP: 10.96.0.300", "spec: {{clusterIP: 10.96.0.300", 1)
	after := redecode(&File{Path: "m.yaml", Data: []byte(text)}, testConfig(""), before)
	if got, want := keysOf(after), []string{"1: Service default/a", "!6: Service default/b", "11: Service default/c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if after[0] != before[0] || after[2] != before[2] {
		t.Error("the good documents were decoded again")
	}
	if p := after[1].Problems[0]; p.Object != before[1].Key || p.Document != 2 {
		t.Errorf("%s: object %s, document %d", p, p.Object, p.Document)
	}
}

// Objects of two namespaces are two; without a namespace they are in default.
func TestC94Namespaces(t *testing.T) {
	objects := decodeText(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: a}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: b}, spec: {clusterIP: 10.96.0.2, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.3, ports: [{port: 80}]}}
`)
	if got, want := keysOf(objects), []string{"1: Service a/web", "3: Service b/web", "5: Service default/web"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if ns := objects[2].Service.Namespace; ns != "default" {
		t.Errorf("namespace %q", ns)
	}
}

// An address of a family that the Service has not is not programmed.
func TestC95AddressOfAnotherFamily(t *testing.T) {
	objects := decodeText(`apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.5
  externalIPs:
  - 192.0.2.210
  - 2001:db8::210
  ports: [{port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-6, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
ports: [{port: 80}]
endpoints: [{addresses: ["2001:db8::11"]}]
`)
	wantProblems(t, objects, "m.yaml:8: warning: spec.externalIPs[1]: 2001:db8::210 is not programmed: spec.ipFamilies has no IPv6")
	if objects[0].Failed() || objects[1].EndpointSlice.AddressType != discoveryv1.AddressTypeIPv6 {
		t.Error("failed")
	}
}
