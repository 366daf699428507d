package reconcile

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// Pair is a frontend of this host, and an endpoint that it gave connections.
type Pair struct {
	Protocol           state.Protocol
	Frontend, Endpoint netip.AddrPort
}

// PairCount is how many connections a Pair was given. To conntrack a UDP
// flow is one, too.
type PairCount struct {
	Pair
	Count uint64

	// Expires is the time from now in which the kernel forgets the pair, if it
	// gets no more.
	Expires time.Duration
}

// ReadPairCounts reads what the kernel has counted, of both families, in no
// order. There's nothing where the program doesn't count, and nothing of a pair
// that had no connection for a day. It reads the kernel, so it costs: see
// connections.
func ReadPairCounts() ([]PairCount, error) {
	var all []PairCount
	for _, f := range families() {
		counts, err := nft.Counts(f, &connections)
		if err != nil {
			return nil, err
		}
		for _, c := range counts {
			p, err := parsePair(c.Key)
			if err != nil {
				return nil, fmt.Errorf("set %s: %w", connections.Name, err)
			}
			all = append(all, PairCount{p, c.Packets, c.Expires})
		}
	}
	return all, nil
}

// parsePair reads a key of the connections set.
func parsePair(key string) (Pair, error) {
	var c [5]string
	rest, ok := key, true
	for i := range c {
		c[i], rest, ok = strings.Cut(rest, " . ")
	}
	if ok || c[4] == "" {
		return Pair{}, fmt.Errorf("%q is no frontend and endpoint", key)
	}
	p := Pair{Protocol: state.Protocol(strings.ToUpper(c[1]))}
	var err error
	if p.Frontend, err = addrPort(c[0], c[2]); err == nil {
		p.Endpoint, err = addrPort(c[3], c[4])
	}
	return p, err
}

func addrPort(addr, port string) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(a, uint16(n)), err
}
