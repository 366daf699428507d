package host

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	ours4 = Table{IPv4, "pointsman"}
	ours6 = Table{IPv6, "pointsman"}
)

func tracked(seen uint32) *tracker { return newTracker(seen, []Table{ours4, ours6}) }

func changed(generation uint32, tables map[Table]Touched) Change {
	return Change{First: generation, Last: generation, Count: 1, Tables: tables, Process: "nft", PID: 7}
}

func lost(first, last uint32) Change { return Change{First: first, Last: last, Lost: true} }

func TestTrackerKinds(t *testing.T) {
	const destroyChain = 0x1b
	tests := []struct {
		kind uint8
		want Touched
	}{
		{unix.NFT_MSG_NEWSETELEM, Elements},
		{unix.NFT_MSG_DELSETELEM, Elements},
		{msgDestroySetElem, Elements},
		{unix.NFT_MSG_NEWTABLE, Program | Created},
		{unix.NFT_MSG_DELTABLE, Program | Deleted},
		{msgDestroyTable, Program | Deleted},
		{unix.NFT_MSG_NEWCHAIN, Program},
		{unix.NFT_MSG_DELCHAIN, Program},
		{destroyChain, Program},
		{unix.NFT_MSG_NEWRULE, Program},
		{unix.NFT_MSG_DELRULE, Program},
		{unix.NFT_MSG_NEWSET, Program},
		{unix.NFT_MSG_DELSET, Program},
		{unix.NFT_MSG_NEWOBJ, Program},
		{unix.NFT_MSG_NEWFLOWTABLE, Program},
		{0xfe, Program}, // of a kernel to come
	}
	for _, tt := range tests {
		got := tracked(4).feed(append(object(tt.kind, IPv6, "pointsman"), gen(5, 7, "nft")...))
		want := []Change{changed(5, map[Table]Touched{ours6: tt.want})}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("message %#x: %+v", tt.kind, got)
		}
	}
}

func TestTracker(t *testing.T) {
	const add, rule = unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_NEWRULE
	tests := map[string]struct {
		datagrams [][]byte
		want      []Change
	}{
		"others' tables": {
			[][]byte{
				object(rule, IPv4, "filter"), object(rule, 1, "pointsman"), object(add, IPv6, "pointsman2"),
				object(rule, IPv4, "pointsma"), object(rule, IPv4, ""), gen(5, 7, "nft"),
			}, nil,
		},
		"both of ours, in pieces": {
			[][]byte{
				object(add, IPv4, "pointsman"), object(rule, IPv6, "pointsman"),
				append(object(add, IPv6, "pointsman"), gen(5, 7, "nft")...),
			}, []Change{changed(5, map[Table]Touched{ours4: Elements, ours6: Elements | Program})},
		},
		"one after another": {
			[][]byte{slices.Concat(
				object(add, IPv4, "pointsman"), gen(5, 7, "nft"), object(add, IPv4, "x"), gen(6, 7, "nft"),
				object(rule, IPv4, "pointsman"), gen(7, 7, "nft"))},
			[]Change{
				changed(5, map[Table]Touched{ours4: Elements}), changed(7, map[Table]Touched{ours4: Program}),
			},
		},
		"another subsystem": {
			[][]byte{frame(unix.NFNL_SUBSYS_CTNETLINK<<8|uint16(add), nil), gen(5, 7, "nft")}, nil,
		},
		"a generation that was under way": {
			[][]byte{object(add, IPv4, "pointsman"), gen(4, 7, "nft"), gen(5, 7, "nft")},
			[]Change{changed(4, map[Table]Touched{ours4: Elements})},
		},
		"generations missing": {
			[][]byte{gen(5, 7, "nft"), gen(8, 7, "nft"), gen(9, 7, "nft")},
			[]Change{lost(6, 8)},
		},
	}
	for name, tt := range tests {
		tr := tracked(4)
		var got []Change
		for _, d := range tt.datagrams {
			got = append(got, tr.feed(d)...)
		}
		if !reflect.DeepEqual(got, tt.want) || tr.gap {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTrackerGap(t *testing.T) {
	element := object(unix.NFT_MSG_NEWSETELEM, IPv4, "pointsman")
	tr := tracked(4)
	tr.feed(slices.Concat(gen(5, 7, "nft"), element)) // the rest of 6 will be missing
	tr.lose()
	if tr.told() != 5 {
		t.Errorf("told up to %d", tr.told())
	}
	want := []Change{changed(6, map[Table]Touched{ours4: Elements})}
	if got := tr.feed(slices.Concat(element, gen(6, 7, "nft"))); !reflect.DeepEqual(got, want) || tr.told() != 5 {
		t.Errorf("in the gap: %+v, told up to %d", got, tr.told())
	}
	tr.feed(element) // of 7, 8 or 9
	tr.lose()
	if got := tr.recover(9); !reflect.DeepEqual(got, []Change{lost(6, 9)}) || tr.told() != 9 {
		t.Errorf("recovered: %+v, told up to %d", got, tr.told())
	}
	if got := tr.feed(gen(10, 7, "nft")); got != nil || tr.told() != 10 {
		t.Errorf("after: %+v, told up to %d", got, tr.told())
	}
	tr.lose()
	if got := tr.recover(10); got != nil {
		t.Errorf("no transaction since: %+v", got)
	}
}

func TestTrackerWrapsAround(t *testing.T) {
	tr := tracked(1<<32 - 2)
	got := tr.feed(slices.Concat(gen(1<<32-1, 7, "nft"), gen(1, 7, "nft"), gen(2, 7, "nft")))
	if got != nil || tr.told() != 2 {
		t.Errorf("%+v, told up to %d", got, tr.told())
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		value fmt.Stringer
		want  string
	}{
		{ours4, "ip pointsman"},
		{ours6, "ip6 pointsman"},
		{Table{unix.NFPROTO_BRIDGE, "x"}, "family 7 x"},
		{Touched(0), "nothing"},
		{Elements, "elements"},
		{Program | Deleted | Created, "program+created+deleted"},
		{changed(5, nil), "changed by nft (pid 7), generation 5"},
		{together(3, 5, 9), "changed by nft (pid 7), 3 transactions up to generation 9"},
		{lost(5, 7), "notifications lost in generations 5 to 7"},
	}
	for _, tt := range tests {
		if got := tt.value.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// What can't be understood is a gap, never nothing.
func TestTrackerNonsense(t *testing.T) {
	whole := object(unix.NFT_MSG_NEWRULE, IPv4, "pointsman")
	tests := map[string][]byte{
		"message cut short":        whole[:len(whole)-4],
		"no netfilter header":      frame(unix.NFNL_SUBSYS_NFTABLES<<8, []byte{2, 0}),
		"no table":                 frame(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE, []byte{2, 0, 0, 0}),
		"generation without an id": frame(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN, []byte{2, 0, 0, 0}),
		"zeroes":                   make([]byte, 32),
	}
	for name, data := range tests {
		tr := tracked(4)
		if got := tr.feed(data); got != nil || !tr.gap {
			t.Errorf("%s: %+v, gap %v", name, got, tr.gap)
		}
	}
}

func FuzzTracker(f *testing.F) {
	whole := slices.Concat(object(unix.NFT_MSG_NEWSETELEM, IPv4, "pointsman"), gen(5, 7, "nft"))
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(slices.Concat(object(unix.NFT_MSG_DELTABLE, IPv6, "pointsman"), gen(1<<31, 7, ""), whole))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr := tracked(4)
		for _, c := range tr.feed(data) {
			if later(c.First, c.Last) || c.Lost == (c.Count != 0) || c.Lost == (len(c.Tables) != 0) {
				t.Errorf("a change that can't be: %+v", c)
			}
			_ = c.String()
		}
		tr.recover(tr.seen)
		if got := tr.feed(whole); tr.gap || later(5, tr.seen) {
			t.Errorf("not usable afterwards: %+v", got)
		}
		concernsAddrs(data)
	})
}

// BenchmarkTracker takes what the kernel sends of a load of 100,000 elements.
func BenchmarkTracker(b *testing.B) {
	element := frame(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWSETELEM, slices.Concat(
		[]byte{byte(IPv4), 0, 0, 0}, attr(objectTable, []byte("pointsman\x00")), attr(2, []byte("endpoints\x00")),
		attr(unix.NLA_F_NESTED|3, make([]byte, 44))))
	datagram := slices.Repeat(element, 3700/len(element))
	load := 100000 * len(element)
	b.SetBytes(int64(load))
	for b.Loop() {
		tr := tracked(4)
		for n := 0; n < load; n += len(datagram) {
			tr.feed(datagram)
		}
		if changes := tr.feed(gen(5, 7, "nft")); len(changes) != 1 {
			b.Fatal(changes)
		}
	}
}
