package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pointsman/state"
)

// maxHints bounds what is said of an address beside the answer.
const maxHints = 8

// hints says what the address has to do with Services other than the one that
// has it, for who asks of it may have meant something else.
func (x *explaining) hints() []string {
	h := hints{x: x}
	h.otherProtocols()
	if x.claim.service == nil {
		h.otherPorts()
		h.endpoint()
		h.nodePort()
		h.healthCheck()
	}
	h.elsewhere()
	if len(h.out) > maxHints {
		h.out = append(h.out[:maxHints], fmt.Sprintf("and %d more like these", len(h.out)-maxHints))
	}
	return h.out
}

type hints struct {
	x   *explaining
	out []string
}

func (h *hints) add(format string, args ...any) { h.out = append(h.out, fmt.Sprintf(format, args...)) }

func (h *hints) otherProtocols() {
	for _, p := range allProtocols {
		if p == h.x.q.Protocol {
			continue
		}
		if c := h.x.claimOf(p); c.service != nil {
			h.add("%s/%s is served, by Service %s", h.x.q.To, p, c.service.ObjectName)
		}
	}
}

// otherPorts names what else the address has.
func (h *hints) otherPorts() {
	a := h.x.q.To.Addr()
	for _, s := range h.x.Input.Services {
		if !hasAddress(s, a) {
			continue
		}
		var ports []string
		for _, p := range s.Ports {
			for _, f := range p.Frontends {
				if f.Kind != state.NodePort && f.Address == a {
					ports = append(ports, fmt.Sprintf("%d/%s", f.Port, p.Protocol))
				}
			}
		}
		h.add("%s is an address of Service %s: ports %s", a, s.ObjectName, strings.Join(slices.Compact(ports), ", "))
	}
}

// endpoint tells of Services that have the address for an endpoint.
func (h *hints) endpoint() {
	for _, s := range h.x.Input.Services {
		for i := range s.Ports {
			p := &s.Ports[i]
			for k := range p.Endpoints {
				if p.Endpoints[k].Address == h.x.q.To && p.Protocol == h.x.q.Protocol {
					h.add("it's an endpoint of Service %s: see pointsman explain endpoint %s", s.ObjectName, h.x.q.To)
				}
			}
		}
	}
}

// nodePort tells where the NodePort of that number answers, if there's one.
func (h *hints) nodePort() {
	for _, s := range h.x.Input.Services {
		for i := range s.Ports {
			p := &s.Ports[i]
			is := func(f state.Frontend) bool {
				return f.Kind == state.NodePort && f.Port == h.x.q.To.Port() && h.x.planner.isMine(f.Address)
			}
			if p.Protocol == h.x.q.Protocol && slices.ContainsFunc(p.Frontends, is) {
				h.add("%d is a NodePort of Service %s: %s", h.x.q.To.Port(), s.ObjectName, h.x.nodePortsText())
			}
		}
	}
}

// healthCheck tells what is answered there, if it's the healthCheckNodePort of a
// Service.
func (h *hints) healthCheck() {
	at, node := h.x.q.To, h.x.Input.Node.Name
	check, known := healthChecks(h.x.Input.Services, node)[at.Port()]
	if !known || h.x.q.Protocol != state.TCP {
		return
	}
	ready := check.IPv4
	if at.Addr().Is6() {
		ready = check.IPv6
	}
	text := "it answers 503, for " + node + " has no ready endpoint of this family"
	switch {
	case !slices.Contains(h.x.Input.NodePortAddresses, at.Addr()):
		text = h.x.nodePortsText()
	case ready > 0:
		text = fmt.Sprintf("it answers 200, for %s has %d ready of this family, while the kernel is as it should be", node, ready)
	}
	h.add("%d is the healthCheckNodePort of Service %s: %s", at.Port(), check.Service, text)
}

func (x *explaining) nodePortsText() string {
	var at []string
	for _, a := range x.Input.NodePortAddresses {
		if x.planner.isMine(a) {
			at = append(at, a.String())
		}
	}
	text := "NodePorts of " + x.Input.Node.Name + " answer on " + strings.Join(at, ", ")
	if at == nil {
		text = x.Input.Node.Name + " has no address that NodePorts of this family answer on"
	}
	if x.NodePortsWhy != "" {
		text += " (" + x.NodePortsWhy + ")"
	}
	if x.q.To.Addr().IsLoopback() {
		text += ", and never on loopback"
	}
	return text
}

// elsewhere names the Services that have the address on other hosts only.
func (h *hints) elsewhere() {
	for _, s := range h.x.Elsewhere {
		if h.x.names(s) {
			h.add("Service %s (%s) has it on %s only (pointsman/node-selector), and this is %s",
				s.ObjectName, s.Source, nodesText(s.Nodes), h.x.Input.Node.Name)
		}
	}
}

func nodesText(nodes []string) string {
	if len(nodes) == 0 {
		return "no node"
	}
	return strings.Join(nodes, ", ")
}

// names reports whether a Service has a frontend of the address, port and
// protocol, NodePorts on any address that isn't another Service's.
func (x *explaining) names(s *state.Service) bool {
	return slices.ContainsFunc(s.Ports, func(p state.Port) bool {
		return p.Protocol == x.q.Protocol && slices.ContainsFunc(p.Frontends, func(f state.Frontend) bool {
			if f.Port != x.q.To.Port() {
				return false
			}
			if f.Kind == state.NodePort {
				return slices.Contains(x.Input.NodePortAddresses, x.q.To.Addr()) && x.planner.isMine(f.Address)
			}
			return f.Address == x.q.To.Addr()
		})
	})
}

// addressText is an endpoint's address as its port is of no matter.
func addressText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
