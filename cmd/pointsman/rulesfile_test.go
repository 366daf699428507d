package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"pointsman/reconcile"
	"pointsman/reconcile/nft"
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

// What couldn't be saved is tried again, without news.
func TestRulesFileTriesAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		r := newRulesFile(dir, slog.New(slog.DiscardHandler))
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go r.run(ctx)
		want := reconcile.Rules{nft.IPv4: nft.Prints{}}
		r.written(want)
		time.Sleep(saveAgain / 2)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(saveAgain)
		if got := r.read(); len(got) != len(want) {
			t.Errorf("saved: %v", got)
		}
	})
}
