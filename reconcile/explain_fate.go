package reconcile

import (
	"net/netip"
	"slices"
	"strings"

	"pointsman/reconcile/nft"
	"pointsman/state"
)

// client is what the rules tell clients apart by.
type client struct {
	name string
	addr netip.Addr // not valid: any of its kind
	own  bool       // a process of this host
	here bool       // within --local-cidr, by the view that is looked at
}

// The kinds of clients.
const (
	outside  = "outside"
	inside   = "inside" // within --local-cidr
	thisHost = "this host"
)

// clients gives the client that was asked about, else each kind that there is.
func (x *explaining) clients() []client {
	if x.q.From.IsValid() {
		return []client{{name: x.q.From.String(), addr: x.q.From, own: x.isOwn(x.q.From)}}
	}
	all := []client{{name: outside}}
	if locals := x.planner.mine(x.Input.LocalCIDRs); len(locals) > 0 {
		all = append(all, client{name: inside, addr: locals[0].Addr()})
	}
	return append(all, client{name: thisHost, own: true})
}

func (x *explaining) isOwn(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(x.Input.Addresses, a)
}

// fates gives what becomes of a client's connections, by intent and in the
// kernel.
func (x *explaining) fates(c client) ClientFate {
	out := ClientFate{Clients: c.name, Intent: x.fate(&x.want, c)}
	switch {
	case x.Kernel == nil:
	case x.Kernel.Gone:
		out.Actual = &Fate{Verdict: Passes, Why: "no rule of pointsman's is asked"}
	default:
		actual := x.fate(&x.have, c)
		out.Actual = &actual
	}
	return out
}

// view is a ruleset as packets to one frontend meet it: the groups that matter
// to them.
type view struct {
	groups map[string]*nft.Group
	key    string
	to     netip.Addr
	proto  string
}

func newView(groups map[string]*nft.Group, key string, q Question) view {
	return view{groups, key, q.To.Addr(), protoName(q.Protocol)}
}

// lookup finds the frontend in a set or map.
func (v *view) lookup(set string) (value string, ok bool) {
	g := v.groups[v.key]
	if g == nil {
		return "", false
	}
	for _, e := range *g {
		if e.Set == set && e.Key == v.key {
			return e.Value, true
		}
	}
	return "", false
}

func (v *view) has(set string) bool {
	_, ok := v.lookup(set)
	return ok
}

func (v *view) holds(set, key string) bool { return v.groups[set+" "+key] != nil }

// within reports whether a range of a set holds an address.
func (v *view) within(set string, a netip.Addr) bool {
	for id := range v.groups {
		text, ok := strings.CutPrefix(id, set+" ")
		if p, err := netip.ParsePrefix(text); ok && err == nil && p.Contains(a) {
			return true
		}
	}
	return false
}

// fate follows a connection through the program (see chains), in a view.
func (x *explaining) fate(v *view, c client) Fate {
	if !x.admits(v, c) {
		return Fate{Verdict: Dropped, Why: "no loadBalancerSourceRange holds the client: dropped before translation"}
	}
	c.here = x.isHere(v, c)
	verdict, _ := v.lookup("services")
	if verdict == "goto external-local" {
		verdict = v.externalLocal(c)
	}
	chain, _ := strings.CutPrefix(verdict, "goto ")
	switch {
	case verdict == "drop": // somebody else's doing
		return Fate{Verdict: Dropped, Why: "an element of map services says so"}
	case strings.HasPrefix(chain, "pick-"), strings.HasPrefix(chain, "sticky-"):
		if f, ok := x.translated(v, c, chain); ok {
			return f
		}
	}
	return x.untranslated(v)
}

// isHere reports whether a client is within --local-cidr. A process of this host
// may have any of its addresses, so it is if all are.
func (x *explaining) isHere(v *view, c client) bool {
	if c.addr.IsValid() || !c.own {
		return v.within("local-cidrs", c.addr)
	}
	known := false
	for _, a := range x.Input.Addresses {
		if x.planner.isMine(a) && a.IsGlobalUnicast() {
			if known = v.within("local-cidrs", a); !known {
				return false
			}
		}
	}
	return known
}

// externalLocal is the chain of that name.
func (v *view) externalLocal(c client) (verdict string) {
	if c.here || c.own {
		if verdict, ok := v.lookup("cluster-services"); ok {
			return verdict
		}
	}
	verdict, _ = v.lookup("local-services")
	return verdict
}

// admits is the chain firewall.
func (x *explaining) admits(v *view, c client) bool {
	if !v.has("firewalled") {
		return true
	}
	var ranges []netip.Prefix
	for _, e := range *v.groups[v.key] {
		if p, err := netip.ParsePrefix(strings.TrimPrefix(e.Key, v.key+" . ")); e.Set == "source-ranges" && err == nil {
			ranges = append(ranges, p)
		}
	}
	admitted := func(a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	}
	switch {
	case c.name == inside: // some of them, where ranges overlap
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return slices.ContainsFunc(x.Input.LocalCIDRs, r.Overlaps) })
	case c.addr.IsValid():
		return admitted(c.addr)
	case c.own:
		return slices.ContainsFunc(x.Input.Addresses, admitted)
	}
	return true // some of them
}

// translated is a pick or sticky chain: the endpoints that it may choose.
func (x *explaining) translated(v *view, c client, chain string) (f Fate, ok bool) {
	sort, rest, _ := strings.Cut(chain, "-")
	set := endpointsMap
	if strings.HasPrefix(rest, v.proto+"-local-") {
		set = localMap
	}
	f = Fate{Verdict: Served, Sticky: sort == "sticky", Endpoints: v.reach(set + v.proto)}
	if len(f.Endpoints) == 0 {
		return f, false
	}
	f.Masquerade, f.Source = x.masquerade(v, c)
	for _, e := range f.Endpoints {
		if c.addr == e.Addr() && v.holds("hairpin", hairpinKey(e, x.q.Protocol)) {
			f.Hairpins = append(f.Hairpins, e)
		}
	}
	return f, true
}

// reach gives the endpoints in a frontend's slots, sorted.
func (v *view) reach(set string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range v.groups[v.key].Slots(set) {
		if e, ok := parseEndpoint(text); ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// parseEndpoint reads what texts has written.
func parseEndpoint(text string) (netip.AddrPort, bool) {
	addr, port, _ := strings.Cut(text, " . ")
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	e, err := netip.ParseAddrPort(addr + ":" + port)
	return e, err == nil
}

// untranslated are the filter chains. A packet to an address of this host is
// let in where no frontend says otherwise.
func (x *explaining) untranslated(v *view) Fate {
	verdict, _ := v.lookup("no-endpoints")
	own := slices.Contains(x.Input.Addresses, v.to)
	switch {
	case verdict == "goto reject-new":
		return Fate{Verdict: Refused, Why: "there is no endpoint that may be used"}
	case verdict == "drop":
		return Fate{Verdict: Dropped, Why: "the policy is Local, and no endpoint on " + x.Input.Node.Name + " may be used"}
	case own:
		return Fate{Verdict: Passes, Why: "it's an address of this host: what listens there answers"}
	case v.holds("cluster-ips", v.to.String()):
		return Fate{Verdict: Refused, Why: "it's a ClusterIP, and no port of it"}
	case v.within("service-cidrs", v.to):
		return Fate{Verdict: Dropped, Why: "it's within --service-cidr, and no Service has it here"}
	case v.holds("external-vips", v.to.String()):
		return Fate{Verdict: Passes, Looping: true, Why: "it's a VIP, and no port of it; refused only where it would leave by the interface it came in by"}
	}
	return Fate{Verdict: Passes, Why: "no Service has it here"}
}

// masquerade is the chain masquerading, but for hairpins.
func (x *explaining) masquerade(v *view, c client) (yes bool, why string) {
	switch {
	case v.holds("cluster-ips", v.to.String()) && !c.here:
		return true, "what is sent to a ClusterIP is, so that answers come back through this host"
	case v.has("masquerade-all"):
		return true, "externalTrafficPolicy: Cluster"
	case c.here:
		return false, "it's within --local-cidr: answers come back through this host"
	case v.has("masquerade-own") && c.own:
		return true, "this host's own connections to a VIP or NodePort are"
	}
	return false, "externalTrafficPolicy: Local"
}

// hairpinKey is the key of an endpoint that is its own client.
func hairpinKey(e netip.AddrPort, p state.Protocol) string {
	a := e.Addr().String()
	return keyOf(a, newBuilder(state.Frontend{Address: e.Addr(), Port: e.Port()}, p).key)
}
