package manifest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Whatever an annotation holds, it's read; and what has no error is a probe
// that can be made.
func FuzzReadinessProbe(f *testing.F) {
	for _, text := range []string{
		"", "tcpSocket: {}", "httpGet: {path: /healthz, port: http, httpHeaders: [{name: A, value: b}]}\nperiodSeconds: 3\n",
		"grpc: {port: 80, service: web}", `{"exec": {"command": ["true"]}, "timeoutSeconds": 2147483647}`, "tcpSocket: {}\n---\na", "a: &a [*a]",
		"httpGet: {port: 010}", "tcpSocket: {port: 1e9}", "tcpSocket:\n  port: 80\n  port: 81\n", "%YAML 1.1\n---\ntcpSocket: {}", "- a", "&a tcpSocket: {}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, found := readProbe(text)
		if hasErrors(found) {
			return
		}
		p := newProbe(spec)
		kinds := 0
		for _, is := range []bool{p.HTTP != nil, p.GRPC != nil, p.Exec != nil} {
			if is {
				kinds++
			}
		}
		switch {
		case kinds > 1, p.Period < time.Second, p.Timeout < time.Second, p.SuccessThreshold < 1, p.FailureThreshold < 1:
			t.Errorf("%q: %+v", text, p.Probe)
		case p.Exec != nil && (len(p.Exec) == 0 || strings.ContainsRune(strings.Join(p.Exec, ""), 0)):
			t.Errorf("%q: command %q", text, p.Exec)
		case p.HTTP != nil && p.HTTP.Path == "":
			t.Errorf("%q: no path", text)
		case p.port != nil && p.port.StrVal == "" && (p.port.IntVal < 1 || p.port.IntVal > 65535):
			t.Errorf("%q: port %v", text, p.port)
		}
	})
}

// Where a selector is over labels, what it selects doesn't depend on what was
// selected before.
func TestSelectedIsRemembered(t *testing.T) {
	f := &fleet{choices: map[string][]string{}}
	for i := range 4 {
		f.nodes = append(f.nodes, Node{Name: fmt.Sprint("n", i), Labels: map[string]string{"rack": fmt.Sprint(i % 2)}})
	}
	for range 2 {
		for text, want := range map[string]string{"rack=1": "[n1 n3]", "rack": "[n0 n1 n2 n3]", "": "[n0 n1 n2 n3]", "x": "[]"} {
			s, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.selected(&selector{Selector: s, text: text}); fmt.Sprint(got) != want || got == nil {
				t.Errorf("%q: got %v, want %v", text, got, want)
			}
		}
	}
}

// A Node's labels are the concern of the Services that select by them, and no
// others: those keep their pointers.
func TestLabelsChangeOnlyWhoSelects(t *testing.T) {
	service := func(name, ip, annotations string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, annotations: {%s}}, spec: {clusterIP: %s, ports: [{port: 80}]}}\n", name, annotations, ip)
	}
	node := func(labels string) string {
		return "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {" + labels + "}}, status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}}\n"
	}
	files := map[string]string{
		"a.yaml": service("plain", "10.96.0.1", ""), "b.yaml": service("same", "10.96.0.2", "pointsman/node-selector: rack"),
		"c.yaml": service("moved", "10.96.0.3", "pointsman/node-selector: rack=a"), "n.yaml": node("rack: a"),
	}
	l := NewLoader(ranges, "")
	before := l.Load(snapshotOf(files)).Services
	files["n.yaml"] = node("rack: b")
	after := l.Load(snapshotOf(files)).Services
	for i, name := range []string{"moved", "plain", "same"} {
		if same := before[i] == after[i]; before[i].Name != name || same != (name != "moved") {
			t.Errorf("%s: same pointer: %v; nodes %v, then %v", name, same, before[i].Nodes, after[i].Nodes)
		}
	}
}

// BenchmarkLoadFirstChecked is BenchmarkLoadFirst with a probe on each Service
// and a home for each endpoint.
func BenchmarkLoadFirstChecked(b *testing.B) {
	files := benchFiles(10_000, 10)
	for _, f := range files {
		text := strings.Replace(string(f.Data), "namespace: bench}",
			"namespace: bench, annotations: {pointsman/readiness-probe: \"httpGet: {path: /healthz, port: 8080}\"}}", 1)
		f.Data = []byte(strings.ReplaceAll(text, "]}\n", "], nodeName: n1}\n"))
	}
	for b.Loop() {
		NewLoader(Config{}, "").Load(&Snapshot{Files: files})
	}
}

// BenchmarkMatchChecked is the join alone of a Service with 1,000 endpoints
// that are probed, or follow their homes.
func BenchmarkMatchChecked(b *testing.B) {
	for _, annotation := range []string{"", `pointsman/readiness-probe: "tcpSocket: {}"`} {
		f := benchFile(1, 1000, 0)
		text := strings.Replace(string(f.Data), "namespace: bench}", "namespace: bench, annotations: {"+annotation+"}}", 1)
		for _, home := range []string{"", ", nodeName: n1"} {
			r := NewLoader(Config{}, "").Load(&Snapshot{Files: []*File{{Path: "f", Data: []byte(strings.ReplaceAll(text, "]}\n", "]"+home+"}\n"))}}})
			service, slices := r.effective[0], r.effective[1:]
			b.Run(fmt.Sprintf("probe=%v/home=%v", annotation != "", home != ""), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					match(service.demand, slices, &fleet{})
				}
			})
		}
	}
}
