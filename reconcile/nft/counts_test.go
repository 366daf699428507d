package nft

import (
	"fmt"
	"testing"
	"time"
)

var counting = &Set{Name: "counting", Key: []Field{Addr, Proto, Service, Addr, Service}, Dynamic: 4}

// TestKernelCounts: counters come back as the kernel has them, and a set that
// isn't there, or isn't ours, has none.
func TestKernelCounts(t *testing.T) {
	for f, c := range map[Family]struct{ typ, key string }{
		IPv4: {"ipv4_addr", "10.96.0.1 . tcp . 80 . 10.20.0.11 . 8080"},
		IPv6: {"ipv6_addr", "fd00::1 . sctp . 80 . fd01::11 . 8080"},
	} {
		openTest(t, f)
		absent := func(when string) {
			if got, err := Counts(f, counting); got != nil || err != nil {
				t.Errorf("%s: %v, %v", when, got, err)
			}
		}
		absent("no table")
		nftRun(t, fmt.Sprintf("add table %s pointsman", f))
		absent("no set")
		nftRun(t, fmt.Sprintf("add set %[1]s pointsman counting { type %[2]s . inet_proto . inet_service . %[2]s . inet_service; flags dynamic,timeout; size 4; }", f, c.typ))
		absent("an empty set")
		nftRun(t, fmt.Sprintf("add element %s pointsman counting { %s counter packets 5000000000 bytes 7 timeout 1h }", f, c.key))
		got, err := Counts(f, counting)
		if err != nil || len(got) != 1 || got[0].Key != c.key || got[0].Packets != 5_000_000_000 ||
			got[0].Expires <= 30*time.Minute || got[0].Expires > time.Hour {
			t.Errorf("%s: %+v, %v", f, got, err)
		}
		nftRun(t, fmt.Sprintf("delete set %[1]s pointsman counting\nadd set %[1]s pointsman counting { type inet_service; elements = { 80 }; }", f))
		if got, err := Counts(f, counting); err == nil {
			t.Errorf("a set of another type is taken for %+v", got)
		}
	}
}
