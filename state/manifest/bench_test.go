package manifest

import (
	"bytes"
	"fmt"
	"testing"
	"text/template"
)

// estate writes the manifests of n Services with ten endpoints each.
func estate(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		err := estateTemplate.Execute(&b, map[string]any{
			"Name": fmt.Sprintf("svc-%05d", i), "IP": fmt.Sprintf("10.%d.%d.%d", 96+i>>16, i>>8&255, i&255),
			"Backends": make([]struct{}, 10), "High": i >> 8, "Low": i & 255,
		})
		if err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

var estateTemplate = template.Must(template.New("").Parse(`---
apiVersion: v1
kind: Service
metadata:
  name: {{.Name}}
  namespace: shop
  labels:
    app.kubernetes.io/name: {{.Name}}
spec:
  type: ClusterIP
  clusterIP: {{.IP}}
  ports:
  - name: http
    port: 80
    protocol: TCP
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {{.Name}}-a
  namespace: shop
  labels:
    kubernetes.io/service-name: {{.Name}}
addressType: IPv4
ports:
- name: http
  port: 8080
  protocol: TCP
endpoints:
{{- range $i, $_ := .Backends}}
- addresses: ["172.{{$.High}}.{{$.Low}}.{{$i}}"]
  nodeName: node-{{$i}}
  zone: z{{$i}}
  conditions: {ready: true}
{{- end}}
`))

// 10,000 Services with ten endpoints each, in one file.
func BenchmarkDecode(b *testing.B) {
	f := &File{Path: "all.yaml", Data: estate(10000)}
	b.SetBytes(int64(len(f.Data)))
	b.ReportAllocs()
	for b.Loop() {
		Decode(f, Config{})
	}
}

// The same, of which one document changed.
func BenchmarkRedecode(b *testing.B) {
	f := &File{Path: "all.yaml", Data: estate(10000)}
	before := Decode(f, Config{})
	changed := &File{Path: f.Path, Data: bytes.Replace(f.Data, []byte("node-7"), []byte("node-x"), 1)}
	b.SetBytes(int64(len(f.Data)))
	for b.Loop() {
		redecode(changed, Config{}, before)
	}
}

func BenchmarkValidate(b *testing.B) {
	objects := Decode(&File{Path: "all.yaml", Data: estate(10000)}, Config{})
	for b.Loop() {
		for _, o := range objects {
			if o.Service != nil {
				readService(o.Service, Config{})
			} else {
				readSlice(o.EndpointSlice, Config{})
			}
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	data := estate(10000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		split(data)
	}
}
