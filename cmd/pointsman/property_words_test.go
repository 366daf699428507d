package main

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"pointsman/reconcile/nft"
	"pointsman/state/manifest"
)

// words are the addresses, ranges and numbers of a text. That they're taken
// from the text and not from its fields keeps the decoder out of the judgement
// of what comes of it.
type words struct {
	addrs    map[netip.Addr]bool
	prefixes map[netip.Prefix]bool
	numbers  map[int64]bool
	protos   map[string]bool
}

func wordsOf(text string) words {
	w := words{map[netip.Addr]bool{}, map[netip.Prefix]bool{}, map[int64]bool{}, map[string]bool{"tcp": true}}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune(".:/_-", r) && !isAlphanumeric(r) }) {
		w.add(word)
	}
	return w
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

func (w words) add(word string) {
	if a, err := netip.ParseAddr(word); err == nil {
		w.addrs[a] = true
	}
	if p, err := netip.ParsePrefix(word); err == nil {
		w.prefixes[p] = true
	}
	// The items of a List are JSON, which has "port":80. YAML 1.1 has octal
	// numbers, and what can't be one is decimal all the same.
	digits := strings.TrimPrefix(word, ":")
	for _, base := range []int{0, 10} {
		if n, err := strconv.ParseInt(digits, base, 64); err == nil {
			w.numbers[n] = true
		}
	}
	if x, err := strconv.ParseFloat(digits, 64); err == nil && x == float64(int64(x)) {
		w.numbers[int64(x)] = true
	}
	if word == "UDP" || word == "SCTP" {
		w.protos[strings.ToLower(word)] = true
	}
}

// speech is what objects say, each by itself.
type speech struct{ services, backends []words }

func hear(objects []*manifest.Object) speech {
	var s speech
	for _, o := range objects {
		switch w := wordsOf(string(o.Raw)); o.Key.Kind {
		case manifest.KindService:
			s.services = append(s.services, w)
		case manifest.KindEndpointSlice, manifest.KindEndpoints:
			s.backends = append(s.backends, w)
		}
	}
	return s
}

// frontend reports whether a Service says all that the key of a frontend, and
// a source range behind it, does. A NodePort is on the host's addresses.
func (s speech) frontend(columns []string) bool {
	addr, port := netip.MustParseAddr(columns[0]), mustNumber(columns[2])
	return slices.ContainsFunc(s.services, func(w words) bool {
		return (w.addrs[addr] || isHostAddress(columns[0])) && w.protos[columns[1]] && w.numbers[port] &&
			(len(columns) < 4 || columns[3] == columns[0] || columns[3] == netip.PrefixFrom(addr, addr.BitLen()).String() || w.prefixes[mustPrefix(columns[3])])
	})
}

// endpoint reports whether a slice says an address and port.
func (s speech) endpoint(addr, port string) bool {
	return slices.ContainsFunc(s.backends, func(w words) bool { return w.addrs[netip.MustParseAddr(addr)] && w.numbers[mustNumber(port)] })
}

func (s speech) serviceAddr(addr string) bool {
	return slices.ContainsFunc(s.services, func(w words) bool { return w.addrs[netip.MustParseAddr(addr)] })
}

// claims reports whether a Service may have claimed what an element is about:
// an address, or a number of the pool of NodePorts.
func (s speech) claims(e nft.Element) bool {
	columns := strings.Split(e.Key, " . ")
	return s.serviceAddr(columns[0]) || len(columns) > 2 && isHostAddress(columns[0]) &&
		slices.ContainsFunc(s.services, func(w words) bool { return w.numbers[mustNumber(columns[2])] })
}

// requireSaid requires that a table has nothing but what the objects and the
// host's configuration say.
func (s speech) requireSaid(t rapid.TB, by place, table *nft.Table) {
	for _, g := range table.Groups {
		for _, e := range *g {
			if !s.says(by, e) {
				t.Errorf("nobody says %s { %s : %s }", e.Set, e.Key, e.Value)
			}
		}
	}
}

func (s speech) says(by place, e nft.Element) bool {
	key, value := strings.Split(e.Key, " . "), strings.Split(e.Value, " . ")
	switch e.Set {
	case "cluster-ips", "external-vips":
		return s.serviceAddr(key[0])
	case "local-cidrs":
		return slices.Contains(by.local, mustPrefix(key[0]))
	case "service-cidrs":
		return slices.Contains(by.ServiceCIDRs, mustPrefix(key[0]))
	case "hairpin":
		return key[0] == key[1] && s.endpoint(key[1], key[3])
	case "source-ranges":
		return s.frontend(key)
	case "sticky-record":
		return s.frontend(key[:3]) && s.endpoint(key[3], key[4])
	}
	return s.frontend(key[:3]) && (len(value) < 2 || s.endpoint(value[0], value[1]))
}

func isHostAddress(text string) bool { return text == hostAddress4 || text == hostAddress6 }

// mustNumber and mustPrefix read what requireWellFormed has found to be well
// formed. A host may stand for its range.
func mustNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func mustPrefix(text string) netip.Prefix {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return netip.MustParsePrefix(text)
}
