package host

import (
	"errors"
	"io/fs"
	"testing"
)

func TestSysctl(t *testing.T) {
	ip(t, "link add pm.100 type bridge")
	t.Cleanup(func() { ip(t, "link del pm.100") })
	for _, name := range []string{
		"net.ipv4.ip_forward", "net/ipv4/ip_forward", "net.ipv6.conf.all.forwarding",
		"net/ipv4/conf/pm.100/forwarding", "net.ipv4.conf.pm/100.forwarding",
	} {
		if value, err := Sysctl(name); err != nil || value != "0" {
			t.Errorf("%s: %q, %v", name, value, err)
		}
	}
}

func TestSysctlErrors(t *testing.T) {
	if _, err := Sysctl("net.ipv4.no_such"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown one: %v", err)
	}
	for _, name := range []string{"", "/etc/passwd", "../../etc/passwd", "net.//.passwd", "net/../../../etc/passwd"} {
		if value, err := Sysctl(name); err == nil {
			t.Errorf("%q: %q", name, value)
		}
	}
}
