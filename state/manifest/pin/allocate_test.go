package pin

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
	"pointsman/state/manifest"
)

// The table of KEP-3070, as Kubernetes 1.37 computes it; without the first
// address, and of an IPv4 range without the last.
func TestAddressBands(t *testing.T) {
	for _, tt := range []struct{ cidr, upper, lower string }{
		{"10.0.0.0/32", "", ""},
		{"10.0.0.0/31", "", ""},
		{"10.0.0.0/30", "10.0.0.2-10.0.0.2", ""},
		{"10.0.0.0/28", "10.0.0.2-10.0.0.14", ""},
		{"10.0.0.0/27", "10.0.0.17-10.0.0.30", "10.0.0.2-10.0.0.16"},
		{"10.0.0.0/24", "10.0.0.17-10.0.0.254", "10.0.0.2-10.0.0.16"},
		{"10.0.0.0/23", "10.0.0.33-10.0.1.254", "10.0.0.2-10.0.0.32"},
		{"10.0.0.0/22", "10.0.0.65-10.0.3.254", "10.0.0.2-10.0.0.64"},
		{"10.96.0.0/12", "10.96.1.1-10.111.255.254", "10.96.0.2-10.96.1.0"},
		{"0.0.0.0/0", "0.0.1.1-255.255.255.254", "0.0.0.2-0.0.1.0"},
		{"fd00::/127", "", ""},
		{"fd00::/120", "fd00::11-fd00::ff", "fd00::2-fd00::10"},
		{"fd00::/112", "fd00::101-fd00::ffff", "fd00::2-fd00::100"},
		{"fd00::/64", "fd00::101-fd00::3fff:ffff:ffff:ffff", "fd00::2-fd00::100"},
		{"fd00:0:0:ffff::/48", "fd00::101-fd00::3fff:ffff:ffff:ffff", "fd00::2-fd00::100"},
	} {
		cidr := netip.MustParsePrefix(tt.cidr).Masked()
		got := make([]string, 2)
		for i, b := range addressBands(cidr) {
			if b.first <= b.last {
				got[i] = fmt.Sprintf("%s-%s", add(cidr.Addr(), b.first), add(cidr.Addr(), b.last))
			}
		}
		if want := []string{tt.upper, tt.lower}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.cidr, got, want)
		}
	}
}

func TestPortBands(t *testing.T) {
	for _, tt := range []struct {
		first, last uint64
		want        []band
	}{
		{30000, 32767, []band{{30086, 32767}, {30000, 30085}}},
		{30000, 30000, []band{{30000, 30000}, {30000, 29999}}},
		{1, 16, []band{{1, 16}, {1, 0}}},
		{8000, 8100, []band{{8016, 8100}, {8000, 8015}}},
		{1, 65535, []band{{129, 65535}, {1, 128}}},
	} {
		if got := portBands(tt.first, tt.last); !slices.Equal(got, tt.want) {
			t.Errorf("%d-%d: %v, want %v", tt.first, tt.last, got, tt.want)
		}
	}
}

func TestPick(t *testing.T) {
	bands := []band{{10, 19}, {5, 4}, {0, 9}}
	used := map[uint64]bool{}
	free := func(n uint64) bool { return !used[n] }
	var got []uint64
	for n, ok := pick(bands, "key", free); ok; n, ok = pick(bands, "key", free) {
		used[n] = true
		got = append(got, n)
	}
	// The first band is used up before the next, each from some place on and
	// round.
	for i, n := range got {
		if (i < 10) != (n >= 10) {
			t.Errorf("%d came at place %d: %v", n, i, got)
		}
		if i%10 > 0 && n%10 != (got[i-1]+1)%10 {
			t.Errorf("%d after %d: %v", n, got[i-1], got)
		}
	}
	if len(got) != 20 {
		t.Errorf("%d of 20 were found: %v", len(got), got)
	}
}

// serviceFile is a file of one Service.
func serviceFile(i int) *manifest.File {
	return &manifest.File{Path: fmt.Sprintf("%03d.yaml", i), Data: fmt.Appendf(nil,
		"apiVersion: v1\nkind: Service\nmetadata: {name: s%d, namespace: n%d}\nspec: {type: NodePort, ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}\n", i, i%3)}
}

// chosen gives the values of each Service, and fails where one is given twice.
func chosen(t *rapid.T, files []*manifest.File, cfg manifest.Config) map[state.ObjectName]string {
	p, err := New(&manifest.Snapshot{Files: files}, nil, cfg)
	if err != nil || len(p.Refusals) > 0 {
		t.Fatal(err, p)
	}
	out := map[state.ObjectName]string{}
	owner := map[string]state.ObjectName{}
	for _, v := range p.Values {
		out[v.Service] += v.Field + "=" + v.Text + " "
		for _, one := range strings.Split(v.Text, ",") {
			if other, given := owner[one]; given && other != v.Service {
				t.Errorf("%s and %s both get %s", v.Service, other, one)
			}
			owner[one] = v.Service
		}
	}
	return out
}

// The same Services get the same values, in whatever order and files they
// stand, also where they are in each other's way; and one more Service changes
// nothing for those whose names come before its own.
func TestChoiceIsOfTheNamesAlone(t *testing.T) {
	cfg := manifest.Config{NodePortFirst: 30000, NodePortLast: 30011, ServiceCIDRs: []netip.Prefix{
		netip.MustParsePrefix("10.96.0.0/28"), netip.MustParsePrefix("fd00::/124"),
	}}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "services")
		var files []*manifest.File
		for i := range n {
			files = append(files, serviceFile(i))
		}
		want := chosen(t, files, cfg)
		one := &manifest.File{Path: "all.yaml"}
		for _, f := range rapid.Permutation(files).Draw(t, "order") {
			one.Data = append(append(one.Data, "---\n"...), f.Data...)
		}
		if got := chosen(t, []*manifest.File{one}, cfg); !maps.Equal(got, want) {
			t.Errorf("in one file, in another order:\n got %v\nwant %v", got, want)
		}
		without := rapid.IntRange(0, n-1).Draw(t, "without")
		name := state.ObjectName{Namespace: fmt.Sprint("n", without%3), Name: fmt.Sprint("s", without)}
		fewer := chosen(t, slices.Delete(slices.Clone(files), without, without+1), cfg)
		for service, values := range fewer {
			if service.Compare(name) < 0 && values != want[service] {
				t.Errorf("without %s %s gets %s instead of %s", name, service, values, want[service])
			}
		}
	})
}

// A range is used up to its last address, and no further.
func TestRangeIsUsedUp(t *testing.T) {
	cfg := ranges
	cfg.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/27"), netip.MustParsePrefix("10.97.0.0/30")}
	s := &manifest.Snapshot{}
	for i := range 32 {
		s.Files = append(s.Files, &manifest.File{Path: fmt.Sprintf("%03d.yaml", i), Data: fmt.Appendf(nil,
			"apiVersion: v1\nkind: Service\nmetadata: {name: s%d}\nspec: {ports: [{port: 80}]}\n", i)})
	}
	p, err := New(s, nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, v := range p.Values {
		got[v.Text] = true
	}
	if len(got) != 30 || got["10.96.0.1"] || got["10.96.0.31"] || !got["10.96.0.30"] || !got["10.97.0.2"] || len(p.Refusals) != 2 {
		t.Errorf("%v %v", got, p.Refusals)
	}
}
