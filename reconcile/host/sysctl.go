package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sysctl reads a sysctl of this network namespace: net.ipv4.ip_forward. As in
// sysctl(8), the first separator says which of "." and "/" separates; names
// of interfaces that hold a dot are written net/ipv4/conf/eth0.100/forwarding
// or net.ipv4.conf.eth0/100.forwarding.
//
// One that the kernel doesn't have is an error that is fs.ErrNotExist:
// net.netfilter.nf_conntrack_max appears with the module nf_conntrack,
// net.bridge.bridge-nf-call-iptables with br_netfilter.
func Sysctl(name string) (string, error) {
	file := sysctlFile(name)
	if !filepath.IsLocal(file) {
		return "", fmt.Errorf("sysctl %q: not a name", name)
	}
	value, err := os.ReadFile(filepath.Join("/proc/sys", file))
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", name, err)
	}
	return strings.TrimSpace(string(value)), nil
}

// sysctlFile is a sysctl's place below /proc/sys.
func sysctlFile(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '/' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}
