package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pointsman/reconcile"
)

func left(node string, connections int) hostLeft {
	h := hostLeft{Node: node, Drained: true, Connections: connections}
	if connections > 0 {
		h.To = []reconcile.RemainingTo{{Endpoint: netip.MustParseAddrPort("10.20.0.11:8080"), Protocol: "TCP", Client: netip.MustParseAddr("192.0.2.50"), Connections: connections}}
	}
	return h
}

// TestTurns: hosts are asked no more often than they answer, however many wait.
func TestTurns(t *testing.T) {
	l, now, turns := &remaining{}, time.Now(), 0
	for ok := true; ok; turns++ {
		var wait time.Duration
		if wait, ok = l.turn(now); ok && wait != time.Duration(turns)*askEvery {
			t.Errorf("turn %d: %v", turns, wait)
		}
	}
	if want := int(maxTurnWait/askEvery) + 2; turns != want {
		t.Errorf("%d turns, want %d", turns, want)
	}
	if wait, ok := l.turn(now.Add(time.Minute)); wait != 0 || !ok {
		t.Errorf("a minute later: %v, %v", wait, ok)
	}
}

// TestWait: when the waiting ends, what is said then, and what is shown before.
func TestWait(t *testing.T) {
	const grace = time.Minute
	late, silent, dead, kept := left("n2", 0), hostLeft{Node: "n2", Silent: true}, hostLeft{Node: "n2", Dead: true}, left("n2", 1)
	late.Drained, kept.Kept = false, true
	flows := left("n1", 2)
	flows.To[0].Protocol = "UDP"
	for name, tt := range map[string]struct {
		hosts []hostLeft  // at all looks but those that are named
		at    map[int]any // []hostLeft, an error, or "undrained"
		took  time.Duration
		want  string   // the error
		says  []string // in order
	}{
		"nothing":            {hosts: []hostLeft{left("n1", 0), left("n2", 0)}, took: newsTime + lookEvery, says: []string{"no connection is left, after 3s"}},
		"it ends":            {hosts: []hostLeft{left("n1", 0)}, at: map[int]any{0: []hostLeft{left("n1", 2)}, 1: []hostLeft{left("n1", 1)}}, took: newsTime + 3*lookEvery, says: []string{"2 connections are left: 2 on n1", "no connection is left, after 7s"}},
		"one more":           {hosts: []hostLeft{left("n1", 0)}, at: map[int]any{1: []hostLeft{left("n1", 1)}}, took: newsTime + 3*lookEvery, says: []string{"after 7s"}},
		"late":               {hosts: []hostLeft{left("n2", 0)}, at: map[int]any{0: []hostLeft{late}}, took: newsTime + 2*lookEvery, says: []string{"n2: not drained there yet"}},
		"silent at first":    {hosts: []hostLeft{left("n2", 0)}, at: map[int]any{0: []hostLeft{silent}, 3: []hostLeft{silent}}, took: newsTime + 2*lookEvery, says: []string{"n2: not known"}},
		"dead":               {hosts: []hostLeft{left("n1", 0), dead}, took: newsTime + lookEvery, says: []string{"no connection is left", "n2: dead, so nothing is known"}},
		"the agent restarts": {hosts: []hostLeft{left("n1", 0)}, at: map[int]any{1: errors.New("nobody answers")}, took: newsTime + 3*lookEvery},
		"some are left": {hosts: []hostLeft{left("n1", 3), left("n2", 4)}, took: grace, want: "7 connections are left after 1m0s; endpoint 10.20.0.11:8080 stays drained",
			says: []string{"7 connections are left: 4 on n2, 3 on n1", "4 by way of n2 to 10.20.0.11:8080/TCP from 192.0.2.50", "3 by way of n1"}},
		"flows go a moment later": {hosts: []hostLeft{flows}, at: map[int]any{32: []hostLeft{left("n1", 0)}}, took: grace + 2*newsTime, says: []string{"no connection is left, after 1m0s"}},
		"flows that stay":         {hosts: []hostLeft{flows}, took: grace + flowsTake, want: "2 connections are left after 1m0s"},
		"flows, and a connection": {hosts: []hostLeft{flows, left("n2", 1)}, took: grace, want: "3 connections are left after 1m0s"},
		"silent to the end":       {hosts: []hostLeft{left("n1", 0), silent}, took: grace, want: "no connection is left that is known of after 1m0s; endpoint 10.20.0.11:8080 stays drained", says: []string{"n2: not known"}},
		"no other choice":         {hosts: []hostLeft{kept}, took: grace, want: "1 connection is left after", says: []string{"n2: new ones still go to what is drained"}},
		"no agent":                {at: map[int]any{-1: errors.New("nobody answers")}, took: grace, want: "it isn't known what is left after 1m0s: nobody answers; endpoint"},
		"undrained":               {hosts: []hostLeft{left("n1", 3)}, at: map[int]any{3: "undrained"}, took: newsTime + 3*lookEvery, want: "endpoint 10.20.0.11:8080 was undrained meanwhile; no connection is left"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				looks := 0
				w := &waiter{target: "endpoint 10.20.0.11:8080", grace: grace, out: progress{w: &out}}
				w.look = func(context.Context) (*leftAnswer, error) {
					at, ok := tt.at[looks]
					if !ok {
						at = tt.at[-1]
					}
					looks++
					switch at := at.(type) {
					case error:
						return nil, at
					case string:
						return &leftAnswer{}, nil
					case []hostLeft:
						return &leftAnswer{Drained: true, Hosts: at}, nil
					}
					return &leftAnswer{Drained: true, Hosts: tt.hosts}, nil
				}
				began := time.Now()
				err := w.wait(t.Context())
				if (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				rest := out.String()
				if strings.Contains(rest, "no connection is left\n") {
					t.Errorf("it's said before it's known:\n%s", rest)
				}
				for _, text := range tt.says {
					_, after, found := strings.Cut(rest, text)
					if !found {
						t.Errorf("there's no %q in:\n%s", text, out.String())
					}
					rest = after
				}
			})
		})
	}
}

// TestWaitInterrupted: Ctrl-C ends the waiting alone.
func TestWaitInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		w := &waiter{target: "node n1", grace: time.Hour, out: progress{w: &out, terminal: true}}
		w.look = func(context.Context) (*leftAnswer, error) {
			return &leftAnswer{Drained: true, Hosts: []hostLeft{left("n1", 1)}}, nil
		}
		if err := w.wait(ctx); err == nil || err.Error() != "node n1 stays drained; pointsman undrain node n1 ends that" {
			t.Error(err)
		}
		if got := out.String(); got != "\r1 connection is left: 1 on n1\x1b[K\r1 connection is left: 1 on n1\x1b[K\r\x1b[K" {
			t.Errorf("%q", got)
		}
	})
}

// TestProgressInALog: a line for a change, and not for each.
func TestProgressInALog(t *testing.T) {
	var out bytes.Buffer
	p := progress{w: &out}
	now := time.Unix(1e9, 0)
	for i, text := range []string{"a", "b", "b", "c", "c", "c", "c"} {
		p.show(text, now.Add(time.Duration(i)*2*time.Second))
	}
	if got := out.String(); got != "pointsman: a\npointsman: c\n" {
		t.Errorf("%q", got)
	}
}

// TestProgressOnATerminal: a line that went on to the next would stay.
func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := progress{w: &out, terminal: true}
	p.show(strings.Repeat("ä", 200), time.Now())
	if got, want := out.String(), "\r"+strings.Repeat("ä", 79)+"\x1b[K"; got != want {
		t.Errorf("%q", got)
	}
}

// TestLeftIsBounded: what thousands of hosts and clients have left fits a screen.
func TestLeftIsBounded(t *testing.T) {
	a := &leftAnswer{Drained: true}
	for range 1000 {
		a.Hosts = append(a.Hosts, left("n1", 7), hostLeft{Node: "n2", Silent: true})
	}
	s := sumUp(a)
	if lines := s.details(); len(lines) != maxShown+2 || lines[maxShown] != "and 6860 more" || len(strings.Join(lines, "")) > 3000 {
		t.Errorf("%q", lines)
	}
	if text := s.text(); len(text) > 300 || !strings.Contains(text, "and 995 more hosts; n2, n2") {
		t.Error(text)
	}
}

// FuzzDecodeLeft: what a peer says is fit for a terminal, and for adding up.
func FuzzDecodeLeft(f *testing.F) {
	text, err := json.Marshal(left("n1", 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"connections":-1}`))
	f.Add([]byte(`{"to":[{"endpoint":"[fe80::1%\u001b[2J]:1","protocol":"TCP","client":"::1"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := decodeLeft("n2", text)
		if h.Node != "n2" || h.Dead || h.Connections < 0 || len(h.To) > maxShown {
			t.Errorf("%+v", h)
		}
		for _, line := range sumUp(&leftAnswer{Hosts: []hostLeft{h}}).details() {
			for _, r := range line {
				if r < ' ' || r > '~' {
					t.Errorf("%q", line)
				}
			}
		}
	})
}
