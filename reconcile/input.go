package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pointsman/reconcile/host"
	"pointsman/state/event"
)

// input adds what this host says of itself to what is desired.
func (l *Loop) input(d *Desired) *Input {
	addrs := l.addrs.Latest()
	in := &Input{
		Services: d.Services, Node: Node{Name: l.NodeName, Zone: d.Zone}, Uncounted: l.Uncounted,
	}
	var why []string
	for i, s := range []host.Stack{addrs.V4, addrs.V6} {
		for _, a := range s.Addresses {
			in.Addresses = append(in.Addresses, a.Addr)
		}
		chosen, reason := host.NodePortAddresses(s, d.InternalIPs, l.NodePortCIDRs)
		in.NodePortAddresses = append(in.NodePortAddresses, chosen...)
		why = append(why, [...]string{"IPv4: ", "IPv6: "}[i]+reason)
	}
	slices.SortFunc(in.Addresses, netip.Addr.Compare)
	l.report(&l.nodePorts, fmt.Sprintf("%v (%s)", in.NodePortAddresses, strings.Join(why, "; ")), func(text string) {
		l.Log.Info("NodePorts answer here", "reason", event.NodePortAddresses, "addresses", text)
	})
	l.safeRanges(in, addrs, d)
	return in
}

// safeRanges leaves out of the input the ranges that would lock somebody out.
func (l *Loop) safeRanges(in *Input, addrs host.Addrs, d *Desired) {
	var service, local []string
	in.ServiceCIDRs, service = SafeServiceCIDRs(l.ServiceCIDRs, addrs, d)
	in.LocalCIDRs, local = SafeLocalCIDRs(l.LocalCIDRs, addrs, l.NodeName, d)
	text := strings.Join(append(service, local...), "; ")
	l.Health.Degraded("ranges", text)
	l.report(&l.refused, text, func(text string) {
		l.Log.Error("a range is not in force: it would lock somebody out", "reason", event.RangeRefused, "why", text)
	})
}

// report calls say when a text is another one than the last time, and not
// empty.
func (l *Loop) report(last *string, text string, say func(string)) {
	if *last != text && text != "" {
		say(text)
	}
	*last = text
}
