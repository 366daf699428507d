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
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[healthy]; rec.Code != want {
				t.Errorf("answers %d", rec.Code)
			}
			var body HealthStatus
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || body.Healthy != healthy || !slices.Equal(body.Degraded, degraded) {
				t.Errorf("body: %s (%v)", rec.Body, err)
			}
		}
		check(false, time.Time{}, "nftables: not programmed yet")
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
