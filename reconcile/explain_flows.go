package reconcile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"pointsman/reconcile/host"
	"pointsman/state"
)

// The bounds of a Tally.
const (
	maxBackends = 1000
	maxListed   = 10
)

// Tally counts connections as they are shown, in bounded memory.
type Tally struct {
	From       netip.Addr // whose connections are listed; not valid: nobody's
	ByFrontend bool       // where connections are counted by where they were sent

	Open, Closing int
	backends      map[netip.AddrPort]*Backend
	listed        []Listed
	unlisted      int
}

// Connections are those that there are to a frontend.
type Connections struct {
	Error    string    `json:"error,omitempty"` // why some may be missing
	Open     int       `json:"open"`
	Closing  int       `json:"closing"`
	Backends []Backend `json:"backends,omitempty"`
	Listed   []Listed  `json:"listed,omitempty"` // the client's
	Unlisted int       `json:"unlisted,omitempty"`
}

// Backend is where connections go to.
type Backend struct {
	Address netip.AddrPort `json:"address"`
	Open    int            `json:"open"`
	Closing int            `json:"closing"`
	Note    string         `json:"note,omitempty"` // of one that gets no new ones
}

// Listed is a connection.
type Listed struct {
	Source  netip.AddrPort `json:"source"`
	Backend netip.AddrPort `json:"backend"`
	Seen    netip.AddrPort `json:"seen"` // the source as the backend has it
	Closing bool           `json:"closing,omitempty"`
}

// Add counts a connection.
func (t *Tally) Add(c host.Connection) {
	b := t.backend(c.ReplySource)
	if t.ByFrontend {
		b = t.backend(c.Destination)
	}
	if c.Closing {
		t.Closing++
		b.Closing++
	} else {
		t.Open++
		b.Open++
	}
	switch {
	case c.Source.Addr() != t.From:
	case len(t.listed) < maxListed:
		t.listed = append(t.listed, Listed{c.Source, c.ReplySource, c.ReplyDestination, c.Closing})
	default:
		t.unlisted++
	}
}

// backend gives what connections to an address are counted by. Beyond the bound
// they count in the sums alone.
func (t *Tally) backend(a netip.AddrPort) *Backend {
	if t.backends == nil {
		t.backends = map[netip.AddrPort]*Backend{}
	}
	b := t.backends[a]
	if b == nil {
		b = &Backend{Address: a}
		if len(t.backends) < maxBackends {
			t.backends[a] = b
		}
	}
	return b
}

// connections says where the connections go that there are, and of those that
// would go elsewhere if they began now, what becomes of them.
func (x *explaining) connections(endpoints []EndpointFate) *Connections {
	t := x.Tally
	if t == nil {
		return nil
	}
	byAddress := map[netip.AddrPort]*EndpointFate{}
	for i := range endpoints {
		byAddress[endpoints[i].Address] = &endpoints[i]
	}
	out := &Connections{Open: t.Open, Closing: t.Closing, Unlisted: t.unlisted,
		Listed: slices.SortedFunc(slices.Values(t.listed), func(a, b Listed) int { return a.Source.Compare(b.Source) })}
	for _, b := range slices.SortedFunc(maps.Values(t.backends), func(a, b *Backend) int {
		return cmp.Or(cmp.Compare(b.Open, a.Open), a.Address.Compare(b.Address))
	}) {
		e := byAddress[b.Address]
		if e != nil {
			e.Open, e.Closing = b.Open, b.Closing
		}
		note := x.backendNote(b.Address, e)
		if t.ByFrontend {
			note = x.directNote(b.Address)
		}
		out.Backends = append(out.Backends, Backend{b.Address, b.Open, b.Closing, note})
	}
	return out
}

// backendNote says why a backend gets no new connections.
func (x *explaining) backendNote(a netip.AddrPort, e *EndpointFate) string {
	stays := "; stays until it ends"
	switch {
	case x.q.Protocol != state.UDP:
	case e == nil || !e.Serving:
		stays = "; about to be forgotten"
	case e.Drain != nil:
		stays = "; stays until the drain's grace is over"
	}
	switch {
	case a == x.q.To && e == nil && x.claim.service != nil:
		return "not translated: began while nothing was served here"
	case a == x.q.To && e == nil:
		return "not translated"
	case e == nil:
		return "no endpoint of the Service port" + stays
	case len(e.For) == 0:
		return "gets no new ones" + stays
	}
	return ""
}

// directNote says of connections to the endpoint that no frontend led there.
func (x *explaining) directNote(a netip.AddrPort) string {
	if a.Addr() == x.q.To.Addr() {
		return "directly, such as probes"
	}
	return ""
}
