package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMaintenanceStart: an agent that starts leaves the drains of its files as they
// are, from its first look on, and ends those of files that are gone by then.
func TestMaintenanceStart(t *testing.T) {
	before, fleet := newMaintenance(t)
	now := time.Now()
	before.look(now)
	replace(t, filepath.Join(before.dir, "10.20.0.11"), "disk")
	replace(t, filepath.Join(before.dir, "10.20.0.12:8080"), "")
	before.look(now)
	if err := os.Remove(filepath.Join(before.dir, "10.20.0.12:8080")); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(before.dir, "web"), "")
	var log bytes.Buffer
	after := &maintenance{dir: before.dir, node: before.node, fleet: fleet, health: before.health, log: slog.New(slog.NewTextHandler(&log, nil))}
	writes := fleet.writes
	after.look(now)
	if got := fleet.shown(); got != "10.20.0.11 disk" || fleet.writes != writes+1 {
		t.Errorf("drained %q, by %d writes", got, fleet.writes-writes)
	}
	after.look(now)
	if strings.Count(log.String(), "reason=DrainFileWrong") != 1 {
		t.Errorf("the event:\n%s", &log)
	}
}
