package manifest

import (
	"strings"
	"testing"
)

func TestC10PortNameMismatch(t *testing.T)      { golden(t, "join/c10-port-names") }
func TestC11LegacyEndpoints(t *testing.T)       { golden(t, "join/c11-endpoints") }
func TestC13SeveralSlices(t *testing.T)         { golden(t, "join/c13-several-slices") }
func TestC14SameAddressTwoPorts(t *testing.T)   { golden(t, "join/c14-two-ports") }
func TestC16SliceWithoutPorts(t *testing.T)     { golden(t, "join/c16-no-ports") }
func TestC17SelectorWithoutPods(t *testing.T)   { golden(t, "join/c17-selector") }
func TestC26MixedRanges(t *testing.T)           { golden(t, "join/c26-mixed-ranges") }
func TestC28SourceRanges(t *testing.T)          { golden(t, "join/c28-source-ranges") }
func TestC40LongNames(t *testing.T)             { golden(t, "join/c40-long-names") }
func TestC94SameNameTwoNamespaces(t *testing.T) { golden(t, "join/c94-namespaces") }
func TestC95Families(t *testing.T)              { golden(t, "join/c95-families") }
func TestFrontends(t *testing.T)                { golden(t, "join/frontends") }
func TestTrafficDistribution(t *testing.T)      { golden(t, "join/traffic-distribution") }
func TestMissingValues(t *testing.T)            { golden(t, "join/missing-values") }
func TestCompany(t *testing.T)                  { golden(t, "join/company") }
func TestRepeats(t *testing.T)                  { golden(t, "join/repeats") }
func TestListItemProblems(t *testing.T)         { golden(t, "join/list") }

// That a Service has no slice isn't the news where it has one, in error.
func TestSliceInError(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.5, ports: [{port: 80}]}\n"
	slice := func(port string) string {
		return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, labels: {kubernetes.io/service-name: web}}\n" +
			"addressType: IPv4\nendpoints: [{addresses: [10.20.0.11]}]\nports: [{port: " + port + "}]\n"
	}
	loader := NewLoader(ranges, "")
	for _, c := range []struct{ slice, want string }{
		{"", "web.yaml:1: warning: no EndpointSlice in namespace default is labelled kubernetes.io/service-name: web: connections are refused"},
		{slice("70000"), "slice.yaml:6: ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive"},
		{slice("8080"), ""},
	} {
		files := map[string]string{"web.yaml": service}
		if c.slice != "" {
			files["slice.yaml"] = c.slice
		}
		if got := strings.Join(problemLines(loader.Load(snapshotOf(files))), "\n"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
