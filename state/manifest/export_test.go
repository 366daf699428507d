package manifest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// exported gives Services and their slices as one List, as YAML.
func exported(t rapid.TB, r *Result, services []*state.Service, why func(*state.Endpoint) string) string {
	t.Helper()
	items := []any{}
	for _, d := range r.Declarations(nil) {
		if i := slices.IndexFunc(services, func(s *state.Service) bool { return s.ObjectName == d.ObjectName }); i >= 0 {
			items = append(items, d.Effective(services[i]))
		}
	}
	for _, s := range services {
		items = slices.AppendSeq(items, EndpointSlices(s, why))
	}
	text, err := YAML(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// judged gives Services with conditions as health might have made them.
func judged(t *rapid.T, services []*state.Service) []*state.Service {
	var out []*state.Service
	for _, s := range services {
		changed := *s
		changed.Ports = slices.Clone(s.Ports)
		for i := range changed.Ports {
			p := &changed.Ports[i]
			p.Endpoints = slices.Clone(p.Endpoints)
			for k := range p.Endpoints {
				e := &p.Endpoints[k]
				e.Ready, e.Serving, e.Terminating = rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "serving"), rapid.Bool().Draw(t, "terminating")
			}
		}
		out = append(out, &changed)
	}
	return out
}

// shownAs renders what an export is to keep of Services. One that lost all that
// it claimed is none when it's read again.
func shownAs(services []*state.Service) string {
	var b strings.Builder
	for _, s := range services {
		if !slices.ContainsFunc(s.Ports, func(p state.Port) bool { return len(p.Frontends) > 0 }) {
			continue
		}
		shown := *s
		shown.Source, shown.Nodes = state.Source{}, nil
		shown.Ports = slices.Clone(s.Ports)
		for i := range shown.Ports {
			p := &shown.Ports[i]
			p.Endpoints = slices.Clone(p.Endpoints)
			for k := range p.Endpoints {
				p.Endpoints[k].Check = nil
			}
		}
		renderService(&b, &shown)
	}
	return b.String()
}

// What is exported means the same when it's read again: every frontend and
// endpoint, with the conditions that were in force. Nothing of it is in error.
func TestExportIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := loadFresh(newWorld(t).tree())
		services := judged(t, r.Services)
		text := exported(t, r, services, func(*state.Endpoint) string { return "down: n1: timed out" })
		again := loadFresh(map[string]string{"list.yaml": text})
		if got, want := shownAs(again.Services), shownAs(services); got != want {
			t.Errorf("got\n%s\nwant\n%s\nof\n%s", got, want, text)
		}
		for _, p := range again.Problems {
			if p.Rule == ruleAnnotationUnknown && strings.Contains(p.Field, "reasons") || p.Object.Kind == KindEndpointSlice && p.Severity == Error {
				t.Errorf("%s\nof\n%s", p, text)
			}
		}
	})
}

const exportManifests = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, labels: {team: a}, annotations: {pointsman/load-balancer-ips: "192.0.2.7,192.0.2.8"}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.2
  externalIPs: [192.0.2.9]
  ports: [{name: http, port: 80, nodePort: 30080}, {name: https, port: 443, nodePort: 30443}]
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {type: NodePort, clusterIP: 10.96.0.1, externalIPs: [192.0.2.8], ports: [{name: p, port: 80, nodePort: 30080}, {name: tls, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: mesh, namespace: shop, labels: {service.kubernetes.io/service-proxy-name: mesh}}
spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: mail, namespace: shop}
spec: {type: ExternalName, externalName: mail.example.org}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: https, port: 8443}]
endpoints: [{addresses: [10.20.0.11], nodeName: n1, zone: a}, {addresses: [10.20.0.12], conditions: {ready: false}}]
`

// TestDeclarations: also what is served nowhere is there, with the reason.
func TestDeclarations(t *testing.T) {
	r := loadFresh(map[string]string{"shop.yaml": exportManifests})
	var got []string
	for _, d := range r.Declarations(nil) {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %v %s", d.ObjectName, d.Source, d.Type, d.Ports, d.Unserved)))
	}
	want := []string{
		"shop/api shop.yaml:11 NodePort [{80 30080 TCP} {443 0 TCP}]",
		"shop/db shop.yaml:16 ClusterIP [{5432 0 TCP}] headless",
		"shop/mail shop.yaml:26 ExternalName [] ExternalName",
		`shop/mesh shop.yaml:21 ClusterIP [{80 0 TCP}] left to the proxy "mesh"`,
		"shop/web shop.yaml:2 LoadBalancer [{80 30080 TCP} {443 30443 TCP}]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	one := r.Declarations(func(n state.ObjectName) bool { return n.Name == "web" })
	if len(one) != 1 || one[0].Name != "web" {
		t.Errorf("of web alone there are %+v", one)
	}
}

// TestEffectiveService: what another Service has won isn't shown, and
// load-balancer addresses are where a cluster has them.
func TestEffectiveService(t *testing.T) {
	r := loadFresh(map[string]string{"shop.yaml": exportManifests})
	web := slices.IndexFunc(r.Services, func(s *state.Service) bool { return s.Name == "web" })
	d := r.Declarations(func(n state.ObjectName) bool { return n.Name == "web" })[0]
	text, err := YAML(d.Effective(r.Services[web]))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  labels:\n    team: a\n", "pointsman/load-balancer-ips: 192.0.2.7\n", "clusterIP: 10.96.0.2\n", "  - 192.0.2.9\n",
		"  - name: http\n    port: 80\n", "    nodePort: 30443\n", "    - ip: 192.0.2.7\n      ipMode: VIP\n", "type: LoadBalancer\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "30080") || strings.Contains(string(text), "192.0.2.8") {
		t.Errorf("what api has won is shown:\n%s", text)
	}
}

// TestExportSlices: a slice has one port, one family and at most as many
// endpoints as may be in one, and says why conditions are what they are.
func TestExportSlices(t *testing.T) {
	s := &state.Service{ObjectName: state.ObjectName{Namespace: "shop", Name: "web"}, Ports: []state.Port{{Protocol: state.TCP}, {Name: "dns", Protocol: state.UDP}}}
	for i := range maxSliceEndpoints + 1 {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, byte(i >> 8), byte(i)}), 8080)
		s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, state.Endpoint{Address: a, Ready: true, Serving: true})
	}
	for _, a := range []string{"10.20.0.1:54", "10.20.0.1:53", "[2001:db8::1]:53"} {
		s.Ports[1].Endpoints = append(s.Ports[1].Endpoints, state.Endpoint{Address: netip.MustParseAddrPort(a)})
	}
	long := strings.Repeat("ü", maxReason)
	text := exported(t, loadFresh(nil), []*state.Service{s}, func(e *state.Endpoint) string {
		if e.Address.Port() == 8080 {
			return ""
		}
		return "down\n" + long
	})
	for _, want := range []string{"name: web.tcp.8080.ipv4\n", "name: web.tcp.8080.ipv4.2\n", "name: web.dns.53.ipv4\n", "name: web.dns.54.ipv4\n", "name: web.dns.53.ipv6\n",
		"pointsman/reasons: '[2001:db8::1]:53: down üü"} {
		if n := strings.Count(text, want); n != 1 {
			t.Errorf("%q is there %d times", want, n)
		}
	}
	objects := Decode(&File{Path: "x.yaml", Data: []byte(text)}, ranges)
	if len(objects) != 5 {
		t.Fatalf("%d slices", len(objects))
	}
	for _, o := range objects {
		if len(o.Problems) > 0 {
			t.Error(o.Problems)
		}
		for _, reason := range strings.Split(o.EndpointSlice.Annotations[annotationReasons], "\n") {
			if len(reason) > len("[2001:db8::1]:53: ")+maxReason {
				t.Errorf("a reason of %d bytes", len(reason))
			}
		}
	}
}
