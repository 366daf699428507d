package nft

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

var families = []Family{IPv4, IPv6}

func attr(number uint16, value []byte) []byte { return appendAttribute(nil, number, value) }

func be32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// encodeColumns is what the kernel would send for a key in nft's syntax.
func encodeColumns(t rapid.TB, fields []Field, text string) []byte {
	var b []byte
	columns := strings.Split(text, " . ")
	for i, field := range fields {
		switch field {
		case Addr:
			b = append(b, netip.MustParseAddr(columns[i]).AsSlice()...)
		case Proto:
			n := map[string]byte{"tcp": 6, "udp": 17, "sctp": 132}[columns[i]]
			b = append(b, n, 0, 0, 0)
		default:
			n, err := strconv.Atoi(columns[i])
			if err != nil {
				t.Fatal(err)
			}
			if field == Slot {
				b = binary.NativeEndian.AppendUint32(b, uint32(n))
			} else {
				b = append(binary.BigEndian.AppendUint16(b, uint16(n)), 0, 0)
			}
		}
	}
	return b
}

var allFields = []Field{Addr, Proto, Service, Slot, TCPService, UDPService, SCTPService}

func genAddr(t *rapid.T, f Family) netip.Addr {
	n := 4
	if f == IPv6 {
		n = 16
	}
	a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "addr"))
	return a
}

func genColumn(t *rapid.T, f Family, field Field) string {
	switch field {
	case Addr:
		return genAddr(t, f).String()
	case Proto:
		return rapid.SampledFrom([]string{"tcp", "udp", "sctp"}).Draw(t, "proto")
	case Slot:
		return strconv.Itoa(rapid.IntRange(0, 1<<31).Draw(t, "slot"))
	}
	return strconv.Itoa(rapid.IntRange(0, 65535).Draw(t, "port"))
}

func TestColumnsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(families).Draw(t, "family")
		fields := rapid.SliceOfN(rapid.SampledFrom(allFields), 1, 5).Draw(t, "fields")
		var columns []string
		for _, field := range fields {
			columns = append(columns, genColumn(t, f, field))
		}
		want := strings.Join(columns, " . ")
		b := encodeColumns(t, fields, want)
		if got, err := f.columns(fields, b, nil); got != want || err != nil {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		if _, err := f.columns(fields, b[:len(b)-1], nil); err == nil {
			t.Fatal("bytes are missing, and no error")
		}
	})
}

// TestIntervalsRoundTrip: disjoint prefixes, as the kernel lists them in a set
// of single addresses: begins and ends, in any order. Intervals that touch are
// told apart, and one that ends with the last address has no end.
func TestIntervalsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(families).Draw(t, "family")
		s := &Set{Name: "ranges", Key: []Field{Addr}, Interval: true}
		want := genPrefixes(t, f)
		var raw []rawElement
		for _, p := range want {
			raw = append(raw, rawElement{key: p.Addr().AsSlice()})
			if next := lastAddr(p).Next(); next.IsValid() {
				raw = append(raw, rawElement{key: next.AsSlice(), intervalEnd: true})
			}
		}
		if len(want) > 0 && want[0].Addr() != zero(f) {
			raw = append(raw, rawElement{key: zero(f).AsSlice(), intervalEnd: true}) // nft adds one
		}
		raw = rapid.Permutation(raw).Draw(t, "order")
		var got []netip.Prefix
		for _, r := range pairIntervals(raw) {
			e, err := s.decode(f, r)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, netip.MustParsePrefix(e.Key))
		}
		slices.SortFunc(got, netip.Prefix.Compare)
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func zero(f Family) netip.Addr {
	if f == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// genPrefixes draws disjoint prefixes, sorted, many of which touch.
func genPrefixes(t *rapid.T, f Family) []netip.Prefix {
	var out []netip.Prefix
	for range rapid.IntRange(0, 10).Draw(t, "prefixes") {
		a := genAddr(t, f)
		if rapid.Bool().Draw(t, "touching") && len(out) > 0 {
			if a = lastAddr(out[len(out)-1]).Next(); !a.IsValid() {
				continue
			}
		}
		p := netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits")).Masked()
		if !slices.ContainsFunc(out, p.Overlaps) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

func TestPrefixText(t *testing.T) {
	for _, c := range []struct{ first, last, want string }{
		{"0.0.0.0", "255.255.255.255", "0.0.0.0/0"},
		{"10.0.0.0", "10.0.0.255", "10.0.0.0/24"},
		{"10.0.0.0", "10.0.1.255", "10.0.0.0/23"},
		{"10.0.1.0", "10.0.2.255", "10.0.1.0-10.0.2.255"},
		{"10.0.0.1", "10.0.0.1", "10.0.0.1/32"},
		{"10.0.0.2", "10.0.0.1", "10.0.0.2-10.0.0.1"},
		{"fd00::", "fd00::ffff", "fd00::/112"},
		{"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"},
	} {
		got := string(appendPrefix(nil, netip.MustParseAddr(c.first).AsSlice(), netip.MustParseAddr(c.last).AsSlice()))
		if got != c.want {
			t.Errorf("%s to %s: got %s, want %s", c.first, c.last, got, c.want)
		}
	}
}

func verdict(code int32, chain string) []byte {
	b := attr(unix.NFTA_VERDICT_CODE, be32(uint32(code)))
	if chain != "" {
		b = append(b, attr(unix.NFTA_VERDICT_CHAIN, []byte(chain+"\x00"))...)
	}
	return b
}

func TestVerdicts(t *testing.T) {
	for want, b := range map[string][]byte{
		"goto pick-tcp-2":     verdict(unix.NFT_GOTO, "pick-tcp-2"),
		"jump record-0-10800": verdict(unix.NFT_JUMP, "record-0-10800"),
		"drop":                verdict(0, ""),
		"verdict 1":           verdict(1, ""), // accept
		"verdict -5":          verdict(unix.NFT_RETURN, ""),
		"no verdict":          nil,
	} {
		if got := decodeVerdict(b); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestForeignElements: what can't be an element of ours is never taken for
// one.
func TestForeignElements(t *testing.T) {
	vips, ranges, guards := &testSchema.Sets[0], &testSchema.Sets[1], &testSchema.Sets[4]
	addr := []byte{10, 0, 0, 1}
	if e, err := vips.decode(IPv4, rawElement{key: addr, extra: true}); err != nil || e == (Element{Set: "vips", Key: "10.0.0.1"}) {
		t.Errorf("an element with an expression: %v, %v", e, err)
	}
	key := encodeColumns(t, guards.Key, "10.0.0.1 . tcp . 80 . 10.0.0.0")
	end := encodeColumns(t, guards.Key, "10.0.0.1 . tcp . 90 . 10.0.0.255")
	for name, c := range map[string]struct {
		set *Set
		raw rawElement
	}{
		"the catch-all element":    {vips, rawElement{}},
		"a range where none may":   {vips, rawElement{key: addr, end: addr}},
		"no range":                 {ranges, rawElement{key: addr}},
		"a range in another place": {guards, rawElement{key: key, end: end}},
		"too short":                {guards, rawElement{key: addr, end: addr}},
	} {
		if e, err := c.set.decode(IPv4, c.raw); err == nil {
			t.Errorf("%s: taken for %v", name, e)
		}
	}
}

// FuzzDecoders: whatever the bytes, nothing panics.
func FuzzDecoders(f *testing.F) {
	f.Add(slices.Concat(attr(1, []byte("pointsman\x00")), attr(3, []byte("entry\x00")),
		attr(4, append(attr(1, be32(0)), attr(2, be32(0xffffff9c))...)), attr(7, []byte{0, 3, 'a', 'b', 0})))
	f.Add(slices.Concat(attr(1, attr(1, []byte{10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0})), attr(2, attr(2, verdict(unix.NFT_GOTO, "x")))))
	request := (&socket{family: IPv4}).request(unix.NFT_MSG_NEWSET, unix.NLM_F_MULTI, ours())
	f.Add(append(request, 20, 0, 0, 0, unix.NLMSG_DONE, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	f.Add([]byte{4, 0, 0, 0, 3, 0, 1, 0, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeChain(b)
		decodeRule(b)
		decodeDefinition(b)
		decodeVerdict(b)
		_, _ = answers(b, func([]byte) {})
		r := decodeElement(b)
		for _, family := range families {
			for i := range testSchema.Sets {
				s := &testSchema.Sets[i]
				_, _ = s.decode(family, r)
				_, _ = s.decode(family, rawElement{key: b, end: b, value: b})
				_, _ = s.decodeCount(family, b)
			}
		}
		for _, p := range pairIntervals([]rawElement{r, {key: b}, {key: b, intervalEnd: true}}) {
			_, _ = testSchema.Sets[1].decode(IPv4, p)
		}
	})
}

// FuzzAttributes: attributes that are encoded come back, whatever follows.
func FuzzAttributes(f *testing.F) {
	f.Add(uint16(3), []byte("value"), []byte{4, 0, 1})
	f.Fuzz(func(t *testing.T, number uint16, value, rest []byte) {
		number &^= unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
		if len(value) > 60000 {
			return
		}
		if got := attribute(append(attr(number, value), rest...), number); !slices.Equal(got, value) {
			t.Fatalf("got %x, want %x", got, value)
		}
	})
}
