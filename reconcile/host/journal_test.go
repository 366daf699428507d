package host

import (
	"context"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

// journalled is a journal of a real kernel, with our program in it, and what
// the reconcile loop has beside it.
type journalled struct {
	*testing.T
	journal *Journal
	ledger  Ledger
	taken   []Change // all that were
}

const program = `
add table ip pointsman
add set ip pointsman cluster-ips { type ipv4_addr; }
add map ip pointsman endpoints { type ipv4_addr . inet_service : ipv4_addr . inet_service; }
add chain ip pointsman dispatch
add rule ip pointsman dispatch ip daddr @cluster-ips counter
add table ip6 pointsman
add set ip6 pointsman cluster-ips { type ipv6_addr; }
`

func journal(t *testing.T, bufferBytes int) *journalled {
	t.Helper()
	t.Cleanup(func() { nft(t, "flush ruleset") })
	nft(t, program+"add table ip other\nadd chain ip other c\nadd table inet pointsman")
	j, err := newJournal(bufferBytes, ours4, ours6)
	if err != nil {
		t.Fatal(err)
	}
	jt := &journalled{T: t, journal: j}
	jt.ledger.Known(jt.generation())
	return jt
}

func (j *journalled) generation() uint32 {
	j.Helper()
	g, err := Generation()
	if err != nil {
		j.Fatal(err)
	}
	return g
}

// own writes as the reconcile loop does.
func (j *journalled) own(script string) {
	j.Helper()
	before := j.generation()
	nft(j, script)
	j.ledger.Wrote(before, j.generation())
}

// verdict judges all that has happened so far.
func (j *journalled) verdict() Verdict {
	j.Helper()
	now := j.generation()
	var v Verdict
	await(j, j.journal.C(), "notifications", func() bool {
		changes, seen := j.journal.Take()
		j.taken = append(j.taken, changes...)
		v = append(v, j.ledger.Judge(changes, seen)...)
		return !later(now, seen)
	})
	return v
}

func (j *journalled) expect(what string, want4, want6 Touched) {
	j.Helper()
	v := j.verdict()
	if got4, got6 := v.Of(ours4), v.Of(ours6); got4 != want4 || got6 != want6 {
		j.Errorf("%s: ip %v, ip6 %v; want %v and %v: %v", what, got4, got6, want4, want6, v)
	}
}

// elements is a command with many elements, 10.0.0.0 and on.
func elements(command string, from, to int) string {
	var b strings.Builder
	b.WriteString(command + " element ip pointsman cluster-ips { ")
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "10.%d.%d.%d,", i>>16, i>>8&0xff, i&0xff)
	}
	return b.String() + " }\n"
}

func TestGenerationCountsTransactions(t *testing.T) {
	j := journal(t, journalBuffer)
	start(t, j.journal.Run)
	steps := []struct {
		script string
		adds   uint32
	}{
		{elements("add", 0, 5000), 1},
		{"add element ip pointsman cluster-ips { 10.0.0.1 }", 0}, // is there
		{"add table ip pointsman", 0},                            // as well
		{"add rule ip other c accept", 1},
		{"add table ip third; add table ip6 third; delete table ip third; delete table ip6 third", 1},
		{"flush set ip pointsman cluster-ips", 1},
		{"flush ruleset", 1},
		{"flush ruleset", 0},
		{program, 1},
	}
	for _, s := range steps {
		before := j.generation()
		nft(t, s.script)
		if got := j.generation() - before; got != s.adds {
			t.Errorf("%.60s: %d generations", s.script, got)
		}
	}
}

func TestGenerationOfAFailure(t *testing.T) {
	j := journal(t, journalBuffer)
	start(t, j.journal.Run)
	before := j.generation()
	out := run(t, "", "sh", "-c", "! nft 'add table ip third; delete table ip nowhere' 2>&1")
	if j.generation() != before {
		t.Errorf("a transaction that failed made a generation: %s", out)
	}
}

func TestJournalTellsForeignFromOwn(t *testing.T) {
	j := journal(t, journalBuffer)
	start(t, j.journal.Run)
	j.own(elements("add", 0, 5000))
	j.own("add rule ip pointsman dispatch accept")
	j.own("delete table ip6 pointsman; add table ip6 pointsman; add set ip6 pointsman cluster-ips { type ipv6_addr; }")
	j.expect("own writes", 0, 0)
	steps := []struct {
		foreign      string
		want4, want6 Touched
	}{
		{"add rule ip other c accept", 0, 0},
		{"flush chain ip other c", 0, 0},
		{"delete table inet pointsman", 0, 0},
		{"add element ip pointsman cluster-ips { 10.96.0.77 }", Elements, 0},
		{"delete element ip pointsman cluster-ips { 10.0.0.1 }", Elements, 0},
		{elements("delete", 1000, 4000), Elements, 0},
		{"flush set ip pointsman cluster-ips", Elements, 0},
		{"add element ip6 pointsman cluster-ips { fd00::1 }", 0, Elements},
		{"add rule ip pointsman dispatch drop", Program, 0},
		{"flush chain ip pointsman dispatch", Program, 0},
		{"add chain ip pointsman theirs", Program, 0},
		{"delete chain ip pointsman theirs", Program, 0},
		{"add set ip6 pointsman theirs { type mark; }", 0, Program},
		{"add counter ip pointsman theirs", Program, 0},
		{"add table ip pointsman { flags dormant; }", Program, 0},
		{"add table ip pointsman", Program, 0}, // not dormant any more
		{"delete table ip6 pointsman", 0, Program},
		{"flush ruleset", Program, 0},
		{"flush ruleset\n" + program, Program, Program},
	}
	for _, s := range steps {
		nft(t, s.foreign)
		if s.foreign == "flush ruleset" {
			j.own(program)
		}
		j.expect(s.foreign, s.want4, s.want6)
	}
}

func TestJournalNamesTheWriter(t *testing.T) {
	j := journal(t, journalBuffer)
	start(t, j.journal.Run)
	nft(t, "delete table ip pointsman")
	nft(t, program)
	v := j.verdict()
	if len(v) != 2 || v[0].Process != "nft" || v[0].PID == 0 || v[0].PID == v[1].PID {
		t.Fatalf("verdict %v", v)
	}
	if v[0].Tables[ours4] != Program|Deleted || v[1].Tables[ours4] != Program|Created {
		t.Errorf("touched %v and %v", v[0].Tables, v[1].Tables)
	}
	if want := fmt.Sprintf("changed by nft (pid %d), generation %d", v[0].PID, v[0].Last); v[0].String() != want {
		t.Errorf("%q", v[0].String())
	}
}

// Changes and our own writes in any order, and notifications taken late.
func TestJournalReadLate(t *testing.T) {
	j := journal(t, journalBuffer)
	for i := range 20 {
		j.own(elements("add", i*100, i*100+100))
		nft(t, "add rule ip other c accept")
		if i == 7 {
			nft(t, elements("delete", 0, 50))
		}
		j.own(elements("delete", i*100+50, i*100+100))
	}
	foreign := j.generation()
	start(t, j.journal.Run)
	v := j.verdict()
	if len(v) != 1 || v.Of(ours4) != Elements || !later(foreign, v[0].Last) {
		t.Errorf("verdict %v", v)
	}
}

// Others write their own tables all the time, also during our writes.
func TestJournalAmongBusyOthers(t *testing.T) {
	j := journal(t, journalBuffer)
	start(t, j.journal.Run)
	stop := busyOther(t)
	shared := 0
	for i := range 40 {
		before := j.generation()
		j.own(elements("add", i*1000, i*1000+1000))
		if j.generation() != nextGeneration(before) {
			shared++
		}
	}
	j.expect("others' tables", 0, 0)
	nft(t, elements("delete", 0, 1))
	j.expect("ours among them", Elements, 0)
	stop()
	t.Logf("%d of 40 writes were not alone", shared)
}

// busyOther changes another table until it is stopped.
func busyOther(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, script := range []string{"add rule ip other c accept", "flush chain ip other c"} {
				if out, err := exec.Command("nft", script).CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", script, err, out)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// A write of ours and another's of our tables, in the same moments.
func TestJournalWriteWithinOurs(t *testing.T) {
	j := journal(t, journalBuffer)
	start(t, j.journal.Run)
	before := j.generation()
	nft(t, "add element ip pointsman cluster-ips { 10.96.0.1 }")
	nft(t, "add rule ip other c accept")
	nft(t, "add element ip6 pointsman cluster-ips { fd00::1 }")
	j.ledger.Wrote(before, j.generation())
	j.expect("whichever was ours", Elements, Elements)
}

func TestJournalRunsChangesTogether(t *testing.T) {
	j := &Journal{signal: make(chan struct{}, 1)}
	for i := range uint32(journalLength + 500) {
		g := i*2 + 1
		j.publish([]Change{changed(g, map[Table]Touched{ours4: Elements})}, g)
	}
	j.publish([]Change{changed(5001, map[Table]Touched{ours6: Program})}, 5002)
	changes, seen := j.Take()
	want := Change{
		First: 2*journalLength - 1, Last: 5001, Count: 502, Process: "nft", PID: 7,
		Tables: map[Table]Touched{ours4: Elements, ours6: Program},
	}
	if len(changes) != journalLength || seen != 5002 || !reflect.DeepEqual(changes[journalLength-1], want) {
		t.Errorf("%d changes, the last %+v", len(changes), changes[len(changes)-1])
	}
	if more, _ := j.Take(); more != nil || !signalled(j.C()) || signalled(j.C()) {
		t.Error("taken twice")
	}
}
