package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/conformance/reading"
	"pointsman/reconcile/lab"
	"pointsman/reconcile/nft"
)

// bench is the world in the kernel: namespaces, with servers where reading
// says that there are some.
type bench struct {
	t     testing.TB
	hosts map[string]*lab.Host
	nodes []*lab.Host
}

func newBench(t testing.TB) *bench {
	t.Helper()
	l := lab.New(t).L1(1, 1, 1)
	b := &bench{t: t, hosts: map[string]*lab.Host{"c": l.Client, "r": l.Router}, nodes: l.Nodes}
	for _, h := range slices.Concat(l.Nodes, l.Backends) {
		b.hosts[h.Name] = h
		second := *h
		second.Name += fmt.Sprint(":", reading.Port2)
		for _, proto := range []string{lab.TCP, lab.UDP, lab.SCTP} {
			h.Serve(proto, reading.Port, h.Addr4(), h.Addr6())
			second.Serve(proto, reading.Port2, h.Addr4(), h.Addr6())
		}
	}
	b.limits()
	b.uplink()
	b.vips()
	return b
}

// limits has each refusal seen, not some a second.
func (b *bench) limits() {
	for _, h := range b.hosts {
		h.Sysctl("net.ipv4.icmp_ratelimit", "0")
		h.Sysctl("net.ipv4.icmp_msgs_per_sec", "100000")
		h.Sysctl("net.ipv4.icmp_msgs_burst", "100000")
		h.Sysctl("net.ipv6.icmp.ratelimit", "0")
		b.nft(h, resetsOnly)
	}
}

// uplink has r answer whatever it would send on: what clients make of a router
// that knows no way depends on protocol, family and luck.
func (b *bench) uplink() {
	for _, proto := range []string{lab.TCP, lab.UDP, lab.SCTP} {
		b.hosts["r"].Serve(proto, reading.Port)
	}
	for _, f := range families {
		b.nft(b.hosts["r"], fmt.Sprintf(`table inet world {
			chain uplink { type nat hook prerouting priority -100; }
			chain uplink { %s daddr { %s, %s } meta l4proto { tcp, udp, sctp } redirect to :%d; }
		}`, f.Family, reading.RangeAt("203.0.113.0/24", f.IPv6), reading.RangeAt(clusterIPs, f.IPv6), reading.Port))
	}
}

// resetsOnly makes hosts deaf to "port unreachable" about TCP, which is to be
// refused by a reset: those ICMP errors are rate-limited elsewhere.
const resetsOnly = `table inet world {
	chain deaf {
		type filter hook input priority 0;
		icmp type destination-unreachable icmp code port-unreachable @th,136,8 6 drop
		icmpv6 type destination-unreachable icmpv6 code port-unreachable @th,112,8 6 drop
	}
}`

func (b *bench) nft(h *lab.Host, commands string) {
	cmd := h.Command(b.t.Context(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("nft on %s: %v\n%s", h, err, out)
	}
}

// vips gives the Services' addresses to the hosts as the world has them.
func (b *bench) vips() {
	for _, f := range families {
		for _, name := range append([]string{"c"}, reading.Nodes...) {
			for _, v := range reading.VIPs {
				a, host := reading.At(v.Address, f.IPv6), f.Hosts[name]
				way := f.Way(host, a)
				switch {
				case way.Dev == "lo":
					b.hosts[name].IP(fmt.Sprintf("addr add %s/%d dev lo", a, a.BitLen()))
				case way.To != "" && way.To != "r":
					b.hosts[name].Route(fmt.Sprintf("%s/%d", a, a.BitLen()), f.Hosts[way.To].Address())
				}
			}
		}
	}
}

// load writes each node's rulesets anew, and has conntrack forget what went by
// those before.
func (b *bench) load(tables map[string][]*nft.Table) error {
	var wait sync.WaitGroup
	errs := make([]error, len(b.nodes))
	for i, n := range b.nodes {
		var commands strings.Builder
		for _, t := range tables[n.Name] {
			fmt.Fprintf(&commands, "add table %[1]s %[2]s\ndelete table %[1]s %[2]s\n%[3]s", t.Family, nft.TableName, nft.Render(t))
		}
		wait.Go(func() {
			cmd := n.Command(b.t.Context(), "sh", "-c", "nft -f - && conntrack -F")
			cmd.Stdin = strings.NewReader(commands.String())
			if out, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("%s: %w: %s", n, err, out)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// check is a connection and what should become of it.
type check struct {
	family
	reading.Connection
	want reading.Outcome
}

func (c check) String() string {
	return fmt.Sprintf("%s to %s/%s", c.From, c.To, c.Proto)
}

// A check makes several connections if a client should stay with one server,
// and else as many as it takes until all that may happen has happened: of five
// servers one is left out of 200 connections once in 10^19.
const (
	several = 8
	many    = 200

	// silence is how long nothing must come back where packets are dropped.
	silence = 300 * time.Millisecond
)

// all makes the checks side by side and gives what they complain of. With an
// impatient context they end at the first complaint.
func (b *bench) all(ctx context.Context, checks []check, patience time.Duration, complain func(error)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, 128)
	for _, c := range checks {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if err := b.check(ctx, c, patience); err != nil && ctx.Err() == nil {
				complain(fmt.Errorf("%s: %w, want %s", c, err, c.want))
			}
		})
	}
	wait.Wait()
}

// check makes connections until each fate that is wanted has been seen.
func (b *bench) check(ctx context.Context, c check, patience time.Duration) error {
	missing, least := slices.Clone(c.want.Fates), 1
	silent := func(fate string) bool { return fate == reading.Dropped || fate == reading.Lost }
	switch {
	case !slices.ContainsFunc(missing, func(f string) bool { return !silent(f) }):
		patience = silence
	case slices.ContainsFunc(missing, silent):
		patience = min(patience, 2*lab.Patience)
	}
	if c.want.Sticky {
		missing, least = nil, several
	}
	first := ""
	for n := 0; n < least || len(missing) > 0; n++ {
		reply := b.ask(ctx, c, patience)
		fate := c.fate(reply)
		if n == many {
			return fmt.Errorf("%d connections without %s", n, missing)
		}
		if !slices.Contains(c.want.Fates, fate) {
			return fmt.Errorf("connection %d: %s", n, reply)
		}
		if first == "" {
			first = fate
		}
		if c.want.Sticky && fate != first {
			return fmt.Errorf("connection %d: %s after %s", n, fate, first)
		}
		missing = slices.DeleteFunc(missing, func(f string) bool { return f == fate })
	}
	return nil
}

// ask makes one connection. A datagram that is dropped or refused by a rule of
// its own host is an error of send in both cases; the socket knows more.
func (b *bench) ask(ctx context.Context, c check, patience time.Duration) lab.Reply {
	proto := strings.ToLower(string(c.Proto))
	if proto != lab.UDP {
		return b.hosts[c.From].Connect(ctx, proto, c.To, patience)
	}
	conn, err := b.hosts[c.From].Dial(ctx, proto, c.To, 0)
	if err != nil {
		return lab.Reply{Outcome: lab.OutcomeOf(err), Err: err}
	}
	defer conn.Close()
	reply := conn.Ask("hello", patience)
	if !errors.Is(reply.Err, syscall.EPERM) {
		return reply
	}
	err = conn.SetReadDeadline(time.Now().Add(silence))
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // nothing was sent, so this can't succeed
	}
	return lab.Reply{Outcome: lab.OutcomeOf(err), Err: err}
}

// fate says a reply in the reading's words. What is lost on a network is
// silence like that of a rule, or an error after a while.
func (c check) fate(r lab.Reply) string {
	switch r.Outcome {
	case lab.OK:
		if r.Backend == "r" {
			return reading.Uplink
		}
		host, _, _ := strings.Cut(r.Backend, ":")
		return r.Backend + "<-" + c.Seen(c.Hosts[host], r.Source.Addr().Unmap())
	case lab.Refused:
		return reading.Refused
	case lab.Timeout:
		if slices.Contains(c.want.Fates, reading.Lost) {
			return reading.Lost
		}
		return reading.Dropped
	case lab.Unreachable:
		return reading.Lost
	}
	return string(r.Outcome)
}
