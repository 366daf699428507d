package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/reconcile/conformance/reading"
	"pointsman/state"
)

// combination is Services whose fields were drawn, and what to connect to.
type combination struct {
	settings settings
	services []service
	targets  []string
}

// String gives a combination as a failed test shows it.
func (c combination) String() string { return fmt.Sprintf("%+v %+v", c.settings, c.services) }

var (
	endpointPool = []string{"b1", "b2", "b3", "n1", "n2", "b1:8081", "n1:8081", "b1@-", "b2@-", "n2@-", "b2:9"}

	// Addresses of frontends as endpoints. Such a connection meets several
	// Services, so there are none with affinity or source ranges beside them.
	chainedPool = []string{"203.0.113.20:80", "203.0.113.2:81", "n2:30080@-", "n1:30081@-", "10.96.0.21:81", "192.0.2.200:80"}
	conditions  = []string{"", "", "", "", "/draining", "/gone", "/unready"}
	hintPool    = []string{"/node=n1", "/node=n2", "/zone=a", "/zone=b", "/zone=b/node=n3", "/zone=x"}
	rangePool   = []string{"", "", "", "192.0.2.0/24", "10.20.0.0/24 198.51.100.0/24", "0.0.0.0/0 192.0.2.1/32", "192.0.2.50/32 192.0.2.0/24"}
	onlyPool    = []string{"", "", "2001:db8::/64", "10.0.0.0/8 10.20.0.0/24"}
)

// oneOf draws one of some values. Failures are shrunk towards the first.
func oneOf[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

func drawCombination(t *rapid.T) combination {
	c := combination{settings: settings{
		localCIDRs:   oneOf(t, "local CIDRs", false, true),
		serviceCIDRs: oneOf(t, "service CIDRs", "", clusterIPs),
	}}
	chained := oneOf(t, "chained", false, false, true)
	for i := range rapid.IntRange(1, 3).Draw(t, "Services") {
		c.services = append(c.services, drawService(t, i, chained))
	}
	if strings.Contains(fmt.Sprint(c.services), "10.96.0.21:81") {
		c.settings.serviceCIDRs = "" // a range that holds an endpoint is refused
	}
	c.targets = c.allTargets()
	return c
}

// drawService draws the i-th Service. Its ports are its own, so that its
// addresses may be others' too.
func drawService(t *rapid.T, i int, chained bool) service {
	s := service{
		name: fmt.Sprint("s", i), cluster: fmt.Sprintf("10.96.0.%d", 20+i), port: uint16(80 + i),
		inside:   oneOf(t, "inside", state.Cluster, state.Local),
		outside:  oneOf(t, "outside", state.Cluster, state.Local),
		external: strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(vips("192.0.2.12", "192.0.2.11")), 0, 3, rapid.ID[string]).Draw(t, "external"), " "),
		balancer: strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(vips()), 0, 3, rapid.ID[string]).Draw(t, "balancer"), " "),
	}
	if rapid.Bool().Draw(t, "NodePort") {
		s.nodePort = uint16(30080 + i)
	}
	if !chained {
		s.sticky = oneOf(t, "affinity", false, false, true)
		s.ranges, s.onlyRanges = oneOf(t, "ranges", rangePool...), oneOf(t, "ranges of one family", onlyPool...)
		s.endpoints = drawEndpoints(t, endpointPool)
	} else {
		// A Service that is its own endpoint is left out: what is translated
		// to where it went anyway isn't translated, as the kernel sees it.
		own := func(e string) bool {
			return strings.HasSuffix(e, fmt.Sprint(":", s.port)) || strings.HasSuffix(e, fmt.Sprintf(":%d@-", 30080+i))
		}
		s.endpoints = drawEndpoints(t, slices.DeleteFunc(slices.Concat(endpointPool, chainedPool), own))
	}
	return s
}

func drawEndpoints(t *rapid.T, pool []string) string {
	hinted := oneOf(t, "hints", "none", "none", "all", "some")
	var endpoints []string
	for _, e := range rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, 4, address).Draw(t, "endpoints") {
		e += oneOf(t, "condition", conditions...)
		if hinted == "all" || hinted == "some" && rapid.Bool().Draw(t, "hinted") {
			e += oneOf(t, "hint", hintPool...)
		}
		endpoints = append(endpoints, e)
	}
	return strings.Join(endpoints, " ")
}

func address(endpoint string) string {
	a, _, _ := strings.Cut(endpoint, "@")
	return a
}

func vips(more ...string) []string {
	for _, v := range reading.VIPs {
		more = append(more, v.Address)
	}
	return more
}

// allTargets are all frontends, another port of each address, and addresses
// that are no frontend.
func (c combination) allTargets() []string {
	addrs := map[string]bool{"10.96.0.7:80": true, "192.0.2.12:8080": true, "192.0.2.12:22": true, "10.20.2.31:8080": true, "127.0.0.1:30080": true}
	for _, s := range c.services {
		for _, a := range strings.Fields(s.cluster + " " + s.external + " " + s.balancer) {
			addrs[fmt.Sprintf("%s:%d", a, s.port)] = true
			addrs[a+":83"] = true
		}
		if s.nodePort != 0 {
			addrs[fmt.Sprintf("192.0.2.11:%d", s.nodePort)] = true
			addrs[fmt.Sprintf("192.0.2.12:%d", s.nodePort)] = true
			addrs[fmt.Sprintf("203.0.113.10:%d", s.nodePort)] = true // a NodePort by way of a VIP: not served
		}
	}
	var out []string
	for a := range addrs {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// clientsOf is how many clients try a combination in the tracer.
const clientsOf = 3

// TestCombinations: whatever the fields are, the rulesets do what the reading
// says, whatever address is tried.
func TestCombinations(t *testing.T) {
	t.Parallel()
	rules := compiler{}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			c := drawCombination(t)
			f := families[rapid.IntRange(0, 1).Draw(t, "family")]
			proto := oneOf(t, "protocol", protocols...)
			compare(t, rules, f, c, proto)
		}
	})
}

func compare(t *rapid.T, rules compiler, f family, c combination, proto state.Protocol) {
	told := cluster(c.settings, c.services...)
	rulesets, err := rules.rulesets(f.tables(told))
	if err != nil {
		t.Fatal(err)
	}
	first := rapid.IntRange(0, len(reading.Clients)-1).Draw(t, "first client")
	for i := range clientsOf {
		from := reading.Clients[(first+i)%len(reading.Clients)]
		for _, to := range c.targets {
			conn := reading.Connection{From: from, Proto: proto, To: target(to, f.IPv6)}
			got, want := trace(f.World, rulesets, conn), reading.Expect(f.World, told, conn)
			if got.String() != want.String() {
				t.Fatalf("%s\n%s to %s/%s (%s): traced %q, read %q", c, from, to, proto, f.Family, got, want)
			}
		}
	}
}
