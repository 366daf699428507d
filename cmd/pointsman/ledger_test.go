package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state/change"
	"pointsman/state/manifest"
)

// tellers tell what manifests mean, each state once: what a ledger is told needs
// no reading.
type tellers struct{ known map[string]*manifest.Result }

func newTellers() *tellers { return &tellers{map[string]*manifest.Result{}} }

// state gives what some Services mean, of which each has a revision that its
// affinity's time tells, with an approval if there's a text of one.
func (l *tellers) state(services []int, revision int, approval string) *manifest.Result {
	key := fmt.Sprint(services, revision)
	if l.known[key] == nil {
		var files []*manifest.File
		for _, i := range services {
			name := fmt.Sprintf("s%03d", i)
			text := service(name, fmt.Sprintf("clusterIP: 10.96.1.%d, ports: [{port: 80}], "+
				"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: %d}}", i, 1+revision)) + "\n---\n" +
				slice(name+"/1", "{port: 8080}", fmt.Sprintf("10.20.1.%d", i))
			files = append(files, &manifest.File{Path: name + ".yaml", Data: []byte(text)})
		}
		l.known[key] = read(files...)
	}
	if approval == "" {
		return l.known[key]
	}
	r := *l.known[key]
	r.Approval = read(&manifest.File{Path: manifest.ApprovalFile, Data: []byte(approval)}).Approval
	return &r
}

func read(files ...*manifest.File) *manifest.Result {
	return manifest.NewLoader(manifest.Config{NodePortFirst: 30000, NodePortLast: 32767}, "").Load(manifest.NewSnapshot(files))
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

func hashOf(r *manifest.Result) string { return manifest.HashText(r.Hash()) }

const commitX, commitY, commitZ = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222", "3333333333333333333333333333333333333333"

var thirty = change.Limits{Percent: 30}

// noon is any moment.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// holding gives a ledger that serves 40 Services and holds the change to 20.
func holding(t *testing.T) (l *ledger, m *tellers, full, half *manifest.Result) {
	t.Helper()
	m = newTellers()
	l = newLedger("n1", thirty, past{})
	full, half = m.state(upTo(40), 0, ""), m.state(upTo(20), 0, "")
	if !l.offer(full, commitX, noon) {
		t.Fatal("the first state is held")
	}
	if l.offer(half, commitY, noon) || l.served != full || l.held == nil {
		t.Fatal("half of all goes and nothing is held")
	}
	return l, m, full, half
}

func TestLedgerHolds(t *testing.T) {
	l, m, full, half := holding(t)
	text := l.held.String() + "; " + l.held.release()
	for _, want := range []string{hashOf(half), commitY, "20 of 40 Services would go", "20 of 40 endpoints would go", "pointsman approve " + hashOf(half), "from: " + hashOf(full)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if l.offer(half, commitZ, noon.Add(time.Hour)) || l.held.to.Commit != commitZ || !l.held.since.Equal(noon) {
		t.Errorf("the same change by another commit: %+v", l.held)
	}
	some := m.state(upTo(35), 0, "")
	if !l.offer(some, commitZ, noon) || l.held != nil || l.served != some {
		t.Error("another change isn't judged by itself")
	}
}

func TestLedgerReturns(t *testing.T) {
	l, m, full, half := holding(t)
	if !l.offer(full, commitX, noon) || l.held != nil {
		t.Error("what is served is held, or still something else")
	}
	l.offer(half, commitY, noon)
	if _, err := l.approve(hashOf(half)); err != nil {
		t.Fatal(err)
	}
	if !l.offer(full, commitX, noon) || !l.offer(half, commitZ, noon) {
		t.Error("a return is held")
	}
	for i := range maxPast {
		l.offer(m.state(upTo(20), i+1, ""), commitX, noon)
	}
	if l.offer(full, commitX, noon); l.held != nil {
		t.Errorf("an addition is held: %s", l.held)
	}
	if l.offer(m.state(upTo(20), 0, ""), commitY, noon) {
		t.Error("what was served twelve states ago passes as lately served")
	}
}

// Everything may have gone once, and for a reason; the next time is another.
func TestLedgerEmptyIsNoReturn(t *testing.T) {
	m := newTellers()
	l := newLedger("n1", thirty, past{})
	none, few := m.state(nil, 0, ""), m.state(upTo(3), 0, "")
	for range 2 {
		if !l.offer(few, "", noon) || l.offer(none, "", noon) {
			t.Fatalf("three Services come, or go, and %v is held", l.held)
		}
		if _, err := l.approve(hashOf(none)); err != nil {
			t.Fatal(err)
		}
	}
	allowing := newLedger("n1", change.Limits{Percent: 30, AllowEmpty: true}, past{})
	if !allowing.offer(few, "", noon) || !allowing.offer(none, "", noon) {
		t.Error("--allow-empty doesn't")
	}
}

func TestLedgerApprove(t *testing.T) {
	for name, want := range map[string]string{
		"":          "is not what is held",
		commitX:     "is not what is held",
		commitY[:6]: "the first digits of its commit, 7 at least",
		commitY[:7]: "",
		commitY:     "",
		"half":      "",
		"full":      "is not what is held",
	} {
		l, _, full, half := holding(t)
		switch name {
		case "half":
			name = hashOf(half)
		case "full":
			name = hashOf(full)
		}
		r, err := l.approve(name)
		if want == "" && (err != nil || r != half || l.served != half || l.held != nil) {
			t.Errorf("%q: %v, serves %d", name, err, len(l.served.Services))
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || l.served != full) {
			t.Errorf("%q: %v", name, err)
		}
		if want == "" {
			if _, err := l.approve(name); err == nil {
				t.Errorf("%q approves twice", name)
			}
		}
	}
}

func TestLedgerApprovalFile(t *testing.T) {
	_, _, full, half := holding(t)
	for text, want := range map[string]bool{
		"from: " + commitX:                             true,
		"from: " + commitX[:7]:                         true,
		"from: " + hashOf(full):                        true,
		"to: " + hashOf(half):                          true,
		"from: " + commitX + "\nto: " + hashOf(half):   true,
		"from: " + commitX + "\nto: " + hashOf(full):   false,
		"from: " + commitY + "\nto: " + hashOf(half):   false,
		"from: " + commitY:                             false,
		"from: " + hashOf(half):                        false,
		"to: " + hashOf(full):                          false,
		"form: " + commitX:                             false,
		"reason: because":                              false,
		"from: [" + commitX + "]":                      false,
		"from: " + commitX + "\n---\nfrom: " + commitX: false,
	} {
		l, m, _, _ := holding(t)
		if got := l.offer(m.state(upTo(20), 0, text), commitZ, noon); got != want {
			t.Errorf("%q: let through %v, want %v", text, got, want)
		}
	}
}

// Who wrote an approve.yaml that lets nothing through is told why.
func TestLedgerSaysWhyNotApproved(t *testing.T) {
	_, _, full, _ := holding(t)
	for text, want := range map[string]string{
		"":                    "",
		"from: " + commitY:    " (the one that is there doesn't: it's from " + commitY + ", and this host serves ",
		"to: " + hashOf(full): " (the one that is there doesn't: it's to " + hashOf(full) + ", and this change is to ",
	} {
		l, m, _, _ := holding(t)
		l.offer(m.state(upTo(20), 0, text), commitZ, noon)
		if _, why, _ := strings.Cut(l.held.release(), "\""); !strings.Contains(why, want) || want == "" && strings.Contains(why, "(") {
			t.Errorf("%q: %s", text, l.held.release())
		}
	}
	l, m, full, _ := holding(t)
	text := "from: " + hashOf(full)
	l.offer(m.state(upTo(20), 0, text), commitY, noon)
	l.offer(m.state(upTo(1), 0, text), commitZ, noon)
	if l.held == nil || !strings.Contains(l.held.release(), "it's spent") {
		t.Errorf("held: %v", l.held)
	}
}

// A forgotten approve.yaml lets nothing else through, though the host is back at
// what it's from: neither after a restart.
func TestLedgerApprovalIsSpent(t *testing.T) {
	l, m, full, half := holding(t)
	text := "from: " + hashOf(full)
	if !l.offer(m.state(upTo(20), 0, text), commitY, noon) {
		t.Fatal("not let through")
	}
	dir := t.TempDir()
	if err := l.past.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*ledger{l, newLedger("n1", thirty, must[past](t)(readPast(dir)))} {
		if !l.offer(m.state(upTo(40), 0, text), commitX, noon) || !l.offer(m.state(upTo(20), 0, text), commitY, noon) || !l.offer(m.state(upTo(40), 0, text), commitX, noon) {
			t.Fatal("returns are held")
		}
		if l.offer(m.state(upTo(19), 0, text), commitZ, noon) {
			t.Error("one approval has let two changes through")
		}
		if !l.offer(m.state(upTo(19), 0, text+"\nreason: another one"), commitZ, noon) {
			t.Error("another approval is spent, too")
		}
	}
	_ = half
}

// A file that comes before its change isn't spent by a restart between.
func TestLedgerApprovalAhead(t *testing.T) {
	m := newTellers()
	l := newLedger("n1", thirty, past{})
	full := m.state(upTo(40), 0, "")
	l.offer(full, commitX, noon)
	text := "from: " + hashOf(full)
	again := newLedger("n1", thirty, l.past)
	if !again.offer(m.state(upTo(40), 0, text), commitY, noon) || !again.offer(m.state(upTo(20), 0, text), commitZ, noon) {
		t.Errorf("%v is held", again.held)
	}
}

func TestLedgerRestart(t *testing.T) {
	l, m, full, half := holding(t)
	again := newLedger("n1", thirty, l.past)
	if again.follows(hashOf(half)) || !again.follows(hashOf(full)) {
		t.Error("it isn't known what was served last")
	}
	again.restore(full)
	if again.state.Commit != commitX || again.offer(half, commitY, noon) {
		t.Errorf("after a restart all goes through; from %s", again.state)
	}
	fresh := newLedger("n2", thirty, past{})
	if !fresh.offer(m.state(upTo(1), 0, ""), commitY, noon) {
		t.Error("the first state of a host is held")
	}
}

// move is something that happens to a host in a property test.
type move struct {
	services []int
	revision int
	approval string
	commit   string
	approve  string // by pointsman approve, before
	restart  bool
}

func drawEvents(t *rapid.T, m *tellers) []move {
	commits := []string{"", commitX, commitY, commitZ}
	var out []move
	hashes := []string{"0000000000000000"}
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		e := move{services: upTo(rapid.SampledFrom([]int{0, 1, 11, 12, 20, 39, 40}).Draw(t, "services")),
			revision: rapid.IntRange(0, 2).Draw(t, "revision"), commit: rapid.SampledFrom(commits).Draw(t, "commit"),
			restart: rapid.IntRange(0, 4).Draw(t, "restart") == 0}
		hashes = append(hashes, hashOf(m.state(e.services, e.revision, "")))
		names := slices.Concat(hashes, commits[1:])
		e.approve = rapid.SampledFrom(append(names, "")).Draw(t, "approve")
		e.approval = rapid.SampledFrom([]string{"", "from: %s", "to: %s", "form: %s"}).Draw(t, "approval")
		if e.approval != "" {
			e.approval = fmt.Sprintf(e.approval, rapid.SampledFrom(names).Draw(t, "named"))
		}
		out = append(out, e)
	}
	return out
}

// host is a ledger with its state directory.
type testHost struct {
	*ledger
	m *tellers
}

// play makes an event happen, and gives what is then told of the host.
func (h *testHost) play(e move) string {
	if e.approve != "" {
		_, _ = h.approve(e.approve)
	}
	if e.restart {
		text, _ := json.Marshal(h.past)
		var p past
		_ = json.Unmarshal(text, &p)
		served := h.served
		h.ledger = newLedger("n1", thirty, p)
		if served != nil && len(served.Services) > 0 {
			h.restore(served)
		}
	}
	through := h.offer(h.m.state(e.services, e.revision, e.approval), e.commit, noon)
	return fmt.Sprint(through, h.state, h.held)
}

// Hosts that see the same decide alike; what is held never changes what is
// served; and nothing that takes too much away gets through but by what names
// it.
func TestLedgerLaws(t *testing.T) {
	// Two hosts have read the same files, each by itself.
	mine, others := newTellers(), newTellers()
	rapid.Check(t, func(t *rapid.T) {
		one, other := &testHost{newLedger("n1", thirty, past{}), mine}, &testHost{newLedger("n1", thirty, past{}), others}
		spent := map[string]bool{}
		for _, e := range drawEvents(t, mine) {
			before, from, held, p := one.served, one.state, one.held, one.past
			if a, b := one.play(e), other.play(e); a != b {
				t.Fatalf("one host says %s, another %s", a, b)
			}
			if held != nil && manifest.Names(e.approve, held.to.Hash, held.to.Commit) {
				before, from, p = held.result, held.to, p.with(held.to)
			}
			if one.held != nil && !e.restart && (one.served != before || one.state != from) {
				t.Fatalf("%s is held, and %s is served instead of %s", one.held, one.state, from)
			}
			lawful(t, one, e, before, from, p, spent)
		}
	})
}

// lawful fails if an event has let through what it must not.
func lawful(t *rapid.T, h *testHost, e move, before *manifest.Result, from pastState, p past, spent map[string]bool) {
	_, lately := p.find(h.state.Hash)
	if h.held != nil || before == nil || len(before.Services) == 0 || h.state.Hash == from.Hash || lately {
		return
	}
	v := change.Judge(before.Services, h.served.Services, "n1", thirty)
	if !v.Held() {
		return
	}
	kind, name, _ := strings.Cut(e.approval, ": ")
	named := kind == "from" && manifest.Names(name, from.Hash, from.Commit) || kind == "to" && name == h.state.Hash
	if !named || spent[e.approval] {
		t.Fatalf("%q (spent: %v) has let the change from %s to %s through", e.approval, spent[e.approval], from, h.state)
	}
	spent[e.approval] = true
}

func TestReadPast(t *testing.T) {
	dir := t.TempDir()
	if p, err := readPast(dir); err != nil || len(p.States) > 0 {
		t.Errorf("a host without a past has %+v, %v", p, err)
	}
	p := past{}
	for i := range 30 {
		p = p.with(pastState{Hash: fmt.Sprint(i), Commit: commitX}).without(fmt.Sprint(i))
	}
	if err := p.write(dir); err != nil {
		t.Fatal(err)
	}
	got := must[past](t)(readPast(dir))
	if !reflect.DeepEqual(got, p) || len(got.States) != maxPast || len(got.Spent) != maxSpent || got.States[0].Hash != "29" {
		t.Errorf("%+v, want %+v", got, p)
	}
	for _, text := range []string{"", "{", "[]", `{"states":7}`, strings.Repeat(" ", pastBytes) + "{}"} {
		if err := os.WriteFile(filepath.Join(dir, pastFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := readPast(dir); err == nil || len(p.States) > 0 {
			t.Errorf("%.20q is read as %+v", text, p)
		}
	}
}

func TestServes(t *testing.T) {
	m := newTellers()
	full := m.state(upTo(3), 0, "")
	f := &inForce{result: full, state: pastState{hashOf(full), commitX}, past: past{States: []pastState{{Hash: hashOf(full)}, {Hash: "0123456789abcdef"}}}}
	held := *f
	held.held, held.kept = &heldChange{}, "held"
	kept := *f
	kept.kept, kept.state.Commit = "gone", ""
	for text, want := range map[string]serves{
		f.text():                         {hash: hashOf(full), commit: commitX},
		held.text():                      {hash: hashOf(full), commit: commitX, held: true},
		kept.text():                      {hash: hashOf(full), kept: true},
		"0123456789abcdef +3 stale":      {hash: "0123456789abcdef", stale: "+3 stale"},
		"0123456789abcdef new words 7":   {hash: "0123456789abcdef"},
		"":                               {},
		"stale":                          {hash: "stale"},
		"0123456789abcdef stale " + "ab": {hash: "0123456789abcdef", stale: "0123456789abcdef stale"},
	} {
		if got := readServes(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for hash, want := range map[string]string{hashOf(full): "", "": "", "0123456789abcdef": "behind", "fedcba9876543210": "differs"} {
		if got := f.compare(serves{hash: hash}); got != want {
			t.Errorf("%q: %q, want %q", hash, got, want)
		}
	}
}

// What others serve is told apart from what this host does, by name.
func TestNodesSayWhoIsBehind(t *testing.T) {
	own := &inForce{result: newTellers().state(upTo(3), 0, ""), state: pastState{"1111111111111111", commitX},
		past: past{States: []pastState{{Hash: "1111111111111111"}, {Hash: "0123456789abcdef"}}}}
	a := &nodesAnswer{Self: "n1"}
	for _, c := range []struct{ name, says, serves, notes string }{
		{"n1", "what it said a moment ago", "1111111111111111", "this host"},
		{"n2", "1111111111111111 " + commitX, "1111111111111111", ""},
		{"n3", "0123456789abcdef " + commitY + " +2 stale held", "0123456789abcdef +2 stale", "behind, holds a change"},
		{"n4", "fedcba9876543210 kept", "fedcba9876543210", "differs, keeps a last state"},
		{"n5", "", "", ""},
	} {
		n := nodeAnswer{Name: c.name}
		n.serve(c.says, c.name == a.Self, own)
		row := nodeRows(&nodesAnswer{Self: a.Self, Nodes: []nodeAnswer{n}})[0]
		if got := strings.Join(row.notes(), ", "); got != c.notes || n.Serves != c.serves {
			t.Errorf("%s: %q, notes %q; want %q, %q", c.name, n.Serves, got, c.serves, c.notes)
		}
	}
}
