package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pointsman/state/manifest"
)

// past is what this host served, as far as that decides what it may serve next.
// It outlives the process beside the last good objects.
type past struct {
	// States are those with Services, newest first, each once. The first was
	// served last.
	States []pastState `json:"states"`

	// Spent are the approvals that were there when the state changed, newest
	// first: they let no other change through.
	Spent []string `json:"spentApprovals,omitempty"`
}

type pastState struct {
	Hash   string `json:"hash"`
	Commit string `json:"commit,omitempty"`
}

const (
	// maxPast is the state in force and the ten before it.
	maxPast   = 11
	maxSpent  = 20
	pastBytes = 64 << 10 // that are read of the file
)

// with gives the past after a state is put in force.
func (p past) with(s pastState) past {
	p.States = front(p.States, s, maxPast, func(o pastState) bool { return o.Hash == s.Hash })
	return p
}

// without gives the past after an approval was there in vain, or not.
func (p past) without(approval string) past {
	p.Spent = front(p.Spent, approval, maxSpent, func(o string) bool { return o == approval })
	return p
}

// front puts an item before the others but those that are the same.
func front[T any](items []T, item T, most int, same func(T) bool) []T {
	out := append([]T{item}, slices.DeleteFunc(slices.Clone(items), same)...)
	return out[:min(len(out), most)]
}

// find gives the state of a hash, and whether it was served lately.
func (p past) find(hash string) (pastState, bool) {
	i := slices.IndexFunc(p.States, func(s pastState) bool { return s.Hash == hash })
	if i < 0 {
		return pastState{Hash: hash}, false
	}
	return p.States[i], true
}

// readPast reads the file in the state directory; one that isn't there is a
// host without a past, and so, with an error to be told, is one that is damaged.
func readPast(dir string) (past, error) {
	path := filepath.Join(dir, pastFile)
	f, err := manifest.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return past{}, nil
	}
	if err != nil {
		return past{}, err
	}
	defer f.Close()
	var p past
	data, err := io.ReadAll(io.LimitReader(f, pastBytes))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return past{}, fmt.Errorf("%s: %w", path, err)
	}
	p.States, p.Spent = p.States[:min(len(p.States), maxPast)], p.Spent[:min(len(p.Spent), maxSpent)]
	return p, nil
}

// write replaces the file.
func (p past) write(dir string) error {
	return manifest.ReplaceFile(filepath.Join(dir, pastFile), func(f *os.File) error { return writeJSON(f, p) })
}
