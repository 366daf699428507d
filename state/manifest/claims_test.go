package manifest

import (
	"fmt"
	"maps"
	"testing"
)

func TestC31SameExternalIPAndPort(t *testing.T) { golden(t, "join/c31-same-external-ip") }
func TestC32SharedVIP(t *testing.T)             { golden(t, "join/c32-shared-vip") }
func TestClaims(t *testing.T)                   { golden(t, "join/claims") }
func TestDuplicates(t *testing.T)               { golden(t, "join/duplicates") }

// Three hosts that have reloaded 50 times, each in the company of other files,
// and then one that starts: the same Service has the address on all of them.
func TestC31HostsAgree(t *testing.T) {
	const claimant = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: %s}\n" +
		"spec: {clusterIP: 10.96.0.%d, externalIPs: [192.0.2.210], ports: [{port: 80}]}\n"
	const problem = `a.yaml:4: spec.externalIPs[0]: Invalid value: "192.0.2.210": 192.0.2.210:80/TCP is already used by a/web (b.yaml:1)`
	clash := map[string]string{"a.yaml": fmt.Sprintf(claimant, "b", 2), "b.yaml": fmt.Sprintf(claimant, "a", 1)}
	for host := range 3 {
		l := NewLoader(ranges, "")
		for i := range 50 {
			files := maps.Clone(clash)
			if i%(host+2) == 0 {
				delete(files, []string{"a.yaml", "b.yaml"}[host%2])
			}
			f := benchFile(100*host+i%7, 1, i)
			files[f.Path] = string(f.Data)
			l.Accept(l.Load(snapshotOf(files)))
		}
		expect(t, l.Load(snapshotOf(clash)), problem)
	}
	expect(t, loadFresh(clash), problem)
}
