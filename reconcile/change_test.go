package reconcile

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// simple makes a Service with a ClusterIP alone.
func simple(n, endpoints int) *state.Service {
	vip := netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)})
	s := &state.Service{
		ObjectName: state.ObjectName{Namespace: "default", Name: fmt.Sprintf("s%05d", n)}, ClusterIPs: []netip.Addr{vip},
		InternalTrafficPolicy: state.Cluster, ExternalTrafficPolicy: state.Cluster,
		Ports: []state.Port{{Protocol: state.TCP, Frontends: []state.Frontend{{Kind: state.ClusterIP, Address: vip, Port: 80}}}},
	}
	for i := range endpoints {
		a := netip.AddrFrom4([4]byte{10, 128 | byte(n>>15), byte(n >> 7), byte(n<<1 | i>>8)})
		s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, state.Endpoint{
			Address: netip.AddrPortFrom(a, uint16(8000+i)), NodeName: "n2", Ready: true, Serving: true,
		})
	}
	return s
}

func simpleInput(services, endpoints int) *Input {
	in := &Input{Node: Node{Name: "n1"}}
	for n := range services {
		in.Services = append(in.Services, simple(n, endpoints))
	}
	return in
}

// without gives the input with one Service's endpoints but those at some
// indexes.
func without(in *Input, service int, endpoints ...int) *Input {
	out := *in
	out.Services = slices.Clone(in.Services)
	s := *in.Services[service]
	s.Ports = slices.Clone(s.Ports)
	var rest []state.Endpoint
	for i, e := range s.Ports[0].Endpoints {
		if !slices.Contains(endpoints, i) {
			rest = append(rest, e)
		}
	}
	s.Ports[0].Endpoints = rest
	out.Services[service] = &s
	return &out
}

// differing gives the names of the groups that differ.
func differing(a, b map[string]*nft.Group) []string {
	var ids []string
	for id := range maps.Keys(a) {
		if b[id] == nil || !slices.Equal(*a[id], *b[id]) {
			ids = append(ids, id)
		}
	}
	for id := range maps.Keys(b) {
		if a[id] == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func readGroups(t testing.TB, k *nft.Kernel) map[string]*nft.Group {
	t.Helper()
	k.Forget(false)
	if err := k.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return k.Groups()
}

// TestKernelSmallChanges: what is sent is of the order of the change (C92),
// and a restart sends nothing (C55, C91).
func TestKernelSmallChanges(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	in := simpleInput(300, 10)
	syncTo(t, k, p, in)
	for _, c := range []struct {
		name     string
		in       *Input
		elements int // at most
		group    string
	}{
		{"an endpoint in the middle leaves", without(in, 7, 4), 5, "10.96.0.7 . tcp . 80"},
		{"the last endpoint leaves", without(in, 7, 9), 5, "10.96.0.7 . tcp . 80"},
		{"two leave", without(in, 7, 0, 5), 8, "10.96.0.7 . tcp . 80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			syncTo(t, k, p, in)
			before := maps.Clone(k.Groups())
			s := syncTo(t, k, p, c.in)
			if s.Transactions != 1 || s.Elements > c.elements || s.Rewritten {
				t.Errorf("sent %+v", s)
			}
			if ids := differing(before, readGroups(t, k)); !slices.Equal(ids, []string{c.group}) {
				t.Errorf("touched %q", ids)
			}
			if s := syncTo(t, k, NewPlanner(nft.IPv4), c.in); s != (nft.Stats{}) {
				t.Errorf("a restart sent %+v", s)
			}
		})
	}
}

// TestKernelRemoval: what a Service leaves behind is nothing.
func TestKernelRemoval(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	all := richInput()
	for i := range all.Services {
		less := *all
		less.Services = slices.Delete(slices.Clone(all.Services), i, i+1)
		t.Run(all.Services[i].Name, func(t *testing.T) {
			syncTo(t, k, p, all)
			s := syncTo(t, k, p, &less)
			if s.Transactions != 1 || s.Rewritten {
				t.Errorf("sent %+v", s)
			}
			requireSame(t, Canonical(readGroups(t, k)), Canonical(NewPlanner(nft.IPv4).Plan(&less, nil).Groups))
		})
	}
}

// stickyInput is one Service with affinity and endpoints of some numbers.
func stickyInput(numbers ...int) *Input {
	in := richInput()
	s := *in.Services[2]
	s.Ports = slices.Clone(s.Ports)
	s.Ports[0].Endpoints = nil
	for _, n := range numbers {
		s.Ports[0].Endpoints = append(s.Ports[0].Endpoints, endpoint(fmt.Sprintf("10.20.0.%d:8080", n), "n2"))
	}
	in.Services = []*state.Service{&s, in.Services[0]}
	return in
}

// bind makes the kernel remember clients of a slot.
func bind(t testing.TB, slot int, elements ...string) {
	t.Helper()
	run(t, fmt.Sprintf("nft add element ip pointsman affinity-%d '{ %s }'", slot, strings.Join(elements, ", ")))
}

func bound(t testing.TB, slot int) string {
	t.Helper()
	return run(t, fmt.Sprintf("nft list set ip pointsman affinity-%d", slot))
}

const stickyVIP = "10.96.0.3 . tcp . 80"

func stickySlots(k *nft.Kernel) map[int]string { return k.Group(stickyVIP).Slots(stickyMap + "tcp") }

// TestKernelStickySlots: endpoints that stay keep their slots and clients, and
// nobody inherits those of one that left.
func TestKernelStickySlots(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	syncTo(t, k, p, stickyInput(1, 2, 3))
	mine, other := "192.0.2.50 . "+stickyVIP, "192.0.2.50 . 10.96.0.99 . tcp . 80"
	for slot := range 3 {
		bind(t, slot, mine+" timeout 1h", other+" timeout 1h")
	}
	syncTo(t, k, p, stickyInput(2, 3))
	if got := stickySlots(k); !maps.Equal(got, map[int]string{1: "10.20.0.2 . 8080", 2: "10.20.0.3 . 8080"}) {
		t.Errorf("after one left: %v", got)
	}
	syncTo(t, k, NewPlanner(nft.IPv4), stickyInput(2, 3, 4))
	if got := stickySlots(k); got[0] != "10.20.0.4 . 8080" || got[1] != "10.20.0.2 . 8080" || got[2] != "10.20.0.3 . 8080" {
		t.Errorf("after another came: %v", got)
	}
	if text := bound(t, 0); strings.Contains(text, mine) || !strings.Contains(text, other) {
		t.Errorf("the newcomer has clients, or another frontend lost its own: %s", text)
	}
	for slot := 1; slot < 3; slot++ {
		if text := bound(t, slot); !strings.Contains(text, mine) {
			t.Errorf("slot %d has lost its clients: %s", slot, text)
		}
	}
}

// TestKernelStickySwap: one leaves and another comes in the same change. The
// slot isn't given away at once: packets that were under way could still bind
// a client to it.
func TestKernelStickySwap(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	syncTo(t, k, p, stickyInput(1, 2))
	bind(t, 0, "192.0.2.50 . "+stickyVIP+" timeout 1h")
	syncTo(t, k, p, stickyInput(2, 3))
	if got := stickySlots(k); !maps.Equal(got, map[int]string{1: "10.20.0.2 . 8080", 2: "10.20.0.3 . 8080"}) {
		t.Errorf("slots: %v", got)
	}
	syncTo(t, k, p, stickyInput())
	syncTo(t, k, p, stickyInput(7)) // the frontend's own history is gone, its clients aren't yet
	if got := stickySlots(k); !maps.Equal(got, map[int]string{0: "10.20.0.7 . 8080"}) {
		t.Errorf("slots: %v", got)
	}
	if text := bound(t, 0); strings.Contains(text, stickyVIP) {
		t.Errorf("the newcomer has clients: %s", text)
	}
}

// TestKernelUpgrade: another version of the program is replaced in one
// transaction, and clients with affinity keep their endpoint.
func TestKernelUpgrade(t *testing.T) {
	for name, older := range map[string]func(*nft.Table){
		"other rules": func(t *nft.Table) {
			t.Chains = slices.Clone(t.Chains)
			t.Chains[0].Rules = append(slices.Clone(t.Chains[0].Rules), "meta l4proto tcp counter")
		},
		"a chain more, one less": func(t *nft.Table) {
			t.Chains = append(slices.DeleteFunc(slices.Clone(t.Chains), func(c nft.Chain) bool { return c.Name == "nat-input" }),
				nft.Chain{Name: "mangle", Hook: &nft.Hook{Type: "filter", Hook: "forward", Priority: -150}, Rules: []string{"accept"}})
		},
		"another hook": func(t *nft.Table) {
			t.Chains = slices.Clone(t.Chains)
			for i := range t.Chains {
				if t.Chains[i].Name == "filter-prerouting" {
					t.Chains[i].Hook = &nft.Hook{Type: "filter", Hook: "prerouting", Priority: -120}
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
			syncTo(t, k, p, richInput())
			fresh := objects(t, nft.IPv4)
			old := p.Plan(richInput(), k.Group)
			old.Program = "program 0"
			older(old)
			if _, err := k.Sync(context.Background(), old); err != nil {
				t.Fatal(err)
			}
			bind(t, 1, "192.0.2.50 . "+stickyVIP+" timeout 1h")
			k.Forget(false)
			if s := syncTo(t, k, NewPlanner(nft.IPv4), richInput()); s.Transactions != 1 || !s.Rewritten || s.Elements != 0 {
				t.Errorf("sent %+v", s)
			}
			if text := bound(t, 1); !strings.Contains(text, stickyVIP) {
				t.Errorf("clients have been lost: %s", text)
			}
			run(t, "nft flush set ip pointsman affinity-1")
			requireSame(t, objects(t, nft.IPv4), fresh)
		})
	}
}

// TestKernelUpgradeOfSets: a version with other sets, too: those are replaced,
// in the same transaction.
func TestKernelUpgradeOfSets(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	syncTo(t, k, p, richInput())
	fresh := objects(t, nft.IPv4)
	damage(t, `flush table ip pointsman; delete set ip pointsman hairpin; delete map ip pointsman services;`+
		` add map ip pointsman services { type ipv4_addr . inet_service : verdict; };`+
		` add element ip pointsman services { 10.96.0.1 . 80 : goto pick-tcp-3 };`+
		` add set ip pointsman old { type mark; };`+
		` add rule ip pointsman dispatch ip daddr . tcp dport vmap @services comment "program 0"`)
	bind(t, 1, "192.0.2.50 . "+stickyVIP+" timeout 1h")
	k.Forget(false)
	if s := syncTo(t, k, NewPlanner(nft.IPv4), richInput()); s.Transactions != 1 || !s.Rewritten {
		t.Errorf("sent %+v", s)
	}
	if text := bound(t, 1); !strings.Contains(text, stickyVIP) {
		t.Errorf("clients have been lost: %s", text)
	}
	run(t, "nft flush set ip pointsman affinity-1")
	requireSame(t, objects(t, nft.IPv4), fresh)
}

// TestKernelChunks: a load of several transactions is complete, and so is one
// that another transaction of the same size comes before.
func TestKernelChunks(t *testing.T) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	in := simpleInput(5200, 10) // 62,400 elements
	began := time.Now()
	if s := syncTo(t, k, p, in); s.Transactions != 2 {
		t.Errorf("sent %+v", s)
	}
	t.Logf("loaded %d elements in %v", p.Plan(in, k.Group).Elements(), time.Since(began))
	k.Forget(false)
	if s := syncTo(t, k, NewPlanner(nft.IPv4), in); s != (nft.Stats{}) {
		t.Errorf("a restart sent %+v", s)
	}
}
