package host

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFacts(t *testing.T) {
	ip(t, "link add pm.br type bridge", "link add pm0 type veth peer name pm1", "link set pm0 master pm.br", "link set pm1 master pm.br",
		"link set pm1 type bridge_slave hairpin on", "link set pm.br up", "addr add 192.0.2.11/24 dev pm.br")
	t.Cleanup(func() { ip(t, "link del pm0", "link del pm.br") })
	f := ReadFacts(Questions{
		Sysctls: []string{"net.ipv4.ip_local_port_range", "net.no.such"},
		PerLink: []string{"net.ipv4.conf.%s.forwarding"},
		Destinations: []netip.Addr{netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("198.51.100.1"),
			netip.MustParseAddr("2001:db8::1")},
		Watch: "/no/such/directory",
	})
	if len(f.Unread) != 0 || f.Inotify != "" || !strings.Contains(f.Kernel, ".") {
		t.Errorf("%+v", f)
	}
	sysctls := map[string]string{"net.ipv4.ip_local_port_range": "32768 60999", "net.ipv4.conf.all.forwarding": "0", "net.ipv4.conf.pm/br.forwarding": "0"}
	if !reflect.DeepEqual(f.Sysctls, sysctls) {
		t.Errorf("sysctls: %v", f.Sysctls)
	}
	if _, near := f.Unreachable[netip.MustParseAddr("192.0.2.99")]; near || len(f.Unreachable) != 2 {
		t.Errorf("unreachable: %v", f.Unreachable)
	}
	for _, l := range []Link{{Name: "pm.br", Kind: "bridge"}, {Name: "pm0", Kind: "veth", Bridge: "pm.br"}, {Name: "pm1", Kind: "veth", Bridge: "pm.br", Hairpin: true}} {
		if !slices.Contains(f.Links, l) {
			t.Errorf("no %+v in %+v", l, f.Links)
		}
	}
}

func TestVirtualServers(t *testing.T) {
	const list = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr 
  -> 0A140015:1F90      Masq    1      0          0         
UDP  [2001:0db8:0096:0000:0000:0000:0000:0020]:0035 rr persistent 10800
FWM  00000001 wlc
SCTP nonsense:0035 rr
SCTP 0A600001:port rr
TCP
TCP nonsense
`
	want := []VirtualServer{
		{"TCP", netip.MustParseAddrPort("10.96.0.1:443")}, {"UDP", netip.MustParseAddrPort("[2001:db8:96::20]:53")}, {Protocol: "FWM"},
	}
	if got := parseVirtualServers(list); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestLockHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder := func(want int) {
		t.Helper()
		if pid, err := LockHolder(path); pid != want || err != nil {
			t.Errorf("got %d, %v, want %d", pid, err, want)
		}
	}
	holder(0)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	holder(0)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	holder(os.Getpid())
	// Looking takes nothing: another lock is refused as before, then given.
	if err := exec.Command("flock", "-n", path, "true").Run(); err == nil {
		t.Error("the lock was lost")
	}
	f.Close()
	holder(0)
	if _, err := LockHolder("/dev/null/lock"); err == nil {
		t.Error("a file in a file")
	}
}

func TestFlockOwner(t *testing.T) {
	for line, want := range map[string]int{
		"1: FLOCK  ADVISORY  WRITE 708 fd:01:4242 0 EOF":    708,
		"1: -> FLOCK  ADVISORY  WRITE 709 fd:01:4242 0 EOF": 0,
		"2: POSIX  ADVISORY  WRITE 710 fd:01:4242 0 EOF":    0,
		"2: FLOCK  ADVISORY  WRITE ? fd:01:4242 0 EOF":      0,
		"": 0,
	} {
		if got := flockOwner(line); got != want {
			t.Errorf("%s: %d", line, got)
		}
	}
}
