package host

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pointsman/state"
)

func (c Connection) text() string {
	s := fmt.Sprint(c.Protocol, " ", c.Source, " ", c.Destination, " ", c.ReplySource, " ", c.ReplyDestination)
	for what, is := range map[string]bool{" closing": c.Closing, " zoned": c.Zoned} {
		if is {
			s += what
		}
	}
	return s
}

func connections(t testing.TB, f Family, of ConnectionFilter) (all []string) {
	t.Helper()
	err := EachConnectionOf(t.Context(), f, of, func(c Connection) { all = append(all, c.text()) })
	if err != nil {
		t.Error(err)
	}
	slices.Sort(all)
	return all
}

// TestEachConnectionOf: what the kernel lists for a filter is what is asked
// for. Were the filter not understood, there would be an error or too little.
func TestEachConnectionOf(t *testing.T) {
	const (
		web  = "192.0.2.50:40000 10.96.0.80:80 10.20.0.11:8080"
		web2 = "192.0.2.51:40000 10.96.0.80:80 10.20.0.12:8080"
		web3 = "192.0.2.51:40000 10.96.0.80:81 10.20.0.12:8081"
		v6   = "[2001:db8::50]:40000 [2001:db8:96::10]:53 [2001:db8:20::11]:5353"
	)
	e := newEntries(t)
	e.addText(unix.IPPROTO_TCP, web, web2, web3)
	e.addText(unix.IPPROTO_UDP, web, v6)
	run(t, "", "conntrack", "-I", "-p", "icmp", "-s", "192.0.2.50", "-d", "10.96.0.80", "-t", "60", "--icmp-type", "8", "--icmp-code", "0", "--icmp-id", "1")
	text := func(protocol state.Protocol, entry string) string {
		return fmt.Sprint(protocol, " ", entry, " ", strings.Fields(entry)[0])
	}
	tcp, udp := state.TCP, state.UDP
	at := netip.MustParseAddrPort
	anyPort := func(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), 0) }
	for _, tt := range []struct {
		f    Family
		of   ConnectionFilter
		want []string
	}{
		{IPv4, ConnectionFilter{}, []string{text(tcp, web), text(tcp, web2), text(tcp, web3), text(udp, web)}},
		{IPv6, ConnectionFilter{}, []string{text(udp, v6)}},
		{IPv4, ConnectionFilter{Protocol: tcp}, []string{text(tcp, web), text(tcp, web2), text(tcp, web3)}},
		{IPv4, ConnectionFilter{Protocol: state.SCTP}, nil},
		{IPv4, ConnectionFilter{Protocol: tcp, Destination: at("10.96.0.80:80")}, []string{text(tcp, web), text(tcp, web2)}},
		{IPv4, ConnectionFilter{Destination: anyPort("10.96.0.80"), ReplySource: anyPort("10.20.0.11")}, []string{text(tcp, web), text(udp, web)}},
		{IPv4, ConnectionFilter{Destination: at("10.96.0.80:81")}, []string{text(tcp, web3)}},
		{IPv4, ConnectionFilter{Protocol: tcp, ReplySource: at("10.20.0.12:8080")}, []string{text(tcp, web2)}},
		{IPv4, ConnectionFilter{Protocol: udp, Destination: at("10.96.0.80:80"), ReplySource: at("10.20.0.12:8080")}, nil},
		{IPv6, ConnectionFilter{Protocol: udp, Destination: at("[2001:db8:96::10]:53"), ReplySource: anyPort("2001:db8:20::11")}, []string{text(udp, v6)}},
		{IPv6, ConnectionFilter{Destination: anyPort("2001:db8:96::11")}, nil},
	} {
		if got := connections(t, tt.f, tt.of); !slices.Equal(got, tt.want) {
			t.Errorf("%+v\n%s\nwant\n%s", tt.of, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

// TestEachConnectionTellsClosing: as the kernel has it, of real connections.
func TestEachConnectionTellsClosing(t *testing.T) {
	newEntries(t)
	nft(t, "table inet t { chain output { type filter hook output priority 0; ct state new accept; }; }")
	t.Cleanup(func() { nft(t, "delete table inet t") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	of := ConnectionFilter{Protocol: state.TCP, Destination: netip.MustParseAddrPort(l.Addr().String())}
	want := fmt.Sprintf("TCP %[1]s %[2]s %[2]s %[1]s", c.LocalAddr(), l.Addr())
	expectFlows(t, connections(t, IPv4, of), want)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(server); err != nil { // the FIN has come
		t.Fatal(err)
	}
	expectFlows(t, connections(t, IPv4, of), want+" closing")
	server.Close()
	expectFlows(t, connections(t, IPv4, of), want+" closing")
}

// TestClosing: the states that the kernel has numbers for.
func TestClosing(t *testing.T) {
	for protocol, want := range map[uint16]string{1: "....xxxxx.", 3: ".x...xxx.."} {
		for n, c := range []byte(want) {
			info := attr(protocol, attr(1, []byte{byte(n)}))
			if got := closing(info); got != (c == 'x') {
				t.Errorf("CTA_PROTOINFO %d, state %d: %v", protocol, n, got)
			}
		}
	}
	if closing(nil) || closing(attr(1, nil)) || closing(attr(1, attr(1, nil))) {
		t.Error("no state is no end")
	}
}

// FuzzParseEntry: nonsense is refused and doesn't crash, and no flow passes
// without the tuple that its removal needs.
func FuzzParseEntry(f *testing.F) {
	e := newEntries(f)
	for _, protocol := range []uint8{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
		e.addText(protocol, "192.0.2.50:1 10.96.0.10:53 10.20.0.11:54", "[2001:db8::50]:1 [2001:db8::1]:53 [2001:db8::2]:54")
	}
	for _, family := range []Family{IPv4, IPv6} {
		if err := eachEntry(f.Context(), family, nil, func(b []byte) { f.Add(slices.Clone(b)) }); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if flow, ok := parseFlow(b); ok && (len(flow.copyKey()) < 20 || flow.text() == "" || !flow.Source.IsValid()) {
			t.Error(fmt.Sprint(flow))
		}
		c, ok := parseConnection(b)
		if ok && (c.Protocol == "" || !c.Source.IsValid() || !c.Destination.IsValid() || !c.ReplySource.IsValid() || !c.ReplyDestination.IsValid()) {
			t.Error(c.text())
		}
	})
}

// BenchmarkEachConnection: the connections of one frontend among many others.
func BenchmarkEachConnection(b *testing.B) {
	e := newEntries(b)
	e.fill(unix.IPPROTO_TCP, 200_000)
	e.addText(unix.IPPROTO_TCP, "192.0.2.50:40000 10.96.0.80:80 10.20.0.11:8080")
	for name, of := range map[string]ConnectionFilter{
		"all":             {},
		"of one frontend": {Protocol: state.TCP, Destination: netip.MustParseAddrPort("10.96.0.80:80")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := EachConnectionOf(b.Context(), IPv4, of, func(Connection) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
