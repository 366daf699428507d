package main

import (
	"fmt"
	"strings"

	"pointsman/state/manifest"
)

// inForce is what this host serves, as it's shown. It's immutable.
type inForce struct {
	result *manifest.Result
	state  pastState
	past   past
	kept   string      // why it isn't what the directory means; empty if it is
	held   *heldChange // which is then why
}

// text names what is served so that hosts can be compared: it's gossiped. See
// readServes.
func (f *inForce) text() string {
	words := []string{f.state.Hash}
	if f.state.Commit != "" {
		words = append(words, f.state.Commit)
	}
	if n := len(f.result.Stale); n > 0 {
		words = append(words, fmt.Sprintf("+%d stale", n))
	}
	switch {
	case f.held != nil:
		words = append(words, "held")
	case f.kept != "":
		words = append(words, "kept")
	}
	return strings.Join(words, " ")
}

// serves is what a host says that it serves.
type serves struct {
	hash   string
	commit string // in full; empty where the host doesn't know
	stale  string // such as +3 stale
	held   bool   // a change is held
	kept   bool   // its directory can't be read, or has nothing in it
}

// readServes reads what another host has gossiped. What it can't make out, of a
// later release, it leaves out.
func readServes(text string) (s serves) {
	words := strings.Fields(text)
	for i, w := range words {
		switch {
		case i == 0:
			s.hash = w
		case manifest.IsCommit(w):
			s.commit = w
		case w == "stale":
			s.stale = words[i-1] + " stale"
		case w == "held":
			s.held = true
		case w == "kept":
			s.kept = true
		}
	}
	return s
}

// state gives the hash, and how much of it is stale.
func (s serves) state() string { return strings.TrimSpace(s.hash + " " + s.stale) }

// compare says how what another host serves relates to what this one does: it's
// behind if it serves what this one did before. Empty for the same, and for a
// host that says nothing.
func (f *inForce) compare(o serves) string {
	if o.hash == "" || o.hash == f.state.Hash {
		return ""
	}
	if _, lately := f.past.find(o.hash); lately {
		return "behind"
	}
	return "differs"
}
