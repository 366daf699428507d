package main

import (
	"log/slog"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe in a state file's place has no writer: whoever opened it as a file would
// wait for ever.
func TestStateFilesThatArePipes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{pastFile, connectionsFile, rulesName} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readPast(dir); err == nil {
		t.Errorf("%s is read", pastFile)
	}
	if _, err := readTotals(filepath.Join(dir, connectionsFile)); err == nil {
		t.Errorf("%s is read", connectionsFile)
	}
	if rules := newRulesFile(dir, slog.New(slog.DiscardHandler)).read(); rules != nil {
		t.Errorf("%s is read: %v", rulesName, rules)
	}
}
