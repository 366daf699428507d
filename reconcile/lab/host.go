package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is a network namespace that stands for a machine.
type Host struct {
	Name      string
	Namespace string // as `ip netns` knows it

	lab   *Lab
	ns    *os.File
	addrs []netip.Prefix
	nics  int
}

// settings are the sysctls of every host. Duplicate address detection would
// keep an IPv6 address unusable for its first second; a distribution's
// reverse path filter would drop the asymmetric paths that some cases are
// about.
var settings = [][2]string{
	{"net.ipv4.conf.all.rp_filter", "0"},
	{"net.ipv4.conf.default.rp_filter", "0"},
	{"net.ipv6.conf.all.disable_ipv6", "0"},
	{"net.ipv6.conf.default.disable_ipv6", "0"},
	{"net.ipv6.conf.default.accept_dad", "0"},
	{"net.ipv6.conf.default.dad_transmits", "0"},
	{"net.ipv6.conf.default.accept_ra", "0"},
	{"net.ipv6.conf.default.router_solicitations", "0"},
}

// Host makes a host with nothing but a loopback interface.
func (l *Lab) Host(name string) *Host {
	h := &Host{Name: name, Namespace: l.prefix + name, lab: l}
	if err := ip("", "netns", "add", h.Namespace); err != nil {
		l.check(err)
		return h
	}
	ns, err := os.Open(filepath.Join(namespaces, h.Namespace))
	l.check(err)
	h.ns = ns
	l.mu.Lock()
	l.hosts = append(l.hosts, h)
	l.mu.Unlock()
	for _, s := range settings {
		h.Sysctl(s[0], s[1])
	}
	h.IP("link set lo up")
	return h
}

// String gives the host's name.
func (h *Host) String() string { return h.Name }

// Do runs fn inside the host: sockets that fn opens belong to it for good, and
// files under /proc/sys/net are its own. fn runs on the caller's goroutine,
// locked to its thread for so long; goroutines that fn starts are outside.
func (h *Host) Do(fn func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("lab: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("lab: entering %s: %w", h.Name, err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("lab: cannot leave %s: %v", h.Name, err)) // all that follows would happen on the wrong host
		}
		runtime.UnlockOSThread()
	}()
	return fn()
}

// Command is exec.CommandContext on the host. `ip netns exec` becomes the
// command itself, so its process is the one to signal; it also gives it the
// host's own /sys.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", h.Namespace, name}, args...)...)
}

// Run runs a command on the host and returns what it printed on both outputs.
func (h *Host) Run(ctx context.Context, name string, args ...string) (string, error) {
	out, err := h.Command(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("lab: %s: %s %s: %w: %s", h.Name, name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// IP runs lines of the ip command ("route add default via 192.0.2.1") on the
// host.
func (h *Host) IP(lines ...string) {
	h.lab.check(ip(strings.Join(lines, "\n")+"\n", "-n", h.Namespace, "-batch", "-"))
}

// Sysctl sets a kernel parameter of the host, written with dots.
func (h *Host) Sysctl(name, value string) {
	file := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
	h.lab.check(h.Do(func() error { return os.WriteFile(file, []byte(value), 0o644) }))
}

// Forwarding makes the host a router.
func (h *Host) Forwarding() {
	h.Sysctl("net.ipv4.ip_forward", "1")
	h.Sysctl("net.ipv6.conf.all.forwarding", "1")
}

// Route sends what goes to dst (a prefix, or "default" of the next hop's
// family) by that next hop, and by no other.
func (h *Host) Route(dst string, nextHop netip.Addr) {
	h.IP(fmt.Sprintf("route replace %s via %s", dst, nextHop))
}

// Addr4 is the first IPv4 address that the host was given.
func (h *Host) Addr4() netip.Addr { return h.first(netip.Addr.Is4) }

// Addr6 is the first IPv6 address that the host was given.
func (h *Host) Addr6() netip.Addr { return h.first(netip.Addr.Is6) }

func (h *Host) first(family func(netip.Addr) bool) netip.Addr {
	for _, p := range h.addrs {
		if family(p.Addr()) {
			return p.Addr()
		}
	}
	return netip.Addr{}
}
