package manifest

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

// renderCheck writes a Check as the goldens have it.
func renderCheck(c *state.Check) string {
	if c == nil {
		return "none"
	}
	words := []string{"home", c.Target.String()}
	switch p := c.Probe; {
	case p == nil:
		words[1] += "/" + string(c.Protocol)
	case p.HTTP != nil:
		words[0] = fmt.Sprintf("http%+v", *p.HTTP)
	case p.GRPC != nil:
		words[0] = fmt.Sprintf("grpc%+v", *p.GRPC)
	case p.Exec != nil:
		words[0] = fmt.Sprintf("exec%q", p.Exec)
	default:
		words[0] = "tcp"
	}
	if p := c.Probe; p != nil {
		words = append(words, fmt.Sprintf("every %v for %v, %d up, %d down", p.Period, p.Timeout, p.SuccessThreshold, p.FailureThreshold))
	}
	if c.From != nil {
		words = append(words, fmt.Sprintf("from %v", c.From))
	}
	return strings.Join(words, " ")
}

// isPlain reports whether a Check is what an endpoint with a nodeName has
// anyway, which the goldens don't repeat.
func isPlain(e state.Endpoint) bool {
	c := e.Check
	return c.Probe == nil && c.From == nil && c.Protocol == state.TCP && c.Target == e.Address && c.Home == e.NodeName
}

func TestProbes(t *testing.T)       { golden(t, "join/probes") }
func TestProbePorts(t *testing.T)   { golden(t, "join/probe-ports") }
func TestNodeSelector(t *testing.T) { golden(t, "join/node-selector") }

// drawCheck draws a Check out of few values, so that two are often alike.
func drawCheck(t *rapid.T) state.Check {
	word := rapid.SampledFrom([]string{"", "a", "b", "ab"})
	words := func(name string) []string {
		return rapid.SampledFrom([][]string{nil, {}, {"a"}, {"a", "b"}, {"ab"}, {"a", ""}, {"", "a"}}).Draw(t, name)
	}
	c := state.Check{
		Target:   netip.MustParseAddrPort(rapid.SampledFrom([]string{"10.0.0.1:80", "10.0.0.1:8", "[::1]:80", "[::ffff:10.0.0.1]:80"}).Draw(t, "target")),
		Protocol: rapid.SampledFrom([]state.Protocol{"", state.TCP, state.UDP}).Draw(t, "protocol"),
		Home:     word.Draw(t, "home"), From: words("from"),
	}
	kind := rapid.SampledFrom([]string{"none", "tcp", "http", "grpc", "exec"}).Draw(t, "kind")
	if kind == "none" {
		return c
	}
	small := func(name string) int { return rapid.IntRange(1, 2).Draw(t, name) }
	c.Probe = &state.Probe{Period: time.Duration(small("period")), Timeout: time.Duration(small("timeout")), SuccessThreshold: small("rise"), FailureThreshold: small("fall")}
	switch kind {
	case "http":
		c.Probe.HTTP = &state.HTTPProbe{TLS: rapid.Bool().Draw(t, "tls"), Host: word.Draw(t, "host"), Path: word.Draw(t, "path")}
		for i := range rapid.IntRange(0, 2).Draw(t, "headers") {
			c.Probe.HTTP.Headers = append(c.Probe.HTTP.Headers, state.Header{Name: word.Draw(t, fmt.Sprint("name", i)), Value: word.Draw(t, fmt.Sprint("value", i))})
		}
	case "grpc":
		c.Probe.GRPC = &state.GRPCProbe{Service: word.Draw(t, "service")}
	case "exec":
		c.Probe.Exec = append([]string{"x"}, words("command")...)
	}
	return c
}

// Two Checks have one text, and so one Key, if and only if they are equal.
func TestChecksAreToldApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawCheck(t), drawCheck(t)
		same := string(appendCheck(nil, &a)) == string(appendCheck(nil, &b))
		if equal := reflect.DeepEqual(a, b); same != equal {
			t.Fatalf("same text: %v, equal: %v:\n%+v\n%+v", same, equal, a, b)
		}
	})
}

// Hosts of two releases talk of Checks by their Keys: a Key that changes here
// is a vote that isn't counted there.
func TestCheckKeysStay(t *testing.T) {
	target := netip.MustParseAddrPort("10.0.0.1:80")
	probe := state.Probe{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
	http := probe
	http.HTTP = &state.HTTPProbe{TLS: true, Host: "web", Path: "/", Headers: []state.Header{{Name: "A", Value: "b"}}}
	exec := probe
	exec.Exec = []string{"true", "x"}
	for _, tt := range []struct {
		check state.Check
		want  state.CheckKey
	}{
		{state.Check{Target: target, Protocol: state.TCP, Home: "n1"}, 0xa215a2f6263f7200},
		{state.Check{Target: netip.MustParseAddrPort("[fd00::1]:53"), Protocol: state.UDP, Home: "n1", From: []string{}}, 0xa26660f785de607a},
		{state.Check{Target: target, Probe: &probe}, 0xe0caa254deb34132},
		{state.Check{Target: target, Probe: &http, From: []string{"n1", "n2"}}, 0x96ae2e926283b2bf},
		{state.Check{Target: target, Probe: &exec, Home: "n1"}, 0x5449151189c02d32},
	} {
		if got := new(checks).intern(tt.check).Key; got != tt.want {
			t.Errorf("%s: got %#x, want %#x", renderCheck(&tt.check), uint64(got), uint64(tt.want))
		}
	}
}

// checksOf gives the Checks of all endpoints of a Result.
func checksOf(r *Result) []*state.Check {
	var out []*state.Check
	for _, s := range r.Services {
		for _, p := range s.Ports {
			for _, e := range p.Endpoints {
				out = append(out, e.Check)
			}
		}
	}
	return out
}

// Two ports of an endpoint that are judged by one share its Check.
func TestEqualChecksAreShared(t *testing.T) {
	r := loadFresh(map[string]string{"m.yaml": `{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {pointsman/readiness-probe: "tcpSocket: {port: 80}"}},
spec: {clusterIP: 10.96.0.1, ports: [{name: a, port: 80}, {name: b, port: 81}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web, labels: {kubernetes.io/service-name: web}},
addressType: IPv4, ports: [{name: a, port: 80}, {name: b, port: 81}], endpoints: [{addresses: [10.20.0.1]}, {addresses: [10.20.0.2]}]}
`})
	got := checksOf(r)
	if len(got) != 4 || got[0] == nil || got[0] == got[1] || !slices.Equal(got[:2], got[2:]) || got[0].Probe != got[1].Probe {
		t.Errorf("got %v, with the problems %v", got, r.Problems)
	}
}
