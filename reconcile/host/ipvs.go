package host

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// VirtualServer is a virtual service of IPVS.
type VirtualServer struct {
	Protocol string // TCP, UDP, SCTP, or FWM for a firewall mark
	Address  netip.AddrPort
}

// readVirtualServers lists IPVS's virtual services. There are none without the
// module.
func readVirtualServers() ([]VirtualServer, error) {
	list, err := os.ReadFile("/proc/thread-self/net/ip_vs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return parseVirtualServers(string(list)), err
}

// parseVirtualServers reads /proc/net/ip_vs (ip_vs_ctl.c): addresses and ports
// in hexadecimal, an IPv6 address as usual, in brackets.
func parseVirtualServers(list string) []VirtualServer {
	var out []VirtualServer
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "FWM":
			out = append(out, VirtualServer{Protocol: fields[0]})
		case "TCP", "UDP", "SCTP":
			if at, ok := parseVirtualAddress(fields[1]); ok {
				out = append(out, VirtualServer{Protocol: fields[0], Address: at})
			}
		}
	}
	return out
}

func parseVirtualAddress(text string) (at netip.AddrPort, ok bool) {
	i := strings.LastIndex(text, ":")
	if i < 0 {
		return at, false
	}
	port, err := strconv.ParseUint(text[i+1:], 16, 16)
	if err != nil {
		return at, false
	}
	if inner, found := strings.CutPrefix(text[:i], "["); found {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return netip.AddrPortFrom(a, uint16(port)), err == nil
	}
	b, err := hex.DecodeString(text[:i])
	if err != nil {
		return at, false
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(port)), ok
}
