package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pointsman/state"
)

// TestC37: a port that outgoing connections may get is told, and which sysctl
// keeps it from them; a reserved one is not.
func TestC37EphemeralPorts(t *testing.T) {
	wide := func(reserved string) func(*Patient) {
		return both(sysctl(portRange, "30000 60999"), sysctl(reservedPorts, reserved))
	}
	used := serving(func(s *state.Service) { s.HealthCheckNodePort = 30901 })
	for _, c := range []struct {
		name   string
		change func(*Patient)
		level  Level
		says   string
	}{
		{"the kernel's own range", used, OK, "30000-32767"},
		{"both ports", both(wide(""), used), Warning, "nodePort 30080 of shop/web, healthCheckNodePort 30901 of shop/web: in net.ipv4.ip_local_port_range (30000 60999)"},
		{"the cure", both(wide("40000"), used), Warning, "sysctl -w net.ipv4.ip_local_reserved_ports=30000-32767,40000"},
		{"one reserved", both(wide("30080"), used), Warning, "healthCheckNodePort 30901 of shop/web: in"},
		{"both reserved", both(wide("30080,30901"), used), Note, "30000-30079, 30081-30900, 30902-32767 of --node-port-range"},
		{"all reserved", both(wide("30000-32767"), used), OK, ""},
		{"without manifests", wide("30000-30999"), Warning, "31000-32767 of --node-port-range 30000-32767"},
		{"unreadable", sysctl(portRange, ""), OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, worst := examined("ephemeral-ports", c.change)
			if all := strings.Join(lines, "\n"); worst != c.level || !strings.Contains(all, c.says) {
				t.Errorf("want %s with %q, got\n%s", c.level, c.says, all)
			}
		})
	}
}

func TestEphemeralNamesAPortOfTwoProtocolsOnce(t *testing.T) {
	p := well()
	serving(func(s *state.Service) {
		udp := s.Ports[0]
		udp.Protocol = state.UDP
		s.Ports = append(s.Ports, udp)
	})(p)
	want := []string{"nodePort 30080 of shop/web"}
	if got := Ephemeral(p.Services, "30000 60999", ""); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestReserve(t *testing.T) {
	for _, c := range [][2]string{
		{"", "30000-32767"}, {"80", "80,30000-32767"}, {"29999,32768-40000", "29999-40000"}, {"30080,nonsense", "30000-32767"},
	} {
		if got := reserve(c[0], span{30000, 32767}); got != c[1] {
			t.Errorf("%q: got %q, want %q", c[0], got, c[1])
		}
	}
}

func TestSomeIsSome(t *testing.T) {
	var all []netip.Addr
	for i := range 7 {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	if got := some(all); got != "10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 2 more" {
		t.Error(got)
	}
	if got := some(all[:1]); got != fmt.Sprint(all[0]) {
		t.Error(got)
	}
}
