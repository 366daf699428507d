package host

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestJournalOverflow(t *testing.T) {
	tests := map[string]struct {
		foreign string
		want    Touched
	}{
		"own writes alone":  {"", 0},
		"others' as well":   {"add rule ip other c accept", Program}, // it might have been any
		"others', of ours":  {elements("delete", 0, 5), Program},
		"the whole is gone": {"flush ruleset\n" + program, Program},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := journal(t, 1)
			j.own(elements("add", 0, 2000))
			if tt.foreign != "" {
				nft(t, tt.foreign)
			}
			j.own(elements("add", 2000, 4000))
			last := j.generation()
			start(t, j.journal.Run)
			v := j.gap(last)
			if v.Of(ours4) != tt.want {
				t.Errorf("verdict %v", v)
			}
			// The kernel's buffer is as small as before: only a write as
			// small can be seen whole.
			nft(t, "add element ip pointsman cluster-ips { 10.99.9.9 }")
			await(t, j.journal.C(), "a change after the gap", func() bool {
				changes, _ := j.journal.Take()
				return len(changes) == 1 && changes[0].Tables[ours4] == Elements
			})
		})
	}
}

// gap waits until the journal has recovered from an overflow.
func (j *journalled) gap(last uint32) (v Verdict) {
	found := false
	await(j, j.journal.C(), "recovery", func() bool {
		changes, seen := j.journal.Take()
		for _, c := range changes {
			found = found || c.Lost
		}
		v = append(v, j.ledger.Judge(changes, seen)...)
		return !later(last, seen)
	})
	if !found {
		j.Error("no gap was recorded")
	}
	return v
}

// The first load of a large host must fit the kernel's buffer even if nobody
// reads meanwhile.
func TestJournalHoldsALoad(t *testing.T) {
	j := journal(t, journalBuffer)
	j.own(elements("add", 0, 50000))
	j.own(elements("add", 50000, 100000))
	began := time.Now()
	start(t, j.journal.Run)
	j.expect("our load", 0, 0)
	t.Logf("read after %v", time.Since(began))
	for _, c := range j.taken {
		if c.Lost || !reflect.DeepEqual(c.Tables, map[Table]Touched{ours4: Elements}) {
			t.Errorf("change %+v", c)
		}
	}
}

// A watcher that missed events reads.
func TestWatcherOverflow(t *testing.T) {
	events, err := subscribe(unix.NETLINK_ROUTE, 1, unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher(0, Read)
	w.events = events
	veth(t, "pma", "pmb")
	ip(t, "addr add 192.0.2.10/24 dev pma")
	for range 10 {
		ip(t, "link set pma up", "link set pma down")
	}
	start(t, w.Run)
	await(t, w.C(), "the address", func() bool { return w.Latest().Has(netip.MustParseAddr("192.0.2.10")) })
}

// A subscriber that lags behind is told, once, and goes on.
func TestOverflowIsReported(t *testing.T) {
	s, err := subscribe(unix.NETLINK_ROUTE, 1, unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	veth(t, "pma", "pmb")
	ip(t, "link set pma up", "link set pma down", "link set pma up", "link set pma down")
	if _, err := s.receive(true); !errors.Is(err, errOverflow) {
		t.Fatalf("got %v", err)
	}
	for err = nil; err == nil; {
		_, err = s.receive(false)
	}
	if !errors.Is(err, errEmpty) {
		t.Fatalf("after the overflow: %v", err)
	}
	ip(t, "link set pma up")
	if _, err = s.receive(true); err != nil {
		t.Errorf("the next notification: %v", err)
	}
}
