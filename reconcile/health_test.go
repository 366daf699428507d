package reconcile

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/reconcile/host"
	"pointsman/state"
)

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Health
		check := func(healthy bool, updated time.Time, degraded ...string) {
			t.Helper()
			s := h.Status(time.Now())
			if s.Healthy != healthy || !s.LastUpdated.Equal(updated) || !s.CurrentTime.Equal(time.Now()) || !slices.Equal(s.Degraded, degraded) {
				t.Errorf("status: %+v", s)
			}
			rec := httptest.NewRecorder()
			h.Ready().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[healthy]; rec.Code != want {
				t.Errorf("answers %d", rec.Code)
			}
			var body HealthStatus
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || body.Healthy != healthy || !slices.Equal(body.Degraded, degraded) {
				t.Errorf("body: %s (%v)", rec.Body, err)
			}
		}
		check(false, time.Time{}, "nftables: not programmed yet")
		h.Degraded("manifests", "nothing to serve")
		check(false, time.Time{}, "manifests: nothing to serve", "nftables: not programmed yet")
		h.Degraded("manifests", "")
		h.Failed("nftables: no")
		check(false, time.Time{}, "nftables: no")
		first := time.Now()
		h.Programmed(first)
		check(true, first)
		time.Sleep(time.Minute)
		h.Degraded("manifests", "web.yaml: refused")
		h.Degraded("fleet", "alone")
		check(true, first, "fleet: alone", "manifests: web.yaml: refused")
		h.Failed("nftables: no again")
		check(false, first, "nftables: no again", "fleet: alone", "manifests: web.yaml: refused")
		h.Degraded("fleet", "")
		h.Degraded("manifests", "")
		h.Programmed(time.Now())
		check(true, time.Now())
	})
}

// TestHealthNews: who listens hears of each other reason, and of nothing else.
func TestHealthNews(t *testing.T) {
	var h Health
	heard := 0
	h.News(func() {
		heard++
		h.Status(time.Now()) // nothing is locked
	})
	for i, step := range []struct {
		do   func()
		news int
	}{
		{func() { h.Programmed(time.Now()) }, 1}, // for the first time
		{func() { h.Programmed(time.Now()) }, 0},
		{func() { h.Failed("nftables: no") }, 1},
		{func() { h.Failed("nftables: no") }, 0},
		{func() { h.Failed("nftables: not that either") }, 1},
		{func() { h.Programmed(time.Now()) }, 1},
		{func() { h.Degraded("fleet", "") }, 0},
		{func() { h.Degraded("fleet", "alone") }, 1},
		{func() { h.Degraded("fleet", "alone") }, 0},
		{func() { h.Degraded("fleet", "two are absent") }, 1},
		{func() { h.Degraded("fleet", "") }, 1},
	} {
		heard = 0
		step.do()
		if heard != step.news {
			t.Errorf("step %d was told %d times", i, heard)
		}
	}
}

// TestHealthStuck: a loop that doesn't come back is the one thing that /livez
// complains of, and /healthz does, too.
func TestHealthStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Health
		var loop pulse
		h.watch(&loop)
		check := func(when string, ready, alive int, degraded string) {
			t.Helper()
			for want, handler := range map[*int]http.Handler{&ready: h.Ready(), &alive: h.Alive()} {
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
				if rec.Code != *want || *want != http.StatusOK && !strings.Contains(rec.Body.String(), degraded) {
					t.Errorf("%s: %d %s", when, rec.Code, rec.Body)
				}
			}
		}
		check("at the start", 503, 200, "not programmed yet")
		loop.expect(time.Minute)
		h.Programmed(time.Now())
		check("programmed", 200, 200, "")
		h.Drained(true)
		check("drained", 503, 200, `"drained":true`)
		h.Drained(false)
		h.Failed("nftables: no")
		check("nft fails", 503, 200, "nftables: no")
		h.Programmed(time.Now())
		time.Sleep(time.Minute)
		check("stuck", 503, 503, "the reconcile loop is stuck: it should have come back by 2000-01-01T00:01:00Z")
		loop.expect(time.Minute)
		check("going on", 200, 200, "")
	})
}

func TestSafeServiceCIDRs(t *testing.T) {
	here := host.Addrs{V4: host.Stack{Enabled: true,
		Addresses: []host.Address{{Addr: netip.MustParseAddr("192.0.2.11"), Link: "eth0", Connected: netip.MustParsePrefix("192.0.2.0/24")}},
		Defaults:  []host.Route{{Link: "eth0", Gateway: netip.MustParseAddr("203.0.113.1")}},
	}}
	d := &Desired{FleetIPs: addrs("198.51.100.12"), Services: []*state.Service{web(nil)}}
	for cidr, why := range map[string][]string{
		"10.96.0.0/16":    nil,
		"fd00:96::/112":   nil,
		"192.0.2.128/25":  nil, // cut out of the LAN
		"192.0.2.0/28":    {"192.0.2.11"},
		"192.0.0.0/16":    {"192.0.2.11", "192.0.2.0/24"},
		"203.0.113.0/24":  {"203.0.113.1"},
		"198.51.100.0/24": {"the node address 198.51.100.12"},
		"10.20.0.0/16":    {"the endpoint 10.20.0.1:8080 of default/web"},
		"fd00:20::/64":    {"the endpoint [fd00:20::1]:8080 of default/web"},
	} {
		safe, refused := SafeServiceCIDRs(prefixes(cidr), here, d)
		if len(why) == 0 {
			if !slices.Equal(safe, prefixes(cidr)) || len(refused) > 0 {
				t.Errorf("%s is refused: %q", cidr, refused)
			}
			continue
		}
		if len(safe) > 0 || len(refused) != 1 || !strings.HasPrefix(refused[0], "--service-cidr "+cidr+" holds ") {
			t.Errorf("%s: in force %v, refused %q", cidr, safe, refused)
			continue
		}
		for _, w := range why {
			if !strings.Contains(refused[0], w) {
				t.Errorf("%s: %q doesn't name %s", cidr, refused[0], w)
			}
		}
	}
	if safe, refused := SafeServiceCIDRs(prefixes("10.20.0.0/16"), here, nil); len(safe) != 1 || len(refused) > 0 {
		t.Errorf("before anything is known: %v, %q", safe, refused)
	}
}

func TestSafeLocalCIDRs(t *testing.T) {
	here := host.Addrs{V4: host.Stack{Enabled: true,
		Addresses: []host.Address{
			{Addr: netip.MustParseAddr("192.0.2.11"), Link: "eth0", Connected: netip.MustParsePrefix("192.0.2.0/24")},
			{Addr: netip.MustParseAddr("10.244.0.1"), Link: "br0", Connected: netip.MustParsePrefix("10.244.0.0/24")},
		},
		Defaults: []host.Route{{Link: "eth0", Gateway: netip.MustParseAddr("192.0.2.1")}},
	}}
	for name, test := range map[string]struct {
		cidr, endpoint, node string
		refused              bool
	}{
		"the LAN, and an endpoint in it": {"192.0.2.0/24", "192.0.2.50", "", true},
		"a part of it":                   {"192.0.2.128/25", "192.0.2.50", "", true},
		"everything":                     {"0.0.0.0/0", "192.0.2.50", "", true},
		"the LAN, and an endpoint behind the gateway":        {"192.0.2.0/24", "203.0.113.7", "", true},
		"the LAN, and an endpoint on another network":        {"192.0.2.0/24", "10.244.0.5", "", false},
		"the LAN, and an endpoint of this very host":         {"192.0.2.0/24", "192.0.2.11", "", false},
		"the LAN, and an endpoint that is said to be here":   {"192.0.2.0/24", "192.0.2.50", "n1", false},
		"the LAN, and an endpoint at another node":           {"192.0.2.0/24", "192.0.2.50", "n2", true},
		"the LAN, and an endpoint of the other family":       {"192.0.2.0/24", "2001:db8::1", "", false},
		"this host's guests, and an endpoint among them":     {"10.244.0.0/16", "10.244.0.5", "", false},
		"the fleet's guests, and an endpoint at another one": {"10.244.0.0/16", "10.244.2.5", "", false},
	} {
		d := &Desired{Services: []*state.Service{{ObjectName: state.ObjectName{Namespace: "a", Name: "web"}, Ports: []state.Port{{
			Endpoints: []state.Endpoint{{Address: netip.AddrPortFrom(netip.MustParseAddr(test.endpoint), 80), NodeName: test.node}}}}}}}
		safe, refused := SafeLocalCIDRs(prefixes(test.cidr), here, "n1", d)
		if (len(refused) == 1) != test.refused || len(safe)+len(refused) != 1 {
			t.Errorf("%s: in force %v, refused %q", name, safe, refused)
		}
		for _, word := range []string{"--local-cidr " + test.cidr, test.endpoint, "a/web", "192.0.2.0/24 (eth0)"} {
			if test.refused && !strings.Contains(strings.Join(refused, ""), word) {
				t.Errorf("%s: %q doesn't name %s", name, refused, word)
			}
		}
	}
}
