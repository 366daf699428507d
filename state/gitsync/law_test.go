package gitsync

import (
	"context"
	"errors"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is pushed and whenever syncs are killed, what is published is always
// one whole tree, of a commit that may be published, and never one of before.
func TestPublishedIsAlwaysWhole(t *testing.T) {
	t.Parallel()
	plan := newWorld(t, t.TempDir())
	plan.commit(files{"web.yaml": "1"})
	steps := append(plan.steps(), "prune", "")
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(plan.origin+"/..", "run")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		h := &history{world: newWorld(t, dir), good: map[string]bool{}}
		h.push(rt)
		for range rapid.IntRange(2, 5).Draw(rt, "actions") {
			h.push(rt)
			h.attempt(rapid.SampledFrom(steps).Draw(rt, "killed at"))
		}
		h.git("reset", "-q", "--hard", h.mainline())
		id := h.commit(files{"web.yaml": "last", "bad.yaml": ""})
		h.good[id] = true
		h.mustSync()
		h.wantCurrent(id)
	})
}

// history is a world with what was pushed to it.
type history struct {
	*world
	pushed []string
	good   map[string]bool
	seen   string // what was last published
}

// push makes what somebody may push.
func (h *history) push(rt *rapid.T) {
	kind := "good"
	if len(h.pushed) > 0 {
		kind = rapid.SampledFrom([]string{"good", "good", "bad", "back", "forced", "nothing"}).Draw(rt, "push")
	}
	content := files{"web.yaml": rapid.StringMatching(`[a-z]{1,8}`).Draw(rt, "text"), "bad.yaml": ""}
	switch kind {
	case "nothing":
		return
	case "bad":
		content["bad.yaml"] = "unreadable"
	case "back", "forced":
		h.git("reset", "-q", "--hard", rapid.SampledFrom(h.pushed).Draw(rt, "to"))
		if kind == "back" {
			return
		}
	}
	id := h.commit(content)
	h.pushed = append(h.pushed, id)
	h.good[id] = kind != "bad"
}

// attempt syncs, up to a step at which all ends.
func (h *history) attempt(step string) {
	h.Helper()
	type end struct{}
	cfg := h.cfg
	cfg.at = func(s string) {
		if s == step {
			panic(end{})
		}
	}
	func() {
		defer func() {
			if r := recover(); r != nil && r != (end{}) {
				panic(r)
			}
		}()
		h.now = h.now.Add(60e9)
		if _, err := Sync(context.Background(), cfg, h.now); err != nil && !errors.As(err, new(*Refusal)) {
			h.Errorf("%v", err)
		}
	}()
	now := h.current()
	if now != "" && !h.good[now] {
		h.Errorf("%s is published", now)
	}
	if h.seen != "" && now != h.seen {
		h.git("merge-base", "--is-ancestor", h.seen, now)
	}
	h.seen = now
}

// mainline is where one may go on from.
func (h *history) mainline() string {
	if h.seen != "" {
		return h.seen
	}
	return h.pushed[0]
}
