package reconcile

import (
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// richInput has a Service of every sort.
func richInput() *Input {
	service := func(name string, n byte, change func(*state.Service)) *state.Service {
		s := &state.Service{
			ObjectName:            state.ObjectName{Namespace: "default", Name: name},
			ClusterIPs:            []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, n})},
			InternalTrafficPolicy: state.Cluster, ExternalTrafficPolicy: state.Cluster,
			Ports: []state.Port{{Protocol: state.TCP, Frontends: []state.Frontend{
				{Kind: state.ClusterIP, Address: netip.AddrFrom4([4]byte{10, 96, 0, n}), Port: 80},
				{Kind: state.LoadBalancerIP, Address: netip.AddrFrom4([4]byte{192, 0, 2, 100 + n}), Port: 80},
				{Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30000 + uint16(n)},
			}, Endpoints: []state.Endpoint{
				endpoint("10.20.0.1:8080", "n1"), endpoint("10.20.0.2:8080", "n2"), endpoint("10.20.0.3:8080", "n3"),
			}}},
		}
		change(s)
		return s
	}
	return &Input{
		Node: Node{Name: "n1"}, NodePortAddresses: addrs("192.0.2.11"), Addresses: addrs("192.0.2.11"),
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		LocalCIDRs:   []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.244.1.0/24")},
		Services: []*state.Service{
			service("plain", 1, func(*state.Service) {}),
			service("local", 2, func(s *state.Service) { s.ExternalTrafficPolicy = state.Local }),
			service("sticky", 3, func(s *state.Service) { s.Affinity = time.Hour }),
			service("guarded", 4, func(s *state.Service) {
				s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
			}),
			service("empty", 5, func(s *state.Service) { s.Ports[0].Endpoints = nil }),
		},
	}
}

func endpoint(address, node string) state.Endpoint {
	return state.Endpoint{Address: netip.MustParseAddrPort(address), NodeName: node, Ready: true, Serving: true}
}

// ruleset gives our table as nft lists it, line by line, elements apart and
// sorted. What the kernel counts and clients add is left out.
func ruleset(t testing.TB, f nft.Family) []string {
	t.Helper()
	out := run(t, "nft list table "+string(f)+" pointsman")
	out = regexp.MustCompile(`(?s)elements = \{.*?\}`).ReplaceAllStringFunc(out, func(s string) string {
		s = strings.TrimSuffix(strings.TrimPrefix(s, "elements = {"), "}")
		elements := strings.Split(strings.Join(strings.Fields(s), " "), ",")
		for i := range elements {
			elements[i] = "element " + strings.TrimSpace(elements[i])
		}
		slices.Sort(elements)
		return strings.Join(elements, "\n")
	})
	lines := strings.Split(out, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// objects gives a ruleset as one text for each set and chain, sorted: the
// kernel lists them in the order they were made in.
func objects(t testing.TB, f nft.Family) []string {
	t.Helper()
	text := strings.Join(ruleset(t, f), "\n")
	all := regexp.MustCompile(`(?m)^}\n`).Split(text, -1)
	for i := range all {
		all[i] = regexp.MustCompile(`^table ip6? pointsman \{\n(comment .*\n)?`).ReplaceAllString(strings.TrimSpace(all[i]), "")
	}
	slices.Sort(all)
	return all
}

// damages are what somebody may do to our table, in nft's syntax. %r is the
// handle of the first rule of pick-tcp-3.
var damages = map[string]string{
	"a chain flushed":                  "flush chain ip pointsman dispatch",
	"an on-demand chain flushed":       "flush chain ip pointsman pick-tcp-3",
	"the program flushed":              "flush chain ip pointsman nat-prerouting; flush chain ip pointsman nat-output",
	"all rules gone":                   "flush table ip pointsman",
	"a base chain deleted":             "flush chain ip pointsman nat-input; delete chain ip pointsman nat-input",
	"a regular chain deleted":          "flush chain ip pointsman nat-prerouting; flush chain ip pointsman nat-output; flush chain ip pointsman dispatch; delete chain ip pointsman dispatch",
	"a rule replaced":                  "replace rule ip pointsman pick-tcp-3 handle %r drop",
	"a rule added":                     "insert rule ip pointsman dispatch drop",
	"a rule deleted":                   "delete rule ip pointsman pick-tcp-3 handle %r",
	"another policy":                   "add chain ip pointsman filter-input { type filter hook input priority 0; policy drop; }",
	"another priority":                 "flush chain ip pointsman filter-input; delete chain ip pointsman filter-input; add chain ip pointsman filter-input { type filter hook input priority 7; }; add rule ip pointsman filter-input ct state new jump untranslated",
	"a base chain made regular":        "flush chain ip pointsman filter-input; delete chain ip pointsman filter-input; add chain ip pointsman filter-input",
	"an element deleted":               "delete element ip pointsman services { 10.96.0.1 . tcp . 80 }",
	"an element changed":               "delete element ip pointsman services { 10.96.0.1 . tcp . 80 }; add element ip pointsman services { 10.96.0.1 . tcp . 80 : drop }",
	"an element added":                 "add element ip pointsman services { 10.99.0.1 . udp . 53 : goto pick-tcp-3 }",
	"a range added":                    "add element ip pointsman local-cidrs { 172.16.0.3-172.16.0.9 }",
	"a range deleted":                  "delete element ip pointsman local-cidrs { 10.244.0.0/24 }",
	"a guard's range widened":          "add element ip pointsman source-ranges { 192.0.2.104 . tcp . 80 . 1.2.3.0-1.2.3.77 }",
	"an endpoint in a far slot":        "add element ip pointsman endpoints-tcp { 10.96.0.1 . tcp . 80 . 4000000000 : 10.20.0.1 . 8080 }",
	"a sticky endpoint in a far slot":  "add element ip pointsman sticky-endpoints-tcp { 10.96.0.3 . tcp . 80 . 4000000000 : 10.20.0.1 . 8080 }; delete element ip pointsman sticky-endpoints-tcp { 10.96.0.3 . tcp . 80 . 0 }",
	"endpoints swapped":                "delete element ip pointsman endpoints-tcp { 10.96.0.1 . tcp . 80 . 0 }; add element ip pointsman endpoints-tcp { 10.96.0.1 . tcp . 80 . 0 : 10.66.6.6 . 666 }",
	"a set emptied":                    "flush map ip pointsman services",
	"every set emptied":                "flush map ip pointsman services; flush map ip pointsman endpoints-tcp; flush set ip pointsman cluster-ips; flush set ip pointsman source-ranges; flush set ip pointsman local-cidrs",
	"a set of another type":            "flush table ip pointsman; delete set ip pointsman hairpin; add set ip pointsman hairpin { type inet_service; }; add element ip pointsman hairpin { 80 }",
	"a map of another type":            "flush table ip pointsman; delete map ip pointsman services; add map ip pointsman services { type ipv4_addr : verdict; }",
	"a set in place of a map":          "flush table ip pointsman; delete map ip pointsman endpoints-tcp; add set ip pointsman endpoints-tcp { type ipv4_addr; }",
	"a set deleted":                    "flush table ip pointsman; delete set ip pointsman cluster-ips",
	"a foreign chain":                  "add chain ip pointsman evil; add rule ip pointsman evil drop; add rule ip pointsman dispatch jump evil; add element ip pointsman services { 10.99.0.1 . udp . 53 : goto evil }",
	"a foreign base chain":             "add chain ip pointsman evil { type filter hook input priority -300; policy drop; }",
	"a foreign base chain named alike": "add chain ip pointsman pick-evil { type filter hook input priority -300; policy drop; }",
	"a foreign set":                    "add set ip pointsman evil { typeof osf name; }; add map ip pointsman evilmap { type ipv4_addr : verdict; }; add chain ip pointsman evil; add element ip pointsman evilmap { 10.0.0.1 : goto evil }; add rule ip pointsman dispatch ip saddr vmap @evilmap",
	"dormant":                          "add table ip pointsman { flags dormant; }",
	"dormant and emptied":              "delete table ip pointsman; add table ip pointsman { flags dormant; }",
	"the table deleted":                "delete table ip pointsman",
	"the table emptied":                "delete table ip pointsman; add table ip pointsman",
	"half deleted":                     "flush table ip pointsman; flush map ip pointsman services; flush map ip pointsman no-endpoints; flush map ip pointsman sticky-record; delete chain ip pointsman nat-prerouting; delete chain ip pointsman nat-output; delete chain ip pointsman dispatch; delete map ip pointsman services; delete map ip pointsman endpoints-tcp",
	"somebody else's table":            "delete table ip pointsman; add table ip pointsman; add chain ip pointsman dispatch { type filter hook input priority 0; policy drop; }; add set ip pointsman services { type ipv4_addr; }; add rule ip pointsman dispatch ip saddr @services accept",
	"clients of another type":          "flush table ip pointsman; delete set ip pointsman affinity-0; add set ip pointsman affinity-0 { type ipv4_addr; }",
}

// damage runs what somebody does to our table.
func damage(t testing.TB, commands string) {
	t.Helper()
	if strings.Contains(commands, "%r") {
		handle := regexp.MustCompile(`numgen.*# handle (\d+)\n`).FindStringSubmatch(
			run(t, "nft -a list chain ip pointsman pick-tcp-3"))
		commands = strings.ReplaceAll(commands, "%r", handle[1])
	}
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(regexp.MustCompile(`; ?(add|flush|delete|insert|replace)`).ReplaceAllString(commands, "\n$1"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", commands, out)
	}
}

// repaired damages a table that is right, and requires that a sync makes it
// what a fresh start gives, to the letter (C38).
func repaired(t *testing.T, in *Input, commands string, doubt bool) {
	k, p := openKernel(t, nft.IPv4), NewPlanner(nft.IPv4)
	syncTo(t, k, p, in)
	fresh := objects(t, nft.IPv4)
	damage(t, commands)
	k.Forget(doubt)
	stats := syncTo(t, k, p, in)
	if limit := 1 + strings.Count(commands, "dormant"); stats.Transactions != limit {
		t.Errorf("sent %+v", stats)
	}
	if out := run(t, "nft list table ip pointsman"); strings.Contains(out, "dormant") {
		t.Error("the table sleeps")
	}
	requireSame(t, objects(t, nft.IPv4), fresh)
	if s := syncTo(t, k, p, in); s != (nft.Stats{}) {
		t.Errorf("applied again, it sent %+v", s)
	}
	k.Forget(false)
	if s := syncTo(t, k, NewPlanner(nft.IPv4), in); s != (nft.Stats{}) {
		t.Errorf("after a restart it sent %+v", s)
	}
}

// TestKernelRepair: whatever somebody does to our table, one transaction puts
// it right. The journal says that the program may have been touched.
func TestKernelRepair(t *testing.T) {
	for name, commands := range damages {
		t.Run(name, func(t *testing.T) { repaired(t, richInput(), commands, true) })
	}
}

// TestKernelResync: a full read-back without any suspicion finds everything.
func TestKernelResync(t *testing.T) {
	for name, commands := range damages {
		t.Run(name, func(t *testing.T) { repaired(t, richInput(), commands, false) })
	}
}

// TestKernelRestart: so does an agent that knows what its predecessor wrote, and
// it writes nothing where nothing is wrong; one that knows nothing, or what was
// another day's, comes to know with at most one writing. What another release's
// program had says nothing of this one.
func TestKernelRestart(t *testing.T) {
	in := richInput()
	first := openKernel(t, nft.IPv4)
	syncTo(t, first, NewPlanner(nft.IPv4), in)
	fresh := objects(t, nft.IPv4)
	restarted := func(expect nft.Prints) (*nft.Kernel, nft.Stats) {
		k := openKernel(t, nft.IPv4)
		k.Expect(expect)
		return k, syncTo(t, k, NewPlanner(nft.IPv4), in)
	}
	if _, s := restarted(first.Prints()); s != (nft.Stats{}) {
		t.Errorf("all is right, and it sent %+v", s)
	}
	if k, s := restarted(nil); s != (nft.Stats{}) || !k.Prints().Same(first.Prints()) {
		t.Errorf("nothing is known, and it sent %+v", s)
	}
	damage(t, damages["a rule replaced"])
	if s := syncTo(t, openKernel(t, nft.IPv4), NewPlanner(nft.IPv4), in); s != (nft.Stats{}) {
		t.Errorf("nothing tells of it, and it sent %+v", s)
	}
	k, s := restarted(first.Prints())
	if got := strings.Join(k.Replaced(), " "); !s.Rewritten || s.Transactions != 1 || got != "pick-tcp-3" {
		t.Errorf("sent %+v for %q", s, got)
	}
	requireSame(t, objects(t, nft.IPv4), fresh)
	for i, known := range []nft.Prints{k.Prints(), {"": k.Prints()[""], "dispatch": 1, "gone": 2}, {"": 1, "dispatch": 1}, {"dispatch": 1}, nil} {
		k, s := restarted(known)
		if s.Rewritten != (i == 1) || s.Transactions > 1 {
			t.Errorf("%d: sent %+v", i, s)
		}
		if got := k.Replaced() != nil; got != (i == 1) {
			t.Errorf("%d: replaced %q", i, k.Replaced())
		}
		k.Forget(false)
		if s := syncTo(t, k, NewPlanner(nft.IPv4), in); s != (nft.Stats{}) {
			t.Errorf("%d: once more, it sent %+v", i, s)
		}
	}
}
