package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile"
	"pointsman/state/manifest"
)

// A state directory that can't be written is told once, and tried again until it
// can.
func TestSaveIsTriedAgain(t *testing.T) {
	var log bytes.Buffer
	s := &source{
		stateDir: filepath.Join(t.TempDir(), "full"), loader: manifest.NewLoader(manifest.Config{}, ""), ledger: newLedger("n1", thirty, past{}),
		health: &reconcile.Health{}, log: slog.New(slog.NewTextHandler(&log, nil)), unsaved: true,
	}
	degraded := func() string { return strings.Join(s.health.Status(time.Now()).Degraded, "; ") }
	for range 2 {
		if s.save(); !s.unsaved || !strings.Contains(degraded(), "state directory: ") || strings.Contains(degraded(), "\n") || strings.Count(log.String(), "could not be saved") != 1 {
			t.Errorf("unsaved %v, %s\n%s", s.unsaved, degraded(), &log)
		}
	}
	if err := os.Mkdir(s.stateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if s.save(); s.unsaved || strings.Contains(degraded(), "state directory") {
		t.Errorf("unsaved %v, %s", s.unsaved, degraded())
	}
}
