package reconcile

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/state"
)

func TestParsePair(t *testing.T) {
	for key, want := range map[string]Pair{
		"10.96.0.1 . tcp . 80 . 10.20.0.11 . 8080": {state.TCP, netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort("10.20.0.11:8080")},
		"fd00::1 . sctp . 1 . fd01::2 . 65535":     {state.SCTP, netip.MustParseAddrPort("[fd00::1]:1"), netip.MustParseAddrPort("[fd01::2]:65535")},
	} {
		if got, err := parsePair(key); got != want || err != nil {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	for _, key := range []string{"", "10.96.0.1", "10.96.0.1 . tcp . 80 . 10.20.0.11", "10.96.0.1 . tcp . 80 . 10.20.0.11 . 1 . 2", "x . tcp . 80 . 10.20.0.11 . 1",
		"10.96.0.1 . tcp . 80 . 10.20.0.11 . 65536"} {
		if got, err := parsePair(key); err == nil {
			t.Errorf("%q is taken for %+v", key, got)
		}
	}
}

// counters are the kernel's set as a model: what it counts, and when it would
// forget it.
type counters struct {
	now   time.Time
	pairs map[Pair]*sighting
}

const day = 24 * time.Hour

func (k *counters) connect(p Pair) {
	if k.pairs[p] == nil {
		k.pairs[p] = &sighting{}
	}
	k.pairs[p].count++
	k.pairs[p].expires = k.now.Add(day)
}

func (k *counters) pass(d time.Duration) {
	k.now = k.now.Add(d)
	maps.DeleteFunc(k.pairs, func(_ Pair, s *sighting) bool { return !s.expires.After(k.now) })
}

func (k *counters) read() (all []PairCount) {
	for p, s := range k.pairs {
		all = append(all, PairCount{p, s.count, s.expires.Sub(k.now)})
	}
	return all
}

// totalsInput serves a Service by its ClusterIP, a VIP and NodePorts, with some
// of its endpoints, and another one at the same NodePort, which loses it.
func totalsInput(endpoints ...string) *Input {
	port := state.Port{Name: "http", Protocol: state.TCP, Frontends: []state.Frontend{
		{Kind: state.ClusterIP, Address: netip.MustParseAddr("10.96.0.1"), Port: 80},
		{Kind: state.ExternalIP, Address: netip.MustParseAddr("192.0.2.200"), Port: 80},
		{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30080},
	}}
	for _, e := range endpoints {
		port.Endpoints = append(port.Endpoints, state.Endpoint{Address: netip.MustParseAddrPort(e)})
	}
	late := state.Port{Protocol: state.TCP, Frontends: port.Frontends[2:], Endpoints: port.Endpoints}
	return &Input{NodePortAddresses: addrs("192.0.2.11", "2001:db8::11"), Services: []*state.Service{
		{ObjectName: state.ObjectName{Namespace: "a", Name: "web"}, Ports: []state.Port{port}},
		{ObjectName: state.ObjectName{Namespace: "b", Name: "late"}, Ports: []state.Port{late}},
		{ObjectName: state.ObjectName{Namespace: "c", Name: "headless"}, Ports: []state.Port{{Name: "x", Protocol: state.TCP, Endpoints: port.Endpoints}}},
	}}
}

func pairOf(frontend, endpoint string) Pair {
	return Pair{state.TCP, netip.MustParseAddrPort(frontend), netip.MustParseAddrPort(endpoint)}
}

// texts gives totals as lines.
func (t *Totals) lines() (lines []string) {
	for _, p := range t.Ports() {
		line := fmt.Sprintf("%s %s/%s %d:", p.ObjectName, p.Port, p.Protocol, p.Total)
		for _, e := range p.Endpoints {
			line += fmt.Sprintf(" %s=%d", e.Address, e.Total)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestTotals: frontends come together in their Service port, strangers in none.
func TestTotals(t *testing.T) {
	const e1, e2 = "10.20.0.11:8080", "10.20.0.12:8080"
	k, totals := &counters{now: time.Unix(1e9, 0), pairs: map[Pair]*sighting{}}, NewTotals()
	in := totalsInput(e1, e2)
	want := func(in *Input, lines ...string) {
		t.Helper()
		if totals.Take(k.now, k.read(), in); !slices.Equal(totals.lines(), append(lines, "b/late /TCP 0: "+e1+"=0 "+e2+"=0")[:len(in.Services)-1]) {
			t.Errorf("got %q, want %q", totals.lines(), lines)
		}
	}
	want(in, "a/web http/TCP 0: "+e1+"=0 "+e2+"=0")
	for _, p := range []Pair{pairOf("10.96.0.1:80", e1), pairOf("192.0.2.200:80", e1), pairOf("192.0.2.11:30080", e2), // its own
		pairOf("10.96.0.1:81", e1), pairOf("192.0.2.12:30080", e2), pairOf("10.96.0.1:80", "172.17.0.2:80"), // strangers
		{state.UDP, netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort(e1)}} {
		k.connect(p)
	}
	want(in, "a/web http/TCP 3: "+e1+"=2 "+e2+"=1")
	k.connect(pairOf("10.96.0.1:80", e2))
	one := totalsInput(e1)
	totals.Take(k.now, k.read(), one) // e2 has left after its last connection
	if got := totals.lines()[0]; got != "a/web http/TCP 4: "+e1+"=2" {
		t.Errorf("an endpoint has left: %s", got)
	}
	k.connect(pairOf("10.96.0.1:80", e2)) // somebody else's
	totals.Take(k.now, k.read(), one)
	want(in, "a/web http/TCP 4: "+e1+"=2 "+e2+"=0")
	for range 3 {
		k.connect(pairOf("10.96.0.1:80", e1))
	}
	want(in, "a/web http/TCP 7: "+e1+"=5 "+e2+"=0")
	clear(k.pairs) // somebody has flushed the ruleset
	k.connect(pairOf("10.96.0.1:80", e1))
	want(in, "a/web http/TCP 8: "+e1+"=6 "+e2+"=0")
	totals.Take(k.now, nil, in) // a list that lacks it
	want(in, "a/web http/TCP 8: "+e1+"=6 "+e2+"=0")
	k.pass(day + time.Second)
	want(in, "a/web http/TCP 8: "+e1+"=6 "+e2+"=0")
	k.connect(pairOf("10.96.0.1:80", e1))
	want(in, "a/web http/TCP 9: "+e1+"=7 "+e2+"=0")
}

// TestTotalsAreExact: whatever the kernel forgets, and however often the agent
// starts again from a file that's up to an hour old: totals are what there was.
func TestTotalsAreExact(t *testing.T) {
	endpoints := []string{"10.20.0.11:8080", "10.20.0.12:8080", "10.20.0.13:8080"}
	frontends := []string{"10.96.0.1:80", "192.0.2.200:80", "192.0.2.11:30080"}
	in := totalsInput(endpoints...)
	rapid.Check(t, func(t *rapid.T) {
		k, totals := &counters{now: time.Unix(1e9, 0), pairs: map[Pair]*sighting{}}, NewTotals()
		all, each := uint64(0), map[netip.AddrPort]uint64{}
		var file bytes.Buffer
		take := func() { totals.Take(k.now, k.read(), in) }
		save := func() {
			file.Reset()
			if err := totals.Save(&file); err != nil {
				t.Fatal(err)
			}
		}
		take()
		save()
		t.Repeat(map[string]func(*rapid.T){
			"connect": func(t *rapid.T) {
				p := pairOf(rapid.SampledFrom(frontends).Draw(t, "frontend"), rapid.SampledFrom(endpoints).Draw(t, "endpoint"))
				k.connect(p)
				all++
				each[p.Endpoint]++
			},
			"an hour": func(*rapid.T) {
				take()
				save()
				k.pass(time.Hour)
			},
			"scrape": func(*rapid.T) { take() },
			"killed": func(t *rapid.T) {
				var err error
				if totals, err = LoadTotals(bytes.NewReader(file.Bytes())); err != nil {
					t.Fatal(err)
				}
			},
			"an idle day": func(*rapid.T) {
				for range 4 {
					take()
					save()
					k.pass(8 * time.Hour)
				}
			},
			"": func(t *rapid.T) {
				take()
				web := totals.Ports()[0]
				if web.Total != all {
					t.Fatalf("%d connections, there were %d", web.Total, all)
				}
				for _, e := range web.Endpoints {
					if e.Total != each[e.Address] {
						t.Fatalf("%d connections to %s, there were %d", e.Total, e.Address, each[e.Address])
					}
				}
			},
		})
	})
}

// FuzzLoadTotals: whatever is in the file, nothing panics, and what can be read
// can be gone on with.
func FuzzLoadTotals(f *testing.F) {
	totals := NewTotals()
	totals.Take(time.Unix(1e9, 0), []PairCount{{pairOf("10.96.0.1:80", "10.20.0.11:8080"), 3, day}}, totalsInput("10.20.0.11:8080"))
	var file bytes.Buffer
	if err := totals.Save(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"pairs":[{"frontend":""}],"ports":[{"endpoints":null},{"service":"web","endpoints":{"1.2.3.4:5":1}}]}`))
	f.Add([]byte(`{"pairs": 7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		totals, err := LoadTotals(bytes.NewReader(b))
		if err != nil {
			return
		}
		in := totalsInput("10.20.0.11:8080")
		totals.Take(time.Unix(1e9, 0), []PairCount{{pairOf("10.96.0.1:80", "10.20.0.11:8080"), 3, day}}, in)
		if n := len(totals.Ports()); n != 2 {
			t.Fatalf("%d ports", n)
		}
	})
}
