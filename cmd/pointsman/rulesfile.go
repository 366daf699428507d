package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"pointsman/reconcile"
	"pointsman/state/manifest"
)

// rulesFile keeps what the chains had when they were written last, in the state
// directory: rules that somebody replaces while no agent runs are found by it at
// the next start. Without the file, or with that of other days, the worst is that
// rules are believed, or are written anew once.
type rulesFile struct {
	path   string
	log    *slog.Logger
	latest atomic.Pointer[reconcile.Rules]
	news   chan struct{}
	failed bool // the last try to save
}

const rulesName = "rules.json"

// rulesBytes bounds the file: some hundred chains have a line.
const rulesBytes = 4 << 20

func newRulesFile(stateDir string, log *slog.Logger) *rulesFile {
	return &rulesFile{path: filepath.Join(stateDir, rulesName), log: log, news: make(chan struct{}, 1)}
}

// read gives what was written last; nothing where that can't be read.
func (r *rulesFile) read() (rules reconcile.Rules) {
	f, err := manifest.OpenRegular(r.path)
	if err == nil {
		defer f.Close()
		err = json.NewDecoder(io.LimitReader(f, rulesBytes)).Decode(&rules)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("what the chains had can't be read: it's learnt anew", "error", fmt.Errorf("%s: %w", r.path, err))
		return nil
	}
	return rules
}

// written is told by the loop, which doesn't wait for a disk.
func (r *rulesFile) written(rules reconcile.Rules) {
	r.latest.Store(&rules)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// run writes the file whenever there's news, and what could not be written again
// after a while.
func (r *rulesFile) run(ctx context.Context) error {
	again := time.NewTimer(saveAgain)
	again.Stop()
	for {
		select {
		case <-ctx.Done():
			if len(r.news) > 0 {
				r.save()
			}
			return nil
		case <-r.news:
		case <-again.C:
		}
		if !r.save() {
			again.Reset(saveAgain)
		}
	}
}

// save reports whether it could. That it can't is told once.
func (r *rulesFile) save() bool {
	err := manifest.ReplaceFile(r.path, func(f *os.File) error { return json.NewEncoder(f).Encode(r.latest.Load()) })
	if err != nil && !r.failed {
		r.log.Warn("what the chains have could not be saved: rules that are replaced while no agent runs may not be found",
			"error", err, "retry", saveAgain)
	}
	r.failed = err != nil
	return !r.failed
}
