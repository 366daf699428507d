package nft

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lookTable is two services in a family, with a client set.
func lookTable(f Family) *Table {
	address := map[Family]string{IPv4: "10.0.0.%d", IPv6: "fd00::%d"}[f]
	var groups []*Group
	for n := range 2 {
		key := fmt.Sprintf(address+" . tcp . 80", n+1)
		elements := []Element{{"services", key, "goto pick-2"}, {"guards", key + " . " + zero(f).String() + "/1", ""}}
		for slot := range 2 {
			elements = append(elements, Element{"endpoints", fmt.Sprintf("%s . %d", key, slot), fmt.Sprintf(address+" . 8080", 11+slot)})
		}
		groups = append(groups, NewGroup(elements), single("vips", fmt.Sprintf(address, n+1)))
	}
	t := tableOf(append(groups, single("ranges", zero(f).String()+"/1"))...)
	t.Family = f
	for i := range t.Chains {
		for k, r := range t.Chains[i].Rules {
			if f == IPv6 {
				t.Chains[i].Rules = slices.Clone(t.Chains[i].Rules)
				t.Chains[i].Rules[k] = strings.NewReplacer("ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr", "dnat ip", "dnat ip6").Replace(r)
			}
		}
	}
	clients := testSchema.Clients
	clients.Name = "affinity-3"
	t.Sets = append(t.Sets, clients)
	return t
}

func twoSlots(string, *Group) int { return 2 }

func lookAt(t *testing.T, program *Table, q Lookup) *Found {
	t.Helper()
	f, err := Look(program, q, func() (uint32, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLook: of a whole table there's what was asked for, and nothing else.
func TestLook(t *testing.T) {
	for _, f := range []Family{IPv4, IPv6} {
		t.Run(string(f), func(t *testing.T) {
			k, want := openTest(t, f), lookTable(f)
			if _, err := k.Sync(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			address := map[Family]string{IPv4: "10.0.0.%d", IPv6: "fd00::%d"}[f]
			one, two, client := fmt.Sprintf(address, 1), fmt.Sprintf(address, 2), fmt.Sprintf(address, 99)
			nftRun(t, fmt.Sprintf("add element %s pointsman affinity-3 { %s . %s . tcp . 80 timeout 1h }", f, client, two))

			got := lookAt(t, want, Lookup{Frontends: []string{two + " . tcp . 80"}, Slots: twoSlots, Client: netip.MustParseAddr(client),
				Keys: []Element{{Set: "vips", Key: two}, {Set: "vips", Key: client}}})
			ids := []string{two + " . tcp . 80", "ranges " + zero(f).String() + "/1", "vips " + two}
			for _, id := range ids {
				if g := got.Group(id); g == nil || !slices.Equal(*g, *want.Groups[id]) {
					t.Errorf("%s: %v, want %v", id, g, want.Groups[id])
				}
			}
			if len(got.Groups) != len(ids) || got.Faults != nil || got.Gone || got.Rules["entry"] != len(entryRules) {
				t.Errorf("found %+v", got)
			}
			if b := got.Bindings; len(b) != 1 || b[0].Slot != 3 || b[0].Left > time.Hour || b[0].Left < time.Hour-time.Minute {
				t.Errorf("the client's bindings: %v", b)
			}

			got = lookAt(t, want, Lookup{Frontends: []string{one + " . udp . 80"}, Slots: twoSlots, Client: netip.MustParseAddr(client)})
			if len(got.Groups) != 1 || got.Bindings != nil {
				t.Errorf("of a frontend that isn't there: %+v", got)
			}
			few := func(_ string, g *Group) int { return len(*g) } // the verdict alone
			got = lookAt(t, want, Lookup{Frontends: []string{one + " . tcp . 80", two + " . tcp . 80"}, Slots: few})
			if len(got.Groups) != 3 || len(*got.Group(one + " . tcp . 80")) != 3 {
				t.Errorf("the first slots of both: %+v", got)
			}
			nftRun(t, fmt.Sprintf("delete set %[1]s pointsman affinity-3; add set %[1]s pointsman affinity-3 { type inet_service; }", f))
			if got = lookAt(t, want, Lookup{}); !slices.Equal(got.Faults, []string{"set affinity-3 is of another type"}) {
				t.Errorf("of a client set that's another: %q", got.Faults)
			}
		})
	}
}

// TestLookFaults: whatever somebody does to the table itself is named.
func TestLookFaults(t *testing.T) {
	for script, want := range map[string]string{
		"": "",
		"add table ip pointsman { flags dormant; }":                                                                      "dormant",
		"flush chain ip pointsman entry":                                                                                 `chain entry is marked as of ""`,
		"add rule ip pointsman entry drop":                                                                               "chain entry has 4 rules, and should have 3",
		"add chain ip pointsman entry { policy drop; }":                                                                  "drops what no rule accepts",
		"add chain ip pointsman mine { type filter hook input priority 0; }":                                             "chain mine is somebody else's",
		"add set ip pointsman mine { type ipv4_addr; }":                                                                  "set mine is somebody else's",
		"add set ip pointsman mine-1 { type ipv4_addr; }":                                                                "set mine-1 is somebody else's",
		"flush chain ip pointsman entry; delete set ip pointsman vips":                                                   "set vips is missing",
		"flush chain ip pointsman entry; delete chain ip pointsman entry":                                                "chain entry is missing",
		"delete table ip pointsman":                                                                                      "there is no table ip pointsman",
		"flush chain ip pointsman entry; delete set ip pointsman vips; add set ip pointsman vips { type inet_service; }": "set vips is of another type",
	} {
		k, program := openTest(t, IPv4), tableOf(service(1, 2))
		if _, err := k.Sync(t.Context(), program); err != nil {
			t.Fatal(err)
		}
		nftRun(t, script)
		got := lookAt(t, program, Lookup{Frontends: []string{"10.0.0.1 . tcp . 80"}, Slots: twoSlots, Client: netip.MustParseAddr("10.0.0.99")})
		text := strings.Join(got.Faults, "\n")
		if !strings.Contains(text, want) || (want == "") != (text == "") {
			t.Errorf("after %q: %q, want %q", script, text, want)
		}
		if gone := strings.Contains(script, "dormant") || strings.HasPrefix(script, "delete table"); got.Gone != gone {
			t.Errorf("after %q: gone %v", script, got.Gone)
		}
		if err := k.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLookDisturbed: writers that never rest are told of, and errors are.
func TestLookDisturbed(t *testing.T) {
	k, program := openTest(t, IPv4), tableOf(service(1, 2))
	if _, err := k.Sync(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	n := uint32(0)
	busy := func() (uint32, error) { n++; return n, nil }
	got, err := Look(program, Lookup{Frontends: []string{"10.0.0.1 . tcp . 80"}, Slots: twoSlots}, busy)
	if err != nil || !got.Unsteady || len(got.Groups) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Look(program, Lookup{Frontends: []string{"10.0.0.1"}, Slots: twoSlots}, busy); err == nil {
		t.Error("a frontend without a port is none")
	}
	if _, err := Look(program, Lookup{}, func() (uint32, error) { return 0, unix.EPERM }); err == nil {
		t.Error("the error is lost")
	}
}

// TestEncode: a key is written as the kernel writes it, and what is none is an
// error.
func TestEncode(t *testing.T) {
	fields := []Field{Addr, Proto, Service, Slot}
	for f, keys := range map[Family][]string{
		IPv4: {"10.0.0.1 . tcp . 80 . 0", "255.255.255.255 . sctp . 65535 . 4294967295"},
		IPv6: {"fd00::1 . udp . 1 . 7", ":: . tcp . 0 . 1"},
	} {
		for _, key := range keys {
			got, err := f.encode(fields, key)
			back, err2 := f.columns(fields, got, nil)
			if err != nil || err2 != nil || back != key || !slices.Equal(got, encodeColumns(t, fields, key)) {
				t.Errorf("%s: %x, %q, %v, %v", key, got, back, err, err2)
			}
		}
		for _, key := range []string{"", "10.0.0.1", "10.0.0.1 . tcp . 80 . 0 . 0", "10.0.0 . tcp . 80 . 0", "fd00::1 . tcp . 65536 . 0",
			"10.0.0.1 . tcp . 65536 . 0", "10.0.0.1 . icmp . 80 . 0", "10.0.0.1 . tcp . 80 . -1", "fd00::1%lo . tcp . 80"} {
			if got, err := f.encode(fields, key); err == nil {
				t.Errorf("%q (%s) is %x", key, f, got)
			}
		}
	}
}
