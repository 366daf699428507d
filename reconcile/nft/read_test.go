package nft

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// openTest opens the test table in the kernel.
func openTest(t testing.TB, f Family) *Kernel {
	t.Helper()
	// No generation moves: nobody else writes in this namespace.
	k, err := Open(f, testSchema, func() (uint32, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return k
}

func nftRun(t testing.TB, commands string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%s", commands, out)
	}
}

func read(t rapid.TB, k *Kernel) *held {
	t.Helper()
	h, err := netlinkReader{}.read(k.family, k.schema)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestKernelIntervals: ranges come and go, touching or not, and are read back
// as they were written, in plain and in concatenated sets.
func TestKernelIntervals(t *testing.T) {
	for _, f := range families {
		t.Run(string(f), func(t *testing.T) {
			k := openTest(t, f)
			rapid.Check(t, func(t *rapid.T) {
				want := &Table{Family: f, Schema: testSchema, Program: "p", Sets: testSchema.Sets,
					Chains: []Chain{{Name: "entry", Rules: []string{"drop"}}}, Groups: map[string]*Group{}}
				for _, p := range genPrefixes(t, f) {
					want.Groups["ranges "+p.String()] = single("ranges", p.String())
				}
				frontend := zero(f).String() + " . udp . 53"
				var guards []Element
				for _, p := range genPrefixes(t, f) {
					guards = append(guards, Element{Set: "guards", Key: frontend + " . " + p.String()})
				}
				if len(guards) > 0 {
					want.Groups[frontend] = NewGroup(guards)
				}
				mustSync(t, k, want)
				if got := read(t, k); !slices.Equal(elementsOf(got.groups), elementsOf(want.Groups)) {
					t.Fatalf("read back %q\nwritten   %q", elementsOf(got.groups), elementsOf(want.Groups))
				}
			})
		})
	}
}

// TestKernelDefinitions: a set that isn't defined as ours is known as such,
// and one of a type that we have never heard of does not stop us.
func TestKernelDefinitions(t *testing.T) {
	const frontend = "ipv4_addr . inet_proto . inet_service"
	for name, c := range map[string]struct {
		set      string // the definition
		as       string // the name
		elements string
		ok       bool
	}{
		"ours":                       {"set %s { type ipv4_addr; }", "vips", "10.0.0.1", true},
		"another key":                {"set %s { type inet_service; }", "vips", "80", false},
		"another key, empty":         {"set %s { type inet_service; }", "vips", "", false},
		"an interval set":            {"set %s { type ipv4_addr; flags interval; }", "vips", "10.0.0.0/8", false},
		"a constant set":             {"set %s { type ipv4_addr; flags constant; elements = { 10.0.0.1 } }", "vips", "", false},
		"timeouts":                   {"set %s { type ipv4_addr; flags timeout; }", "vips", "", false},
		"a size":                     {"set %s { type ipv4_addr; size 4; }", "vips", "", false},
		"a map":                      {"map %s { type ipv4_addr : ipv4_addr; }", "vips", "10.0.0.1 : 10.0.0.2", false},
		"our verdict map":            {"map %s { type " + frontend + " : verdict; }", "services", "10.0.0.1 . tcp . 80 : drop", true},
		"another key of a verdict":   {"map %s { type ipv4_addr . inet_service : verdict; }", "services", "", false},
		"a map to addresses":         {"map %s { type " + frontend + " : ipv4_addr; }", "services", "", false},
		"our map":                    {"map %s { typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . tcp dport; }", "endpoints", "10.0.0.1 . tcp . 80 . 0 : 10.1.0.1 . 80", true},
		"a mark in place of a slot":  {"map %s { type " + frontend + " . mark : ipv4_addr . inet_service; }", "endpoints", "", false},
		"one column less":            {"map %s { typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr; }", "endpoints", "", false},
		"our clients":                {"set %s { type ipv4_addr . " + frontend + "; flags dynamic,timeout; size 1048576; }", "affinity-0", "10.9.0.1 . 10.0.0.1 . tcp . 80 timeout 9s", true},
		"clients of another version": {"set %s { type ipv4_addr . inet_service; flags dynamic,timeout; size 1048576; }", "affinity-0", "", false},
		"clients, bounded otherwise": {"set %s { type ipv4_addr . " + frontend + "; flags dynamic,timeout; size 65536; }", "affinity-0", "", false},
		"a type unknown to us":       {"set %s { typeof osf name; }", "evil", "", false},
		"an unknown map":             {"map %s { typeof ct helper : ip daddr; }", "evil", "", false},
		"a catch-all element":        {"map %s { type " + frontend + " : verdict; }", "services", "* : drop", false},
		"a range in a wrong column":  {"set %s { type " + frontend + " . ipv4_addr; flags interval; }", "guards", "10.0.0.1 . tcp . 80-90 . 10.0.0.0/8", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := openTest(t, IPv4)
			commands := "add table ip pointsman\nadd " + strings.Replace(c.set, "%s", "ip pointsman "+c.as, 1) + "\n"
			if c.elements != "" {
				commands += "add element ip pointsman " + c.as + " { " + c.elements + " }\n"
			}
			nftRun(t, commands)
			h := read(t, k)
			if s, ok := h.sets[c.as]; !ok || s.asDefined != c.ok || s.isMap != strings.HasPrefix(c.set, "map") {
				t.Errorf("held: %+v", h.sets)
			}
			if !c.ok && len(h.groups) > 0 {
				t.Errorf("elements of a set that is to be dropped: %q", elementsOf(h.groups))
			}
			mustSync(t, k, two())
			if got := read(t, k); !slices.Equal(elementsOf(got.groups), elementsOf(two().Groups)) || got.sets["evil"] != (heldSet{}) {
				t.Errorf("repaired to %q, %v", elementsOf(got.groups), got.sets)
			}
		})
	}
}

// TestKernelDump: a table of many rules and chains takes several datagrams,
// and other tables in it are none of our business.
func TestKernelDump(t *testing.T) {
	k := openTest(t, IPv4)
	want := many(200)
	for i := range 300 {
		c := Chain{Name: "pick-a-rather-long-name-to-fill-the-buffer-" + itoa(i)}
		for range 20 {
			c.Rules = append(c.Rules, "meta l4proto tcp ip saddr 10.0.0.1 counter")
		}
		want.Chains = append(want.Chains, c)
	}
	nftRun(t, "add table ip other\nadd chain ip other entry\nadd rule ip other entry counter\nadd set ip other vips { typeof osf name; }\n")
	t.Cleanup(func() { nftRun(t, "delete table ip other") })
	mustSync(t, k, want)
	k.Forget(false)
	if s := mustSync(t, k, want); s != (Stats{}) {
		t.Errorf("after a restart it sent %+v", s)
	}
	if h := read(t, k); len(h.chains) != len(want.Chains) || h.program != want.Program || h.chains["pick-a-rather-long-name-to-fill-the-buffer-7"].rules != 20 {
		t.Errorf("%d chains, program %q", len(h.chains), h.program)
	}
}
