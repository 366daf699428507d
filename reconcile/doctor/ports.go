package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pointsman/state"
)

// span is a range of ports, both ends included.
type span struct{ first, last int }

func (s span) String() string {
	if s.first == s.last {
		return strconv.Itoa(s.first)
	}
	return fmt.Sprintf("%d-%d", s.first, s.last)
}

// ephemeralPorts looks for ports of Services among those that the kernel gives
// to outgoing connections (kubernetes/kubernetes#111682).
func (p *Patient) ephemeralPorts() []Finding {
	free := ephemeral(p.Sysctls[portRange], p.Sysctls[reservedPorts])
	all := span{int(p.NodePortFirst), int(p.NodePortLast)}
	clashes := intersect(all, free)
	f := Finding{Level: Warning,
		Means: "An outgoing connection may be given such a port, and a daemon may listen on it: what comes in for it then goes to the Service, and a health check port can't be had.",
		Fix:   set(reservedPorts, reserve(p.Sysctls[reservedPorts], all))}
	what := fmt.Sprintf("%s (%s), and not in %s", portRange, p.Sysctls[portRange], reservedPorts)
	if used := Ephemeral(p.Services, p.Sysctls[portRange], p.Sysctls[reservedPorts]); len(used) > 0 {
		f.What = fmt.Sprintf("%s: in %s", some(used), what)
		return one(f)
	}
	if len(clashes) == 0 {
		return ok("outgoing connections don't get ports of %s", all)
	}
	if p.Manifests {
		f.Level = Note
	}
	f.What = fmt.Sprintf("%s of --node-port-range %s: in %s", some(clashes), all, what)
	return one(f)
}

// Ephemeral names the NodePorts and health check ports that the kernel may give
// to outgoing connections, given the sysctls ip_local_port_range and
// ip_local_reserved_ports.
func Ephemeral(services []*state.Service, portRange, reserved string) []string {
	free := ephemeral(portRange, reserved)
	var out []string
	add := func(s *state.Service, field string, port uint16) {
		if len(intersect(span{int(port), int(port)}, free)) > 0 {
			out = append(out, fmt.Sprintf("%s %d of %s", field, port, s))
		}
	}
	for _, s := range services {
		for i := range s.Ports {
			for _, f := range s.Ports[i].Frontends {
				if f.Kind == state.NodePort {
					add(s, "nodePort", f.Port)
				}
			}
		}
		if s.HealthCheckNodePort != 0 {
			add(s, "healthCheckNodePort", s.HealthCheckNodePort)
		}
	}
	return slices.Compact(out) // one port may serve several protocols
}

// ephemeral gives the ports that are given to outgoing connections.
func ephemeral(portRange, reserved string) []span {
	var first, last int
	if _, err := fmt.Sscan(portRange, &first, &last); err != nil {
		return nil
	}
	free := []span{{first, last}}
	for _, r := range parseSpans(reserved) {
		var rest []span
		for _, s := range free {
			rest = append(rest, intersect(span{0, r.first - 1}, []span{s})...)
			rest = append(rest, intersect(span{r.last + 1, 1 << 16}, []span{s})...)
		}
		free = rest
	}
	return free
}

// parseSpans reads a list of ports and ranges: 30080,32000-32767.
func parseSpans(list string) []span {
	var out []span
	for item := range strings.SplitSeq(list, ",") {
		a, b, isRange := strings.Cut(strings.TrimSpace(item), "-")
		first, err := strconv.Atoi(a)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(b)
		}
		if err == nil {
			out = append(out, span{first, last})
		}
	}
	return out
}

// intersect gives what of some ranges is in another.
func intersect(with span, spans []span) []span {
	var out []span
	for _, s := range spans {
		both := span{max(s.first, with.first), min(s.last, with.last)}
		if both.first <= both.last {
			out = append(out, both)
		}
	}
	return out
}

// reserve adds a range to a list of reserved ports.
func reserve(list string, more span) string {
	spans := append(parseSpans(list), more)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	merged := spans[:1]
	for _, s := range spans[1:] {
		if last := &merged[len(merged)-1]; s.first <= last.last+1 {
			last.last = max(last.last, s.last)
		} else {
			merged = append(merged, s)
		}
	}
	var out []string
	for _, s := range merged {
		out = append(out, s.String())
	}
	return strings.Join(out, ",")
}
