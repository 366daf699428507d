package main

import (
	"fmt"
	"strings"

	"pointsman/reconcile/doctor"
	"pointsman/reconcile/host"
	"pointsman/state"
	"pointsman/state/event"
)

// warnEphemeral warns of NodePorts and health check ports that the kernel may
// give to outgoing connections, once for each set of them
// (kubernetes/kubernetes#138272).
func (s *source) warnEphemeral(services []*state.Service) {
	const portRange, reserved = "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"
	between, err := host.Sysctl(portRange)
	if err != nil {
		return // what can't be read can't be warned of
	}
	kept, _ := host.Sysctl(reserved)
	ports := doctor.Ephemeral(services, between, kept)
	text := fmt.Sprintf("%s (%s), and not in %s", portRange, strings.Join(strings.Fields(between), "-"), reserved)
	if n := len(ports); n > maxLogged {
		ports = append(ports[:maxLogged], fmt.Sprintf("%d more", n-maxLogged))
	}
	list := strings.Join(ports, ", ")
	if list != s.ephemeral && list != "" {
		s.log.Warn("outgoing connections may be given ports of Services", "reason", event.PortsAtRisk, "ports", list, "in", text, "see", "pointsman doctor")
	}
	s.ephemeral = list
}
