package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestSyncStatus: what sync says is found by the way that the agent is given,
// also while nothing is published yet.
func TestSyncStatus(t *testing.T) {
	const (
		well    = `{"repo": "/fleet", "ref": "main", "succeeded": "2026-11-30T02:00:00Z"}`
		down    = `{"repo": "/fleet", "ref": "main", "error": "git fetch: no"}`
		refused = `{"repo": "/fleet", "ref": "main", "error": "x", "refused": {"commit": "0123456789abcdef", "reason": "unsigned"}}`
	)
	for name, c := range map[string]struct {
		manifests, status, text string
		metrics                 map[string]float64
	}{
		"well":            {"current", well, "", map[string]float64{"failed": 0, "refused": 0, "last_success_timestamp_seconds": 1796004000}},
		"a folder of it":  {"current/a/b", well, "", map[string]float64{"failed": 0, "refused": 0, "last_success_timestamp_seconds": 1796004000}},
		"a server down":   {"current", down, "git fetch: no", map[string]float64{"failed": 1, "refused": 0}},
		"a commit":        {"current", refused, "commit 0123456789ab is refused: unsigned", map[string]float64{"failed": 1, "refused": 1}},
		"not readable":    {"current", "{", "status.json", map[string]float64{"failed": 1, "refused": 0}},
		"no sync":         {"current", "", "", nil},
		"some other ways": {"manifests", well, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dest := t.TempDir()
			if c.status != "" {
				if err := os.WriteFile(filepath.Join(dest, "status.json"), []byte(c.status), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			manifests := filepath.Join(dest, c.manifests)
			if got := syncText(syncStatus(manifests)); !strings.Contains(got, c.text) || (got == "") != (c.text == "") {
				t.Errorf("it says %q, not %q", got, c.text)
			}
			r := prometheus.NewRegistry()
			r.MustRegister(newSyncMetrics(manifests))
			families, err := r.Gather()
			if err != nil || len(families) != len(c.metrics) {
				t.Errorf("%d metrics, not %d (%v)", len(families), len(c.metrics), err)
			}
			for _, f := range families {
				name := strings.TrimPrefix(f.GetName(), "pointsman_sync_")
				if got := f.GetMetric()[0].GetGauge().GetValue(); got != c.metrics[name] {
					t.Errorf("%s is %v, not %v", name, got, c.metrics[name])
				}
			}
		})
	}
}
