package pin

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"

	"pointsman/state/manifest"
)

// Whatever a file holds: New returns; what it writes means what the file did
// but for values that were missing; and nothing that it wrote a value to lacks
// one afterwards.
func FuzzNew(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(file.Data)
		}
	}
	f.Add([]byte("\ufeffapiVersion: v1\r\nkind: Service\r\nmetadata: {name: x}\r\nspec:\r\n  clusterIP:\r\n  ports: [{port: 80}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := pinOne(t, "f", string(data))
		if (len(p.Files) == 0) != (len(p.Values) == 0) {
			t.Fatalf("%d files, %d values", len(p.Files), len(p.Values))
		}
		if len(p.Files) == 0 {
			return
		}
		sameButForValues(t, data, p.Files[0].After)
		got := map[string]bool{}
		for _, v := range p.Values {
			got[v.Service.String()] = true
		}
		for _, v := range pinOne(t, "f", string(p.Files[0].After)).Values {
			if got[v.Service.String()] {
				t.Errorf("%s %s is missing still", v.Service, v.Field)
			}
		}
	})
}

func sameButForValues(t *testing.T, before, after []byte) {
	old := manifest.Decode(&manifest.File{Path: "f", Data: before}, ranges)
	now := manifest.Decode(&manifest.File{Path: "f", Data: after}, ranges)
	if len(old) != len(now) {
		t.Fatalf("%d objects, %d before", len(now), len(old))
	}
	for i := range old {
		if old[i].Key != now[i].Key || old[i].Failed() != now[i].Failed() {
			t.Errorf("%s is now %s, with %v", old[i].Key, now[i].Key, now[i].Problems)
		}
		if old[i].Service != nil && now[i].Service != nil {
			without(old[i].Service, now[i].Service)
		}
		if !reflect.DeepEqual(old[i].Service, now[i].Service) || !reflect.DeepEqual(old[i].EndpointSlice, now[i].EndpointSlice) {
			t.Errorf("%s changed", old[i].Key)
		}
	}
}

// without takes the values away that a Service didn't have.
func without(old, now *corev1.Service) {
	if old.Spec.ClusterIP == "" {
		now.Spec.ClusterIP, now.Spec.ClusterIPs = "", nil
		old.Spec.ClusterIPs = nil
	}
	if n := len(old.Spec.ClusterIPs); n == 1 && len(now.Spec.ClusterIPs) == 2 {
		now.Spec.ClusterIPs = now.Spec.ClusterIPs[:n]
	}
	for i, p := range old.Spec.Ports {
		if p.NodePort == 0 && i < len(now.Spec.Ports) {
			now.Spec.Ports[i].NodePort = 0
		}
	}
	if old.Spec.HealthCheckNodePort == 0 {
		now.Spec.HealthCheckNodePort = 0
	}
}
