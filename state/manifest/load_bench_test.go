package manifest

import (
	"bytes"
	"fmt"
	"slices"
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

// BenchmarkLoadOneChange is a Load after one document of many has changed,
// with its decoding: a slice, a Service (so that all claims are settled anew),
// or a slice of a file that holds everything.
func BenchmarkLoadOneChange(b *testing.B) {
	for _, size := range []struct{ services, endpoints int }{{10_000, 10}, {40_000, 1}} {
		name := fmt.Sprintf("%dx%d", size.services, size.endpoints)
		files := benchFiles(size.services, size.endpoints)
		mid := size.services / 2
		b.Run("slice/"+name, func(b *testing.B) {
			benchLoads(b, files, func(n int) { files[mid] = benchFile(mid, size.endpoints, n%2+1) })
		})
		b.Run("service/"+name, func(b *testing.B) {
			plain := benchFile(mid, size.endpoints, 0)
			other := &File{Path: plain.Path, Data: bytes.Replace(plain.Data, []byte("port: 80,"), []byte("port: 81,"), 1)}
			benchLoads(b, files, func(n int) { files[mid] = []*File{plain, other}[n%2] })
		})
		b.Run("onefile/"+name, func(b *testing.B) {
			both := []*File{oneFile(files), nil}
			files[mid] = benchFile(mid, size.endpoints, 7)
			both[1] = oneFile(files)
			one := []*File{both[0]}
			benchLoads(b, one, func(n int) { one[0] = both[n%2] })
		})
	}
}

func oneFile(files []*File) *File {
	all := &File{Path: "all.yaml"}
	for _, f := range files {
		all.Data = append(append(all.Data, f.Data...), "---\n"...)
	}
	return all
}

func benchLoads(b *testing.B, files []*File, change func(n int)) {
	l := NewLoader(Config{}, "")
	l.Accept(l.Load(&Snapshot{Files: files}))
	for n := 0; b.Loop(); n++ {
		change(n + 1)
		l.Load(&Snapshot{Files: slices.Clone(files)})
	}
}

// BenchmarkLoadFirst is the Load of a host that starts. Nearly all of it is
// decoding.
func BenchmarkLoadFirst(b *testing.B) {
	files := benchFiles(10_000, 10)
	for b.Loop() {
		NewLoader(Config{}, "").Load(&Snapshot{Files: files})
	}
}
