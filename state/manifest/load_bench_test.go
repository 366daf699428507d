package manifest

import (
	"fmt"
	"testing"
)

// benchFiles gives one file for each of n Services, with its slice of so many
// endpoints.
func benchFiles(n, endpoints int) []*File {
	files := make([]*File, n)
	for i := range files {
		files[i] = benchFile(i, endpoints, 0)
	}
	return files
}

func benchFile(i, endpoints, version int) *File {
	text := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: svc-%05d, namespace: bench}
spec:
  clusterIP: 10.%d.%d.%d
  type: NodePort
  ports: [{name: http, port: 80, nodePort: %d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: svc-%05d-1, namespace: bench, labels: {kubernetes.io/service-name: svc-%05d}}
addressType: IPv4
ports: [{name: http, port: %d}]
endpoints:
`, i, 96+i>>16, i>>8&255, i&255, 20000+i, i, i, 8080+version)
	for e := range endpoints {
		n := i*endpoints + e
		text += fmt.Sprintf("- {addresses: [172.%d.%d.%d]}\n", 16+n>>16, n>>8&255, n&255)
	}
	return &File{Path: fmt.Sprintf("svc-%05d.yaml", i), Data: []byte(text)}
}

// BenchmarkLoadOneChange is a Load after one file of many has changed, with
// its decoding.
func BenchmarkLoadOneChange(b *testing.B) {
	for _, size := range []struct{ services, endpoints int }{{10_000, 10}, {40_000, 1}} {
		b.Run(fmt.Sprintf("%dx%d", size.services, size.endpoints), func(b *testing.B) {
			files := benchFiles(size.services, size.endpoints)
			l := NewLoader(Config{}, "")
			l.Accept(l.Load(&Snapshot{Files: files}))
			for n := 0; b.Loop(); n++ {
				i := size.services / 2
				files[i] = benchFile(i, size.endpoints, n%2+1)
				r := l.Load(&Snapshot{Files: files})
				if len(r.Services) != size.services {
					b.Fatal(len(r.Services))
				}
			}
		})
	}
}

// BenchmarkLoadFirst is the Load of a host that starts, without decoding.
func BenchmarkLoadFirst(b *testing.B) {
	files := benchFiles(10_000, 10)
	for b.Loop() {
		NewLoader(Config{}, "").Load(&Snapshot{Files: files})
	}
}
