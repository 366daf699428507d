package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"pointsman/gossip"
	"pointsman/reconcile"
	"pointsman/state"
)

// leftAnswer is what is left of the connections to what is drained.
type leftAnswer struct {
	Drained bool       `json:"drained"` // nobody has undrained it, as far as this host knows
	Hosts   []hostLeft `json:"hosts"`   // by name
}

// hostLeft is one host's part: of the connections that it translates. The rest of
// it is empty where the host is dead or silent.
type hostLeft struct {
	Node   string `json:"node"`
	Dead   bool   `json:"dead,omitempty"`   // so it wasn't asked
	Silent bool   `json:"silent,omitempty"` // it didn't answer in time, or can't: an earlier release

	Drained     bool                    `json:"drained,omitempty"` // new connections by way of it go to others
	Kept        bool                    `json:"kept,omitempty"`    // but for those that no other endpoint could have
	Connections int                     `json:"connections"`
	To          []reconcile.RemainingTo `json:"to,omitempty"`
}

// remaining finds out what is left: of this host's connections, and by asking the
// others, who have to do with it only while somebody waits.
type remaining struct {
	node  string
	count func(context.Context, state.DrainTarget) (reconcile.Remainder, error)
	fleet *gossip.Agent

	mu     sync.Mutex // held while connections are counted: one table is enough
	recent map[state.DrainTarget]counted
	asking singleflight.Group

	pace sync.Mutex
	next time.Time // when the other hosts may be asked again
}

type counted struct {
	host hostLeft
	at   time.Time
}

// How old a count may be, and how long one is waited for: a table of a million
// connections takes a second.
const (
	countFor     = time.Second
	leftPatience = 3 * time.Second
)

// How often the other hosts are asked, who answer four times a second, and how
// long somebody waits for his turn: many may wait for many drains at once.
const (
	askEvery    = 300 * time.Millisecond
	maxTurnWait = 6 * time.Second
)

// turn gives the time until the other hosts may be asked. It's not ok if too many
// wait already.
func (l *remaining) turn(now time.Time) (wait time.Duration, ok bool) {
	l.pace.Lock()
	defer l.pace.Unlock()
	wait = max(0, l.next.Sub(now))
	if wait > maxTurnWait {
		return 0, false
	}
	l.next = now.Add(wait + askEvery)
	return wait, true
}

// here counts this host's connections.
func (l *remaining) here(ctx context.Context, t state.DrainTarget) (hostLeft, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for target, c := range l.recent {
		if time.Since(c.at) >= countFor {
			delete(l.recent, target)
		}
	}
	if c, ok := l.recent[t]; ok {
		return c.host, nil
	}
	r, err := l.count(ctx, t)
	if err != nil {
		return hostLeft{}, err
	}
	h := hostLeft{Node: l.node, Drained: r.Drained, Kept: r.Kept, Connections: r.Connections, To: r.To}
	if l.recent == nil {
		l.recent = map[state.DrainTarget]counted{}
	}
	l.recent[t] = counted{h, time.Now()}
	return h, nil
}

// leftQuestion begins the one question that hosts ask each other; the target
// follows.
const leftQuestion = "left "

// answer answers another host. It says nothing to what it doesn't understand.
func (l *remaining) answer(ctx context.Context, question []byte) []byte {
	target, err := parseTarget(strings.TrimPrefix(string(question), leftQuestion))
	if err != nil || !strings.HasPrefix(string(question), leftQuestion) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leftPatience)
	defer cancel()
	h, err := l.here(ctx, target)
	if err != nil {
		return nil
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil
	}
	return text
}

// decodeLeft reads another host's answer, which goes to somebody's terminal.
func decodeLeft(node string, text []byte) hostLeft {
	h := hostLeft{}
	err := json.Unmarshal(text, &h)
	bad := err != nil || !countable(h.Connections) || slices.ContainsFunc(h.To, func(to reconcile.RemainingTo) bool {
		known := slices.Contains(allProtocols, to.Protocol)
		return !known || !countable(to.Connections) || !bare(to.Client) || !bare(to.Endpoint.Addr())
	})
	if bad || h.Dead || h.Silent {
		return hostLeft{Node: node, Silent: true}
	}
	h.Node, h.To = node, h.To[:min(len(h.To), maxShown)]
	return h
}

// countable tells whether a number is one of connections, and can be added up.
func countable(n int) bool { return n >= 0 && n < 1<<40 }

// bare tells whether an address has no zone, which could be any text.
func bare(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" }

// everywhere asks all hosts.
func (l *remaining) everywhere(ctx context.Context, t state.DrainTarget) (*leftAnswer, error) {
	wait, ok := l.turn(time.Now())
	if !ok {
		return nil, errors.New("too many wait for drains")
	}
	time.Sleep(wait)
	ctx, cancel := context.WithTimeout(ctx, leftPatience)
	defer cancel()
	own, err := l.here(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("connections of this host: %w", err)
	}
	s := l.fleet.Status()
	a := &leftAnswer{Drained: s.View.Drains[t] != nil, Hosts: []hostLeft{own}}
	dead := s.Absent()
	for _, m := range s.View.Members {
		if m.State == gossip.Dead && !slices.Contains(dead, m.Name) {
			dead = append(dead, m.Name)
		}
	}
	for _, name := range dead {
		a.Hosts = append(a.Hosts, hostLeft{Node: name, Dead: true})
	}
	answers, silent := l.fleet.Ask(ctx, []byte(leftQuestion+t.String()))
	for name, text := range answers {
		a.Hosts = append(a.Hosts, decodeLeft(name, text))
	}
	for _, name := range silent {
		a.Hosts = append(a.Hosts, hostLeft{Node: name, Silent: true})
	}
	slices.SortFunc(a.Hosts, func(a, b hostLeft) int { return cmp.Compare(a.Node, b.Node) })
	return a, nil
}

// ServeHTTP answers those who wait. Several who wait for the same have the others
// asked once.
func (l *remaining) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, err := parseTarget(r.URL.Query().Get("target"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err, _ := l.asking.Do(target.String(), func() (any, error) {
		return l.everywhere(context.WithoutCancel(r.Context()), target)
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, a)
}
