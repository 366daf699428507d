package reconcile

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"pointsman/state"
)

// checked is a Service with a healthCheckNodePort, and its endpoints.
func checked(name string, port uint16, ports ...[]state.Endpoint) *state.Service {
	s := &state.Service{
		ObjectName: state.ObjectName{Namespace: "default", Name: name}, HealthCheckNodePort: port,
		ExternalTrafficPolicy: state.Local,
	}
	for _, eps := range ports {
		s.Ports = append(s.Ports, state.Port{Protocol: state.TCP, Endpoints: eps})
	}
	return s
}

func ready(address, node string) state.Endpoint {
	return state.Endpoint{Address: netip.MustParseAddrPort(address), NodeName: node, Ready: true, Serving: true}
}

func TestHealthChecks(t *testing.T) {
	terminating := state.Endpoint{Address: netip.MustParseAddrPort("10.0.0.1:80"), NodeName: "n1", Serving: true, Terminating: true}
	for _, c := range []struct {
		name  string
		ports [][]state.Endpoint
		want  HealthCheck
	}{
		{"none", nil, HealthCheck{}},
		{"one", [][]state.Endpoint{{ready("10.0.0.1:80", "n1")}}, HealthCheck{IPv4: 1}},
		{"another node's, and no node's", [][]state.Endpoint{{ready("10.0.0.1:80", "n2"), ready("10.0.0.2:80", "")}}, HealthCheck{}},
		{"C14: one address, two ports of one name", [][]state.Endpoint{{ready("10.0.0.1:80", "n1"), ready("10.0.0.1:81", "n1")}}, HealthCheck{IPv4: 1}},
		{"one address in two ports", [][]state.Endpoint{{ready("10.0.0.1:80", "n1")}, {ready("10.0.0.1:90", "n1"), ready("10.0.0.2:90", "n1")}}, HealthCheck{IPv4: 2}},
		{"C20: only terminating", [][]state.Endpoint{{terminating, ready("10.0.0.2:80", "n2")}}, HealthCheck{}},
		{"C22: both families", [][]state.Endpoint{{ready("10.0.0.1:80", "n1"), ready("[fd00::1]:80", "n1"), ready("[fd00::2]:80", "n1")}}, HealthCheck{IPv4: 1, IPv6: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := checked("web", 30900, c.ports...)
			c.want.Service = s.ObjectName
			got := healthChecks([]*state.Service{checked("other", 0, c.ports...), s}, "n1")
			if want := map[uint16]HealthCheck{30900: c.want}; !maps.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestWorsened(t *testing.T) {
	web, api := state.ObjectName{Name: "web"}, state.ObjectName{Name: "api"}
	check := func(s state.ObjectName, v4, v6 int) map[uint16]HealthCheck {
		return map[uint16]HealthCheck{30900: {s, v4, v6}}
	}
	for name, c := range map[string]struct{ now, next, want map[uint16]HealthCheck }{
		"the last endpoint goes":      {check(web, 1, 1), check(web, 0, 1), check(web, 0, 1)},
		"one comes":                   {check(web, 0, 1), check(web, 1, 1), check(web, 0, 1)},
		"one comes, and another goes": {check(web, 0, 2), check(web, 3, 1), check(web, 0, 1)},
		"the check goes":              {check(web, 2, 2), nil, check(web, 0, 0)},
		"a check comes":               {nil, check(web, 2, 2), map[uint16]HealthCheck{}},
		"the port moves":              {check(web, 2, 1), check(api, 1, 2), check(web, 1, 1)},
	} {
		if got := worsened(c.now, c.next); !maps.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestHealthChecksWithoutANodeName(t *testing.T) {
	got := healthChecks([]*state.Service{checked("web", 30900, []state.Endpoint{ready("10.0.0.1:80", "")})}, "")
	if got[30900].IPv4 != 0 {
		t.Errorf("an endpoint of no node is local to a node without a name: %+v", got)
	}
}

func TestHealthChecksFirstByNameHasThePort(t *testing.T) {
	got := healthChecks([]*state.Service{checked("a", 30900), checked("b", 30900)}, "n1")
	if got[30900].Service.Name != "a" || len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestHealthCheckAnswer(t *testing.T) {
	check := HealthCheck{Service: state.ObjectName{Namespace: "shop", Name: "web"}, IPv4: 2}
	const body = `{"service":{"namespace":"shop","name":"web"},"localEndpoints":`
	for _, c := range []struct {
		name, on string
		healthy  bool
		code     int
		weight   string
		body     string
	}{
		{"ready", "192.0.2.11", true, 200, "2", body + `2,"serviceProxyHealthy":true}` + "\n"},
		{"not of this family", "2001:db8::11", true, 503, "0", body + `0,"serviceProxyHealthy":true}` + "\n"},
		{"the kernel can't be programmed", "192.0.2.11", false, 503, "2", body + `2,"serviceProxyHealthy":false}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			check.answer(w, netip.MustParseAddr(c.on), c.healthy)
			if w.Code != c.code || w.Body.String() != c.body {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.code, c.body)
			}
			want := http.Header{
				"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"},
				"X-Load-Balancing-Endpoint-Weight": {c.weight},
			}
			if !maps.EqualFunc(w.Header(), want, func(a, b []string) bool { return a[0] == b[0] }) {
				t.Errorf("headers %v, want %v", w.Header(), want)
			}
		})
	}
}
