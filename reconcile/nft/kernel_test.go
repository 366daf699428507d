package nft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func many(services int) *Table {
	var groups []*Group
	for n := range services {
		groups = append(groups, service(n+1, 4), single("vips", fmt.Sprintf("10.0.0.%d", n+1)))
	}
	return tableOf(append(groups, single("ranges", "10.9.0.0/16"))...)
}

// addedGroups gives the groups whose elements a transaction adds, and fails if
// one of them is there in part.
func addedGroups(t *testing.T, lines []string, want *Table) (ids []string) {
	t.Helper()
	count := map[string]int{}
	for _, line := range lines {
		fields := strings.Fields(line) // add element ip pointsman <set> { <key> ...
		if fields[0] != "add" || fields[1] != "element" {
			continue
		}
		key, _, _ := strings.Cut(strings.Join(fields[6:len(fields)-1], " "), " :")
		set := want.Sets[slices.IndexFunc(want.Sets, func(s Set) bool { return s.Name == fields[4] })]
		id := set.GroupID(key)
		if count[id]++; count[id] == 1 {
			ids = append(ids, id)
		}
	}
	for id, n := range count {
		if n != len(*want.Groups[id]) {
			t.Errorf("%d of %d elements of %s in one transaction", n, len(*want.Groups[id]), id)
		}
	}
	return ids
}

func TestChunks(t *testing.T) {
	f := newFake()
	k := f.kernel()
	k.max = 20
	want := many(10)
	var told []int
	k.Watch(func(done, total int) {
		if total != want.Elements() {
			t.Errorf("told of %d elements", total)
		}
		told = append(told, done)
	})
	stats := mustSync(t, k, want)
	if !slices.IsSorted(told) || len(told) != 5 || told[0] != 0 || told[4] != want.Elements() {
		t.Errorf("told: %v", told)
	}
	if stats.Elements != want.Elements() || !stats.Created || stats.Transactions != 4 {
		t.Errorf("stats: %+v", stats)
	}
	var ids []string
	for i, lines := range f.lines() {
		if added := addedGroups(t, lines, want); len(added) > 0 {
			ids = append(ids, added...)
		} else {
			t.Errorf("transaction %d adds no elements: %q", i+1, lines)
		}
	}
	if ids[0] != "ranges 10.9.0.0/16" || len(ids) != len(want.Groups) {
		t.Errorf("order of loading: %q", ids)
	}
	if !slices.IsSortedFunc(ids[1:], func(a, b string) int {
		return strings.Compare(strings.TrimPrefix(a, "vips "), strings.TrimPrefix(b, "vips "))
	}) {
		t.Errorf("order of loading: %q", ids)
	}
	if n := len(k.Spans()); n != 4 {
		t.Errorf("%d spans", n)
	}
}

// TestChunksOfChanges: so are changes and removals. A group is never there in
// part, and chains go last.
func TestChunksOfChanges(t *testing.T) {
	f := newFake()
	k := f.kernel()
	k.max = 20
	mustSync(t, k, many(10))
	fewer := tableOf(service(1, 3), service(2, 3), service(3, 3), single("vips", "10.0.0.1"))
	mustSync(t, k, fewer)
	mustSync(t, k, tableOf(service(1, 3), single("vips", "10.0.0.1"))) // pick-4 goes
	f.lines()
	if s := mustSync(t, k, many(10)); s.Transactions != 4 || s.Elements != 3+9*5+9+1 {
		t.Errorf("stats: %+v", s)
	}
	for _, lines := range f.lines() {
		ops := map[string]map[string]bool{} // the groups by what is done with their elements
		for _, line := range lines {
			fields := strings.Fields(line)
			if fields[1] == "element" && fields[4] == "services" {
				if ops[fields[0]] == nil {
					ops[fields[0]] = map[string]bool{}
				}
				ops[fields[0]][fields[6]] = true
			}
		}
		for id := range ops["delete"] {
			if !ops["add"][id] {
				t.Errorf("the service on %s is gone for a while", id)
			}
		}
	}
	if s := mustSync(t, k, tableOf()); s.Transactions != 4 {
		t.Errorf("all go: %+v", s)
	}
	if last := f.lines()[3]; !slices.Contains(last, "delete chain ip pointsman pick-3") {
		t.Errorf("the last transaction: %q", last)
	}
}

// TestOneLargeGroup: a group larger than a transaction should be goes in one
// of its own.
func TestOneLargeGroup(t *testing.T) {
	f := newFake()
	k := f.kernel()
	k.max = 2
	want := tableOf(service(1, 4), service(2, 4))
	if stats := mustSync(t, k, want); stats.Transactions != 2 {
		t.Errorf("stats: %+v", stats)
	}
	for _, lines := range f.lines() {
		addedGroups(t, lines, want)
	}
}

// TestFailureInTheMiddle: what a chunk that failed would have brought is found
// missing and sent by the next Sync; what is there already isn't sent again.
func TestFailureInTheMiddle(t *testing.T) {
	f := newFake()
	k := f.kernel()
	k.max = 20
	f.fail = func(n int) error {
		if n == 3 {
			return errors.New("segmentation fault")
		}
		return nil
	}
	want := many(10)
	first, err := k.Sync(context.Background(), want)
	if err == nil || !strings.Contains(err.Error(), "table ip pointsman: segmentation fault") {
		t.Fatalf("error: %v", err)
	}
	if first.Transactions != 2 || len(k.Spans()) != 2 {
		t.Errorf("stats: %+v", first)
	}
	if k.Group("vips 10.0.0.1") != nil {
		t.Error("something is remembered")
	}
	sent := f.lines()
	second := mustSync(t, k, want)
	if second.Created || second.Rewritten {
		t.Errorf("stats: %+v", second)
	}
	total := 0
	for _, lines := range append(sent, f.lines()...) {
		total += len(addedGroups(t, lines, want))
	}
	if total != len(want.Groups) {
		t.Errorf("%d groups were sent, there are %d", total, len(want.Groups))
	}
}

// TestLastResort: after some failures in a row the table is replaced as a
// whole; if that fails as well, ordinary attempts come between.
func TestLastResort(t *testing.T) {
	f := newFake()
	k := f.kernel()
	mustSync(t, k, many(2))
	f.lines()
	var attempts []bool // whether it was a replacement
	k.nft = interceptor{f, func(text string) error {
		attempts = append(attempts, strings.Contains(text, "delete table"))
		if len(attempts) < 7 {
			return errors.New("device or resource busy")
		}
		return nil
	}}
	want := many(3)
	for range 6 {
		if _, err := k.Sync(context.Background(), want); err == nil {
			t.Fatal("no error")
		}
	}
	stats := mustSync(t, k, want)
	if !slices.Equal(attempts, []bool{false, false, false, true, false, false, true}) {
		t.Errorf("replacements: %v", attempts)
	}
	if stats.Elements != want.Elements() || stats.Transactions != 1 || !stats.Rewritten {
		t.Errorf("stats: %+v", stats)
	}
	if s := mustSync(t, k, want); s != (Stats{}) {
		t.Errorf("applied again, it sent %+v", s)
	}
	k.Forget(false)
	if s := mustSync(t, k, want); s != (Stats{}) {
		t.Errorf("after a restart it sent %+v", s)
	}
}

// TestReadBack: an error of the reader is an error, never an empty table.
func TestReadBack(t *testing.T) {
	f := newFake()
	k := f.kernel()
	mustSync(t, k, many(1))
	sent := len(f.sent)
	k.reader = reads{f, func() error { return errors.New("dump: crashed") }}
	k.Forget(false)
	if _, err := k.Sync(context.Background(), many(1)); err == nil || !strings.Contains(err.Error(), "dump: crashed") {
		t.Errorf("error: %v", err)
	}
	if len(f.sent) != sent {
		t.Error("something was sent")
	}
}

// TestRestlessReadBack: a reading that others' writes disturb is done again, a
// few times.
func TestRestlessReadBack(t *testing.T) {
	for name, c := range map[string]struct {
		disturb func(reading int, f *fakeNFT) error
		want    int
	}{
		"calm": {func(int, *fakeNFT) error { return nil }, 1},
		"twice": {func(n int, f *fakeNFT) error {
			if n <= 2 {
				f.generation++
			}
			return nil
		}, 3},
		"always": {func(_ int, f *fakeNFT) error { f.generation++; return nil }, attempts},
		"an object went": {func(n int, f *fakeNFT) error {
			if n == 1 {
				return fmt.Errorf("elements: %w", unix.ENOENT)
			}
			return nil
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			k := f.kernel()
			mustSync(t, k, many(1))
			readings := 0
			k.reader = reads{f, func() error { readings++; return c.disturb(readings, f) }}
			k.Forget(false)
			if s := mustSync(t, k, many(1)); s != (Stats{}) || readings != c.want {
				t.Errorf("%d readings, sent %+v", readings, s)
			}
		})
	}
}

// TestPurge: a slot that is given anew forgets the clients of its frontend,
// and of no other.
func TestPurge(t *testing.T) {
	f := newFake()
	k := f.kernel()
	want := many(2)
	want.Sets = append(want.Sets, Set{Name: "affinity-0", Key: testSchema.Clients.Key, Dynamic: testSchema.Clients.Dynamic})
	want.Purges = []Purge{{Set: "affinity-0", Suffix: "10.0.0.1 . tcp . 80"}, {Set: "affinity-1", Suffix: "10.0.0.1 . tcp . 80"}}
	mustSync(t, k, want)
	if text := fmt.Sprint(f.lines()); strings.Contains(text, "element ip pointsman affinity") {
		t.Errorf("a set that has just been made is purged: %s", text)
	}
	f.bound = map[string][]Element{"affinity-0": {
		{Set: "affinity-0", Key: "192.0.2.1 . 10.0.0.1 . tcp . 80"},
		{Set: "affinity-0", Key: "192.0.2.1 . 10.0.0.2 . tcp . 80"},
		{Set: "affinity-0", Key: "192.0.2.2 . 10.0.0.1 . tcp . 80"},
	}}
	more := many(3)
	more.Sets, more.Purges = want.Sets, want.Purges
	mustSync(t, k, more)
	var purged []string
	for _, line := range f.lines()[0] {
		if strings.Contains(line, "affinity") {
			purged = append(purged, line)
		}
	}
	wantLines := []string{
		"add element ip pointsman affinity-0 { 192.0.2.1 . 10.0.0.1 . tcp . 80 }",
		"delete element ip pointsman affinity-0 { 192.0.2.1 . 10.0.0.1 . tcp . 80 }",
		"add element ip pointsman affinity-0 { 192.0.2.2 . 10.0.0.1 . tcp . 80 }",
		"delete element ip pointsman affinity-0 { 192.0.2.2 . 10.0.0.1 . tcp . 80 }",
	}
	if !slices.Equal(purged, wantLines) {
		t.Errorf("purged: %q", purged)
	}
}

func TestSlotsAndGroupIDs(t *testing.T) {
	g := service(1, 3)
	if got := g.Slots("endpoints"); len(got) != 3 || got[2] != "10.1.0.3 . 8080" {
		t.Errorf("slots: %v", got)
	}
	if got := (*Group)(nil).Slots("endpoints"); got != nil {
		t.Errorf("slots of nothing: %v", got)
	}
	for _, c := range []struct {
		set  int
		key  string
		want string
	}{
		{0, "10.0.0.1", "vips 10.0.0.1"},
		{3, "10.0.0.1 . tcp . 80 . 7", "10.0.0.1 . tcp . 80"},
		{2, "10.0.0.1 . tcp . 80", "10.0.0.1 . tcp . 80"},
	} {
		if got := testSchema.Sets[c.set].GroupID(c.key); got != c.want {
			t.Errorf("group of %s: %q", c.key, got)
		}
	}
}
