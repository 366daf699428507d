package pin

import (
	"fmt"
	"testing"

	"pointsman/state/manifest"
)

// BenchmarkNew pins 10,000 Services, in one file each and in one List.
func BenchmarkNew(b *testing.B) {
	const n = 10_000
	files := &manifest.Snapshot{}
	list := &manifest.File{Path: "list.yaml", Data: []byte("apiVersion: v1\nkind: List\nitems:\n")}
	for i := range n {
		files.Files = append(files.Files, &manifest.File{Path: fmt.Sprintf("%05d.yaml", i), Data: fmt.Appendf(nil,
			"apiVersion: v1\nkind: Service\nmetadata:\n  name: s%d\nspec:\n  ports:\n  - port: 80\n", i)})
		list.Data = fmt.Appendf(list.Data, "- apiVersion: v1\n  kind: Service\n  metadata:\n    name: s%d\n  spec:\n    ports:\n    - port: 80\n", i)
	}
	for name, s := range map[string]*manifest.Snapshot{"files": files, "list": {Files: []*manifest.File{list}}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := New(s, nil, ranges)
				if err != nil || len(p.Values) != n {
					b.Fatal(err, len(p.Values))
				}
			}
		})
	}
}
