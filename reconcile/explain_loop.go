package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
	"pointsman/state"
)

// Context is what an answer needs that the loop doesn't know.
type Context struct {
	Desired   *Desired         // what is to be served now; nil if nothing is known
	Declared  []*state.Service // what this host serves, before health and drains
	Elsewhere []*state.Service // what only others serve
	Verdicts  *state.Verdicts
}

// errNotYet: nobody has said yet what is to be served.
var errNotYet = errors.New("nothing is in force yet, so that there is nothing to explain: see pointsman status")

// Explain answers a question about this host. It may be called beside Run, of
// which it disturbs nothing: it reads the kernel with sockets of its own.
func (l *Loop) Explain(ctx context.Context, q Question, now func() *Context) (*Explanation, error) {
	return calm(ctx, func() (*Explanation, *KernelState, error) {
		in, c := l.Latest(), now()
		if in == nil {
			return nil, nil, errNotYet
		}
		asked := newExplaining(q, &Evidence{Input: in})
		ev := l.evidence(in, c, q.To.Addr())
		found, why := l.look(Ask(q, in))
		ev.Kernel = found
		tally := &Tally{From: q.From.Unmap()}
		problem := tally.count(ctx, asked.planner.family, host.ConnectionFilter{Protocol: asked.q.Protocol, Destination: asked.q.To})
		ev.Tally = tally
		out := Explain(q, ev)
		out.Kernel.Error, out.Connections.Error = why, problem
		l.remedy(&out.Kernel, in.isBehind(c.Desired))
		return out, &out.Kernel, nil
	})
}

// ExplainEndpoint explains an endpoint, as Explain does an address.
func (l *Loop) ExplainEndpoint(ctx context.Context, e netip.AddrPort, now func() *Context) (*EndpointExplanation, error) {
	return calm(ctx, func() (*EndpointExplanation, *KernelState, error) {
		in, c := l.Latest(), now()
		if in == nil {
			return nil, nil, errNotYet
		}
		e := netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
		ev := l.evidence(in, c, e.Addr())
		found, why := l.look(AskEndpoint(e, in))
		ev.Kernel = found
		tally := &Tally{ByFrontend: true}
		problem := tally.count(ctx, familyOf(e.Addr()), host.ConnectionFilter{ReplySource: e})
		ev.Tally = tally
		out := ExplainEndpoint(e, ev, c.Verdicts)
		out.Kernel.Error, out.Connections.Error = why, problem
		l.remedy(&out.Kernel, in.isBehind(c.Desired))
		return out, &out.Kernel, nil
	})
}

// isBehind reports whether something else is to be served by now.
func (in *Input) isBehind(d *Desired) bool {
	return d != nil && !slices.Equal(in.Services, d.Services)
}

// The loop is given some time to finish what it's about: a difference that's
// gone by then is none.
const (
	calmTries = 4
	calmPause = 250 * time.Millisecond
)

func calm[T any](ctx context.Context, look func() (*T, *KernelState, error)) (*T, error) {
	for try := 1; ; try++ {
		out, kernel, err := look()
		if err != nil || kernel.OK() && !kernel.Behind || try == calmTries {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, nil
		case <-time.After(calmPause):
		}
	}
}

func (l *Loop) evidence(in *Input, c *Context, of netip.Addr) *Evidence {
	addrs := l.addrs.Latest()
	stack := addrs.V4
	if familyOf(of) == nft.IPv6 {
		stack = addrs.V6
	}
	var internalIPs []netip.Addr
	if c.Desired != nil {
		internalIPs = c.Desired.InternalIPs
	}
	_, why := host.NodePortAddresses(stack, internalIPs, l.NodePortCIDRs)
	return &Evidence{Input: in, Declared: c.Declared, Elsewhere: c.Elsewhere, NodePortsWhy: why}
}

func familyOf(a netip.Addr) nft.Family {
	if a.Unmap().Is6() {
		return nft.IPv6
	}
	return nft.IPv4
}

// look asks the kernel. What keeps it from answering is said in the end: the
// intent is known all the same.
func (l *Loop) look(program *nft.Table, q nft.Lookup) (found *nft.Found, problem string) {
	i := slices.IndexFunc(l.tables, func(t *table) bool { return t.in.Family.String() == string(program.Family) })
	if i < 0 {
		return nil, fmt.Sprintf("this host's kernel has no family %s", program.Family)
	}
	written := l.tables[i].kernel.Prints() // before the kernel: else what is just being written is taken for somebody's
	found, err := nft.Look(program, q, host.Generation)
	if err != nil {
		return nil, err.Error()
	}
	for _, name := range written.Replaced(found.Prints) {
		found.Faults = append(found.Faults, "chain "+name+" has other rules than were written")
	}
	return found, ""
}

// count counts the connections that a filter leaves.
func (t *Tally) count(ctx context.Context, f nft.Family, of host.ConnectionFilter) (problem string) {
	if err := host.EachConnectionOf(ctx, hostFamily(f), of, t.Add); err != nil {
		return err.Error()
	}
	return ""
}

// remedy says what becomes of what is wrong.
func (l *Loop) remedy(k *KernelState, behind bool) {
	k.Behind = behind
	if k.OK() && !behind {
		return
	}
	status := l.Health.Status(time.Now())
	i := slices.IndexFunc(status.Degraded, func(text string) bool { return strings.HasPrefix(text, "nftables: ") })
	switch {
	case status.LastUpdated.IsZero():
		k.Remedy = "the agent is about to program it for the first time"
	case !status.Healthy && i >= 0:
		k.Remedy = "the agent can't repair it: " + strings.TrimPrefix(status.Degraded[i], "nftables: ")
	case behind:
		k.Remedy = "a change is about to be programmed"
	default:
		k.Remedy = "the agent repairs it as soon as the kernel tells of it, and within --resync at the latest"
	}
}
