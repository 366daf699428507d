package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// entries puts entries into the connection tracking table by hand.
type entries struct {
	t testing.TB
	h *netlink.Handle
}

func newEntries(t testing.TB) *entries {
	t.Helper()
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		run(t, "", "conntrack", "-F")
	})
	return &entries{t, h}
}

// add adds a flow from client to dst that backend answers.
func (e *entries) add(protocol uint8, client, dst, backend netip.AddrPort) {
	e.t.Helper()
	family := uint8(IPv4)
	if client.Addr().Is6() {
		family = uint8(IPv6)
	}
	flow := &netlink.ConntrackFlow{
		FamilyType: family, TimeOut: 600,
		Forward: ipTuple(protocol, client, dst), Reverse: ipTuple(protocol, backend, client),
	}
	if protocol == unix.IPPROTO_TCP {
		flow.ProtoInfo = &netlink.ProtoInfoTCP{State: 3}
	}
	if err := e.h.ConntrackCreate(netlink.ConntrackTable, netlink.InetFamily(family), flow); err != nil {
		e.t.Fatal(err)
	}
}

func (e *entries) addText(protocol uint8, texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		f := strings.Fields(text)
		e.add(protocol, netip.MustParseAddrPort(f[0]), netip.MustParseAddrPort(f[1]), netip.MustParseAddrPort(f[2]))
	}
}

func ipTuple(protocol uint8, from, to netip.AddrPort) netlink.IPTuple {
	return netlink.IPTuple{
		Protocol: protocol, SrcIP: from.Addr().AsSlice(), SrcPort: from.Port(), DstIP: to.Addr().AsSlice(), DstPort: to.Port(),
	}
}

func (f Flow) text() string {
	s := fmt.Sprint(f.Source, f.Destination, f.ReplySource)
	if f.Zoned {
		s += " zoned"
	}
	return s
}

// flows lists the table, leaving it as it is.
func flows(t testing.TB, f Family) []string {
	t.Helper()
	return forget(t, f, func(Flow) bool { return false }, 0)
}

// forget gives the flows that were shown.
func forget(t testing.TB, f Family, stale func(Flow) bool, want int) (shown []string) {
	t.Helper()
	got, err := ForgetFlows(t.Context(), f, func(flow Flow) bool {
		shown = append(shown, flow.text())
		return stale(flow)
	})
	if err != nil || got != want {
		t.Errorf("%d flows removed, %v; want %d", got, err, want)
	}
	slices.Sort(shown)
	return shown
}

func expectFlows(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("flows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestForgetFlows(t *testing.T) {
	e := newEntries(t)
	v4 := []string{
		"192.0.2.50:40000 10.96.0.10:53 10.20.0.11:5353",
		"192.0.2.50:40001 10.96.0.10:53 10.96.0.10:53",
		"192.0.2.51:40000 10.96.0.10:53 10.20.0.12:5353",
	}
	v6 := "[2001:db8::50]:40000 [2001:db8:96::10]:53 [2001:db8:20::11]:5353"
	e.addText(unix.IPPROTO_UDP, append([]string{v6}, v4...)...)
	e.addText(unix.IPPROTO_TCP, v4[0], v6)
	expectFlows(t, flows(t, IPv4), v4...)
	expectFlows(t, flows(t, IPv6), v6)
	all, udp := 0, 0
	if err := eachEntry(t.Context(), IPv4, udpFilter(), func(b []byte) {
		all++
		if _, ok := parseFlow(b); ok {
			udp++
		}
	}); err != nil || all != 3 || udp != 3 {
		t.Errorf("the kernel lists %d entries, %d of them UDP: %v", all, udp, err)
	}
	isGone := func(f Flow) bool { return f.ReplySource.Addr() == netip.MustParseAddr("10.20.0.11") }
	expectFlows(t, forget(t, IPv4, isGone, 1), v4...)
	expectFlows(t, flows(t, IPv4), v4[1:]...)
	any := func(Flow) bool { return true }
	forget(t, IPv4, any, 2)
	expectFlows(t, flows(t, IPv4))
	expectFlows(t, flows(t, IPv6), v6)
	forget(t, IPv6, any, 1)
	expectFlows(t, flows(t, IPv6))
	if out := run(t, "", "conntrack", "-L", "-p", "tcp"); strings.Count(out, "sport=40000") != 2 {
		t.Errorf("TCP was touched:\n%s", out)
	}
}

// TestForgetFlowsInBatches: of many stale flows the first are gone before the last
// is shown, and none is missed for that.
func TestForgetFlowsInBatches(t *testing.T) {
	const n, every = 3 * forgetAtOnce, 7
	e := newEntries(t)
	e.fill(unix.IPPROTO_UDP, n)
	left, shown := "", map[netip.AddrPort]bool{}
	stale := func(f Flow) bool {
		if shown[f.Source] = true; len(shown) == n {
			left = run(t, "", "conntrack", "-C")
		}
		return f.Source.Port()%every > 0
	}
	removed, err := ForgetFlows(t.Context(), IPv4, stale)
	kept := len(flows(t, IPv4))
	if err != nil || len(shown) != n || removed+kept != n || kept < n/every-n/256 {
		t.Errorf("of %d flows %d are shown, %d removed and %d kept: %v", n, len(shown), removed, kept, err)
	}
	if count, err := strconv.Atoi(strings.TrimSpace(left)); err != nil || count > n-forgetAtOnce {
		t.Errorf("with the last, there are %q of %d flows", left, n)
	}
}

// TestForgetFlowsReplaced: an entry that took the place of the one that was
// picked stays.
func TestForgetFlowsReplaced(t *testing.T) {
	const client, dst = "192.0.2.50:40000 ", "10.96.0.10:53 "
	for _, then := range []string{"10.20.0.12:5353", "10.96.0.10:53"} {
		e := newEntries(t)
		e.addText(unix.IPPROTO_UDP, client+dst+"10.20.0.11:5353")
		forget(t, IPv4, func(Flow) bool {
			run(t, "", "conntrack", "-F")
			e.addText(unix.IPPROTO_UDP, client+dst+then)
			return true
		}, 0)
		expectFlows(t, flows(t, IPv4), client+dst+then)
		run(t, "", "conntrack", "-F")
	}
}

// TestForgetFlowsTranslated: as the kernel makes them, masqueraded or not.
func TestForgetFlowsTranslated(t *testing.T) {
	newEntries(t)
	ip(t, "addr add 10.20.0.11/32 dev lo", "addr add 2001:db8:20::11/128 dev lo nodad", "route add 10.96.0.0/16 dev lo", "route add 2001:db8:96::/112 dev lo")
	t.Cleanup(func() {
		ip(t, "addr del 10.20.0.11/32 dev lo", "addr del 2001:db8:20::11/128 dev lo", "route del 10.96.0.0/16 dev lo", "route del 2001:db8:96::/112 dev lo")
		nft(t, "delete table inet t")
	})
	nft(t, `table inet t {
		chain output { type nat hook output priority -100
			ip daddr 10.96.0.10 udp dport { 53, 54 } dnat ip to 10.20.0.11:5353
			ip6 daddr 2001:db8:96::10 udp dport { 53, 54 } dnat ip6 to [2001:db8:20::11]:5353
		}
		chain postrouting { type nat hook postrouting priority 100
			meta l4proto udp ct original proto-dst 54 masquerade fully-random
		}
	}`)
	want := map[Family][]string{}
	for _, to := range []string{"10.96.0.10:53", "10.96.0.10:54", "[2001:db8:96::10]:53", "[2001:db8:96::10]:54"} {
		backend, family := "10.20.0.11:5353", IPv4
		if strings.HasPrefix(to, "[") {
			backend, family = "[2001:db8:20::11]:5353", IPv6
		}
		want[family] = append(want[family], send(t, to)+" "+to+" "+backend)
	}
	for family, want := range want {
		slices.Sort(want)
		expectFlows(t, flows(t, family), want...)
		forget(t, family, func(Flow) bool { return true }, 2)
		expectFlows(t, flows(t, family))
	}
}

// send sends a datagram and gives where it came from.
func send(t testing.TB, to string) (from string) {
	t.Helper()
	c, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	return c.LocalAddr().String()
}

// TestForgetFlowsZones: entries of one tuple in two zones are two flows. A zone
// may be that of one direction only; the other's tuple is then taken.
func TestForgetFlowsZones(t *testing.T) {
	const to = "127.0.0.1:9"
	for rule, twins := range map[string]bool{"ct zone set 7": true, "ct original zone set 7": false} {
		e := newEntries(t)
		nft(t, "table inet t { chain output { type filter hook output priority -300; udp dport 9 "+rule+"; }; }")
		flow := send(t, to) + " " + to + " " + to
		nft(t, "delete table inet t")
		want := []string{flow + " zoned"}
		if twins {
			e.addText(unix.IPPROTO_UDP, flow)
			want = []string{flow, flow + " zoned"}
		}
		expectFlows(t, flows(t, IPv4), want...)
		forget(t, IPv4, func(f Flow) bool { return f.Zoned }, 1)
		expectFlows(t, flows(t, IPv4), want[:len(want)-1]...)
		run(t, "", "conntrack", "-F")
	}
}

// TestForgetFlowsInterrupted: who is told to stop says so.
func TestForgetFlowsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The kernel may have answered before it is noticed; then all is well.
	for range 3 {
		if _, err := ForgetFlows(ctx, IPv4, nil); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	}
}

// BenchmarkForgetFlows is a pass over a large table: every entry UDP, or
// nearly all TCP, as on most hosts, with the library's way beside.
func BenchmarkForgetFlows(b *testing.B) {
	for _, table := range []struct{ tcp, udp int }{{0, 200_000}, {200_000, 1000}} {
		b.Run(fmt.Sprintf("%d TCP, %d UDP", table.tcp, table.udp), func(b *testing.B) {
			e := newEntries(b)
			e.fill(unix.IPPROTO_TCP, table.tcp)
			e.fill(unix.IPPROTO_UDP, table.udp)
			b.Run("ours", func(b *testing.B) {
				for b.Loop() {
					shown := 0
					if _, err := ForgetFlows(b.Context(), IPv4, func(Flow) bool { shown++; return false }); err != nil || shown != table.udp {
						b.Fatal(shown, err)
					}
				}
			})
			b.Run("library", func(b *testing.B) {
				for b.Loop() {
					all, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
					if err != nil || len(all) != table.udp+table.tcp {
						b.Fatal(len(all), err)
					}
				}
			})
		})
	}
}

// BenchmarkForgetFlowsRemoval: a large Service has lost its last endpoint.
func BenchmarkForgetFlowsRemoval(b *testing.B) {
	e := newEntries(b)
	for b.Loop() {
		b.StopTimer()
		e.fill(unix.IPPROTO_UDP, 20_000)
		b.StartTimer()
		if n, err := ForgetFlows(b.Context(), IPv4, func(Flow) bool { return true }); err != nil || n != 20_000 {
			b.Fatal(n, err)
		}
	}
}

// fill adds n entries from different clients to one frontend.
func (e *entries) fill(protocol uint8, n int) {
	e.t.Helper()
	for i := range n {
		client := netip.AddrFrom4([4]byte{172, 16, byte(i >> 16), byte(i >> 8)})
		e.add(protocol, netip.AddrPortFrom(client, uint16(1024+i&0xff)),
			netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.20.0.11:5353"))
	}
}
