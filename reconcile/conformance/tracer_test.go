package conformance

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pointsman/reconcile/conformance/reading"
)

// Fates that should never be: a server answers somebody else, or past the node
// that has to translate the answer; TCP is refused by an ICMP error, which the
// kernel sends so often and no more.
const (
	noReply = "no reply"
	slowly  = "refused without a reset"
)

// tracer follows a connection through the rulesets of all nodes.
type tracer struct {
	w       *reading.World
	tables  map[string]*ruleset
	dice    dice
	clients map[string]bool // what client sets hold
	updates map[string]bool // what this connection adds to them
	hops    []hop           // nodes that translated it
	steps   int

	counted   map[string]int // by the host that it's at
	miscounts []string
}

// hop is a node that translated a connection.
type hop struct {
	node string
	src  netip.Addr // before
}

// packet is a connection's first packet at a host, and its conntrack entry.
type packet struct {
	src, dst       netip.Addr
	port           uint16
	proto          string
	in             string
	orig           netip.Addr
	origPort       uint16
	dnat           bool
	before         netip.Addr
	dstSet, srcSet bool
}

// dice give every number in turn: run after run, until all were thrown.
type dice struct {
	thrown, sides []int
	next          int
}

func (d *dice) throw(n int) int {
	if d.next == len(d.thrown) {
		d.thrown, d.sides = append(d.thrown, 0), append(d.sides, n)
	}
	d.next++
	return d.thrown[d.next-1]
}

// again prepares the next run.
func (d *dice) again() bool {
	d.next = 0
	for i := len(d.thrown) - 1; i >= 0; i-- {
		if d.thrown[i]++; d.thrown[i] < d.sides[i] {
			d.thrown, d.sides = d.thrown[:i+1], d.sides[:i+1]
			return true
		}
	}
	return false
}

// trace tells everything that may become of a connection. It's sticky if a
// second one of the same client always ends like the first.
func trace(w *reading.World, tables map[string]*ruleset, conn reading.Connection) reading.Outcome {
	first := &tracer{w: w, tables: tables}
	fates, sticky := map[string]bool{}, true
	for more := true; more; more = first.dice.again() {
		fate := first.run(conn)
		fates[fate] = true
		second := &tracer{w: w, tables: tables, clients: first.updates}
		for more := len(first.updates) > 0; more; more = second.dice.again() {
			sticky = sticky && second.run(conn) == fate
		}
		sticky = sticky && len(first.updates) > 0
	}
	return reading.Outcomes(fates, sticky)
}

func (t *tracer) run(conn reading.Connection) string {
	t.updates, t.hops, t.steps, t.miscounts = map[string]bool{}, nil, 0, nil
	h := t.w.Hosts[conn.From]
	return t.at(h, &packet{src: t.w.Source(h, conn.To.Addr()), dst: conn.To.Addr(), port: conn.To.Port(), proto: strings.ToLower(string(conn.Proto))})
}

// at passes a packet through a host.
func (t *tracer) at(h *reading.Host, p *packet) string {
	p.orig, p.origPort, p.dnat, p.dstSet, p.srcSet, p.before = p.dst, p.port, false, false, false, p.src
	t.counted = map[string]int{}
	fate := t.hooks(h, p)
	t.judgeCount(h, p, fate)
	if fate != "" {
		return fate
	}
	if p.dnat {
		t.hops = append(t.hops, hop{h.Name, p.before})
	}
	way := t.w.Way(h, p.dst)
	t.steps++
	switch {
	case way.Fate != "":
		return way.Fate
	case way.To == h.Name:
		return t.arrived(h, p)
	case t.steps > 9:
		return reading.Loops
	}
	p.in = t.w.Arrives(h.Name, way.To)
	return t.at(t.w.Hosts[way.To], p)
}

// hooks are netfilter's, in the order of a packet's way. A connection to the
// very host passes lo: it comes in as well, but is translated once.
func (t *tracer) hooks(h *reading.Host, p *packet) string {
	if !h.Node {
		return ""
	}
	begins := p.in == ""
	first := "prerouting"
	if begins {
		first = "output"
	}
	if fate := t.hook(h, p, first); fate != "" {
		return fate
	}
	rest := []string{"forward", "postrouting"}
	switch local := h.Has(p.dst); {
	case begins && local:
		rest = []string{"postrouting", "prerouting", "input"}
	case begins:
		rest = []string{"postrouting"}
	case local:
		rest = []string{"input"}
	}
	for _, hook := range rest {
		if fate := t.hook(h, p, hook); fate != "" {
			return fate
		}
	}
	return ""
}

func (t *tracer) hook(h *reading.Host, p *packet, name string) string {
	table := t.tables[h.Name]
	if table == nil {
		return ""
	}
	for _, base := range table.hooks {
		if base.Hook.Hook != name {
			continue
		}
		if base.Hook.Type == "nat" {
			done := &p.dstSet
			if name == "input" || name == "postrouting" {
				done = &p.srcSet
			}
			if *done {
				continue
			}
			*done = true
		}
		switch v := t.chain(h, p, base.Name); v {
		case reading.Refused, reading.Dropped, slowly:
			return v
		}
	}
	return ""
}

// The verdicts of chains that are no fate.
const (
	accept = "accept"
	next   = ""
)

func (t *tracer) chain(h *reading.Host, p *packet, name string) string {
	for _, rule := range t.tables[h.Name].chains[name] {
		verdict := t.rule(h, p, rule)
		switch {
		case verdict == "return":
			return next
		case strings.HasPrefix(verdict, "goto "):
			return t.chain(h, p, verdict[len("goto "):])
		case strings.HasPrefix(verdict, "jump "):
			verdict = t.chain(h, p, verdict[len("jump "):])
		}
		if verdict != next {
			return verdict
		}
	}
	return next
}

// rule does the statements of a rule until one doesn't match.
func (t *tracer) rule(h *reading.Host, p *packet, rule []statement) string {
	for i := range rule {
		s := &rule[i]
		switch s.do {
		case "goto", "jump":
			return s.do + " " + s.set
		case "return":
			return s.do
		case "drop":
			return reading.Dropped
		case "reject with tcp reset":
			return reading.Refused
		case "reject with icmp type port-unreachable":
			if p.proto == "tcp" {
				return slowly
			}
			return reading.Refused
		case "masquerade fully-random":
			if !h.Has(p.dst) {
				p.src = t.w.Leaving(h, p.dst)
			}
			return accept
		case "vmap", "dnat":
			if verdict := t.mapped(h, p, s); verdict != next {
				return verdict
			}
			return next // a lookup that misses ends the rule
		case "update":
			t.updates[h.Name+" "+s.set+" "+t.key(h, p, s)] = true
		case "count":
			t.counted[t.key(h, p, s)]++
		default:
			if !t.matches(h, p, s) {
				return next
			}
		}
	}
	return next
}

func (t *tracer) mapped(h *reading.Host, p *packet, s *statement) string {
	value, ok := t.tables[h.Name].lookup(s.set, t.key(h, p, s))
	if !ok || s.do == "vmap" {
		return strings.Replace(value, "drop", reading.Dropped, 1)
	}
	addr, port, _ := strings.Cut(value, " . ")
	number, _ := strconv.ParseUint(port, 10, 16)
	p.dst, p.port = netip.MustParseAddr(addr), uint16(number)
	p.dnat = p.dst != p.orig || p.port != p.origPort // conntrack's idea of it
	return accept
}

func (t *tracer) matches(h *reading.Host, p *packet, s *statement) bool {
	switch s.do {
	case "ct state new":
		return true
	case "ct status dnat":
		return p.dnat
	case "fib saddr type local":
		return h.Has(p.src)
	case "fib daddr . iif oif exists":
		return t.w.Way(h, p.dst).Dev == p.in
	}
	if s.set == "" {
		return slices.Contains(s.values, t.key(h, p, s)) != s.not
	}
	_, found := t.tables[h.Name].lookup(s.set, t.key(h, p, s))
	if strings.HasPrefix(s.set, "affinity-") {
		found = t.clients[h.Name+" "+s.set+" "+t.key(h, p, s)]
	}
	return found != s.not
}

// key gives a key's columns as elements write them.
func (t *tracer) key(h *reading.Host, p *packet, s *statement) string {
	var key strings.Builder
	for i, f := range s.fields {
		if i > 0 {
			key.WriteString(" . ")
		}
		switch f {
		case "ct original ip daddr":
			key.WriteString(p.orig.String())
		case "ct original proto-dst":
			key.WriteString(strconv.Itoa(int(p.origPort)))
		case "ip saddr":
			key.WriteString(p.src.String())
		case "ip daddr":
			key.WriteString(p.dst.String())
		case "meta l4proto":
			key.WriteString(p.proto)
		case "rt ip nexthop":
			key.WriteString(t.w.Way(h, p.dst).Next.String())
		case "th dport":
			key.WriteString(strconv.Itoa(int(p.port)))
		case "numgen":
			key.WriteString(strconv.Itoa(s.offset + t.dice.throw(s.mod)))
		}
	}
	return key.String()
}

// arrived is a packet at its last host: is there a server, and does its answer
// find the way back by the nodes that translate it?
func (t *tracer) arrived(h *reading.Host, p *packet) string {
	server := t.w.Server(h, netip.AddrPortFrom(p.dst, p.port))
	if server == "" {
		return reading.Refused
	}
	fate := server + "<-" + t.w.Seen(h, p.src)
	to, at := p.src, h.Name
	for _, back := range slices.Backward(t.hops) {
		if !t.reaches(at, back.node, to) {
			return noReply
		}
		at, to = back.node, back.src
	}
	return fate
}

// reaches tells whether what a host sends to an address comes by a node.
func (t *tracer) reaches(from, node string, to netip.Addr) bool {
	for range 9 {
		if from == node {
			return true
		}
		way := t.w.Way(t.w.Hosts[from], to)
		if way.Fate != "" || way.To == from {
			return false
		}
		from = way.To
	}
	return false
}
