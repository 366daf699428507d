package reconcile

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestHealthWaits: whoever is asked and doesn't answer is named after a while.
// Clients are to go elsewhere if it's nft, however long it then takes; a change
// that gets on is none that waits.
func TestHealthWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Health{}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(h.Collector())
		check := func(when string, ready int, text string) {
			t.Helper()
			rec := httptest.NewRecorder()
			h.Ready().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if rec.Code != ready || strings.Contains(rec.Body.String(), "degraded") != (text != "") || !strings.Contains(rec.Body.String(), text) {
				t.Errorf("%s: %d %s", when, rec.Code, rec.Body)
			}
			if !h.Live(time.Now()).Healthy {
				t.Errorf("%s: not alive", when)
			}
			all, err := registry.Gather()
			names := ""
			for _, m := range all {
				names += m.GetName() + " "
			}
			if err != nil || strings.Contains(names, "pointsman_degraded") != (text != "") {
				t.Errorf("%s: metrics %s(%v)", when, names, err)
			}
		}
		h.Programmed(time.Now())
		h.Waits(Nftables, time.Now())
		for range 10 {
			time.Sleep(silence - time.Second)
			check("a long change", 200, "")
			h.Waits(Nftables, time.Now())
		}
		time.Sleep(silence)
		check("nft hangs", 503, "a change waits: nft and the kernel haven't answered since 2000-01-01T00:09:50Z")
		h.Waits(Nftables, time.Time{})
		check("it's back", 200, "")
		h.Waits(ManifestFiles, time.Now())
		h.Degraded("manifests", "")
		time.Sleep(silence - time.Second)
		check("a slow disk", 200, "")
		time.Sleep(time.Hour)
		check("it hangs", 200, "manifests: the file system has not let them be read since 2000-01-01T00:10:50Z")
		h.Degraded("manifests", "gone")
		check("and is gone", 200, "gone")
	})
}
