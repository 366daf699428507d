package reconcile

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// frontendsIn gives what can be asked about a ruleset.
func frontendsIn(groups map[string]*nft.Group) (all []Question) {
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		columns := strings.Split(id, " . ")
		if len(columns) != len(frontendKey) || strings.Contains(columns[0], " ") {
			continue
		}
		to := columns[0] + ":" + columns[2]
		if strings.Contains(columns[0], ":") {
			to = "[" + columns[0] + "]:" + columns[2]
		}
		all = append(all, Question{To: netip.MustParseAddrPort(to), Protocol: state.Protocol(strings.ToUpper(columns[1]))})
	}
	return all
}

// lookAndExplain answers from what the kernel has.
func lookAndExplain(t rapid.TB, q Question, in *Input) *Explanation {
	t.Helper()
	program, l := Ask(q, in)
	found, err := nft.Look(program, l, host.Generation)
	if err != nil {
		t.Fatal(err)
	}
	return Explain(q, &Evidence{Input: in, Declared: in.Services, Kernel: found})
}

// explainSample is how many histories the kernel goes through in a family: they
// are the same in every run.
const explainSample = 8

// TestExplainInTheKernel: whatever the host went through, a kernel that the loop
// has made right is said to be right, about every frontend; and an element that
// somebody deletes is missed.
func TestExplainInTheKernel(t *testing.T) {
	drawn := rapid.Custom(genInput)
	for _, f := range families46() {
		k, p := openKernel(t, f), NewPlanner(f)
		for seed := range explainSample {
			syncTo(t, k, p, drawn.Example(2*seed))
			in := drawn.Example(2*seed + 1)
			syncTo(t, k, p, in)
			all := frontendsIn(k.Groups())
			for _, q := range all {
				x := lookAndExplain(t, q, in)
				if c := x.Clients[0]; !x.Kernel.OK() || c.Actual == nil || c.Actual.summary() != c.Intent.summary() {
					t.Fatalf("%d: %+v: %s", seed, q, x.summary())
				}
			}
			if len(all) == 0 {
				continue
			}
			q := all[seed%len(all)]
			g := *k.Group(newExplaining(q, &Evidence{Input: in}).key())
			e := g[seed%len(g)]
			deleteElement(t, f, e)
			k.Forget(false)
			if d := lookAndExplain(t, q, in).Kernel.Differences; !slices.ContainsFunc(d, func(d Difference) bool {
				return strings.HasPrefix(d.Element, e.Set+" ") && d.Kind != isExtra
			}) {
				t.Errorf("%d: without %v: %+v", seed, e, d)
			}
		}
	}
}

// deleteElement is what an operator might do.
func deleteElement(t rapid.TB, f nft.Family, e nft.Element) {
	t.Helper()
	out, err := exec.Command("nft", "delete", "element", string(f), nft.TableName, e.Set, "{ "+e.Key+" }").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", e, err, out)
	}
}

// TestExplainAffinity: who is bound to what, and for how long; one that is
// bound to an endpoint that's gone is told so.
func TestExplainAffinity(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	in := richInput()
	syncTo(t, k, p, in)
	q := Question{To: netip.MustParseAddrPort("10.96.0.3:80"), From: netip.MustParseAddr("192.0.2.50")}
	if a := lookAndExplain(t, q, in).Affinity; a == nil || a.Bound {
		t.Errorf("a client that was never there: %+v", a)
	}
	run(t, "nft add element ip pointsman affinity-1 '{ 192.0.2.50 . 10.96.0.3 . tcp . 80 timeout 1h }'")
	a := lookAndExplain(t, q, in).Affinity
	if !a.Bound || a.Endpoint.String() != "10.20.0.2:8080" || a.Left.Minutes() < 59 || a.Left.Hours() > 1 {
		t.Errorf("a client of slot 1: %+v", a)
	}
	in = richInput()
	in.Services[2].Ports[0].Endpoints = slices.Delete(in.Services[2].Ports[0].Endpoints, 1, 2)
	syncTo(t, k, p, in)
	if a := lookAndExplain(t, q, in).Affinity; !a.Bound || a.Endpoint.IsValid() {
		t.Errorf("its endpoint is gone: %+v", a)
	}
}

// TestExplainChains: somebody empties a chain that the frontend leads to.
func TestExplainChains(t *testing.T) {
	k, p, in := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4), richInput()
	syncTo(t, k, p, in)
	run(t, "nft flush chain ip pointsman pick-tcp-3")
	for to, want := range map[string]string{
		"10.96.0.1:80": "chain pick-tcp-3 has 0 rules, and should have 2",
		"10.96.0.3:80": "chain pick-tcp-3 has 0 rules, and should have 2", // by way of a sticky one
		"10.96.0.5:80": "",
	} {
		x := lookAndExplain(t, Question{To: netip.MustParseAddrPort(to)}, in)
		if got := strings.Join(x.Kernel.Faults, "\n"); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
	k.Forget(true)
}

// TestExplainEndpoint: what it backs, by which frontends, and where it is in the
// kernel or should be.
func TestExplainEndpoint(t *testing.T) {
	k, p, in := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4), richInput()
	in.Services[0].Ports[0].Endpoints[1].Ready = false
	syncTo(t, k, p, in)
	look := func(address string) *EndpointExplanation {
		e := netip.MustParseAddrPort(address)
		program, l := AskEndpoint(e, in)
		found, err := nft.Look(program, l, host.Generation)
		if err != nil {
			t.Fatal(err)
		}
		return ExplainEndpoint(e, &Evidence{Input: in, Declared: in.Services, Kernel: found}, nil)
	}
	x := look("10.20.0.2:0")
	if len(x.Backs) != 4 || !x.OK() || len(x.Kernel.Elements) == 0 {
		t.Fatalf("%+v", x)
	}
	plain, local := x.Backs[0], x.Backs[1]
	if plain.Service != "default/plain" || plain.For != nil || plain.Why[0].Code != whyNotReady || len(plain.Frontends) != 3 || plain.Frontends[0].Slots != nil {
		t.Errorf("plain: %+v", plain)
	}
	if f := local.Frontends; !slices.Equal(f[0].For, []string{outside, inside, thisHost}) || !slices.Equal(f[1].For, []string{inside, thisHost}) || len(f[0].Slots) != 1 {
		t.Errorf("local: %+v", f)
	}
	run(t, "nft delete element ip pointsman endpoints-tcp '{ 10.96.0.2 . tcp . 80 . 1 }'")
	run(t, "nft add element ip pointsman endpoints-tcp '{ 10.96.0.1 . tcp . 80 . 7 : 10.20.0.2 . 8080 }'")
	var got []string
	for _, d := range look("10.20.0.2:8080").Kernel.Differences {
		got = append(got, d.Kind+" "+d.Element)
	}
	want := []string{"extra endpoints-tcp { 10.96.0.1 . tcp . 80 . 7 : 10.20.0.2 . 8080 }", "missing endpoints-tcp { 10.96.0.2 . tcp . 80 . ... : 10.20.0.2:8080 }"}
	if !slices.Equal(got, want) {
		t.Errorf("differences %q", got)
	}
	k.Forget(false)
	if x := look("10.96.0.1:80"); len(x.Backs) != 0 || x.OK() || !slices.Equal(x.Hints, []string{"it's a frontend of Service default/plain: see pointsman explain 10.96.0.1:80"}) {
		t.Errorf("a frontend: %+v", x)
	}
}

// TestExplainEndpointOfMany: one backend of thousands of Services is explained for
// some, and the kernel asked as much as those need, whatever others have.
func TestExplainEndpointOfMany(t *testing.T) {
	in := simpleInput(3000, 1)
	at := netip.MustParseAddrPort("10.20.0.1:8080")
	for _, s := range in.Services {
		s.Ports[0].Endpoints[0].Address = at
	}
	in.Services[0].Ports[0].Endpoints = append(in.Services[0].Ports[0].Endpoints, simple(3000, 500).Ports[0].Endpoints...)
	_, l := AskEndpoint(at, in)
	asked := 0
	for _, f := range l.Frontends {
		asked += l.Slots(f, nft.NewGroup(nil))
	}
	if asked < maxBacked || asked > maxBacked+500 {
		t.Errorf("%d slots of %d frontends are asked for", asked, len(l.Frontends))
	}
	x := ExplainEndpoint(at, &Evidence{Input: in}, nil)
	if len(x.Backs) != len(l.Frontends) || !slices.Equal(x.Hints, []string{fmt.Sprintf("it backs so many Service ports that some (%d) are not looked at: see pointsman get endpoints", 3000-len(x.Backs))}) {
		t.Errorf("%d are explained, %d asked for, and it says %q", len(x.Backs), len(l.Frontends), x.Hints)
	}
}

// BenchmarkExplain is one question to a host with 10,000 Services of 10
// endpoints, the kernel included.
func BenchmarkExplain(b *testing.B) {
	k, p, in := openKernel(b, nft.IPv4), NewPlanner(nft.IPv4), simpleInput(10_000, 10)
	if err := k.Load(context.Background()); err != nil {
		b.Fatal(err)
	}
	if _, err := k.Sync(context.Background(), p.Plan(in, k.Group)); err != nil {
		b.Fatal(err)
	}
	q := frontendsIn(k.Groups())[5000]
	runtime.GC()
	b.Run("frontend", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if x := lookAndExplain(b, q, in); !x.OK() {
				b.Fatal(x.summary())
			}
		}
	})
	e := in.Services[5000].Ports[0].Endpoints[3].Address
	b.Run("endpoint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			program, l := AskEndpoint(e, in)
			found, err := nft.Look(program, l, host.Generation)
			if err != nil {
				b.Fatal(err)
			}
			if x := ExplainEndpoint(e, &Evidence{Input: in, Kernel: found}, nil); !x.OK() {
				b.Fatal(x.Kernel)
			}
		}
	})
}
