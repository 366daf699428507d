package gossip

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pointsman/gossip/probe"
	"pointsman/state"
)

// court is a jury on host a, with the fleet that it's told of and a clock.
type court struct {
	*jury
	t     rapid.TB
	view  View
	peers []Peer
	now   time.Time
	last  decision
}

// newCourt gives a jury that has just started, among hosts that the Node
// manifests name.
func newCourt(t rapid.TB, checks []*state.Check, peers ...string) *court {
	c := &court{jury: newJury("a", len(peers) == 0, nil, noon), t: t, now: noon, view: View{Records: map[string]*Record{}}}
	for _, p := range peers {
		c.peers = append(c.peers, Peer{Name: p})
	}
	c.intend(&Intent{Checks: checks, Peers: c.peers})
	return c
}

// alive makes just these the members that are alive.
func (c *court) alive(names ...string) {
	was := map[string]Member{}
	for _, m := range c.view.Members {
		was[m.Name] = m
	}
	c.view.Members, c.view.Absent = nil, nil
	for _, p := range c.peers {
		m, known := was[p.Name]
		up := slices.Contains(names, p.Name)
		switch {
		case !up && !known:
			c.view.Absent = append(c.view.Absent, p.Name)
			continue
		case up && m.State != Alive || !known:
			m = Member{Name: p.Name, Since: c.now}
		case !up && m.State != Dead:
			m = Member{Name: p.Name, State: Dead, Since: c.now}
		}
		if !up {
			c.view.Absent = append(c.view.Absent, p.Name)
		}
		c.view.Members = append(c.view.Members, m)
	}
	c.meet()
}

// say has another host say what it doesn't call up.
func (c *court) say(observer string, entries ...Entry) {
	c.view.Records[observer] = said(observer, c.generation, entries...)
	c.meet()
}

// meet has the jury decide.
func (c *court) meet() {
	v := c.view
	v.Members = slices.Clone(v.Members)
	c.see(&v)
	c.last = c.decide(c.now)
}

func (c *court) pass(d time.Duration) {
	c.now = c.now.Add(d)
	c.meet()
}

// probed has this host's own probe find something, and the time pass that
// damping asks for.
func (c *court) probed(k state.CheckKey, v state.Verdict) {
	c.found(probe.Result{Key: k, Verdict: v, Failure: state.Refused}, c.now)
	c.pass(dampSpacing)
}

func (c *court) expect(k state.CheckKey, want string) {
	c.t.Helper()
	if got := describe(c.verdicts().Get(k)); got != want {
		c.t.Errorf("after %v: %d is %s, want %s", c.now.Sub(noon), k, got, want)
	}
}

// probes gives the keys that this host probes.
func (c *court) keys() []state.CheckKey {
	var keys []state.CheckKey
	for _, a := range c.jury.probes() {
		keys = append(keys, a.Check.Key)
	}
	slices.Sort(keys)
	return keys
}

func legacy(k state.CheckKey) *state.Check {
	addr := netip.AddrFrom4([4]byte{10, 20, 0, byte(k)})
	return &state.Check{Key: k, Target: netip.AddrPortFrom(addr, 80), Protocol: state.TCP, Probe: &state.Probe{}}
}

func legacies(n int) []*state.Check {
	var all []*state.Check
	for k := range n {
		all = append(all, legacy(state.CheckKey(k+1)))
	}
	return all
}

func TestJuryOfAHostAlone(t *testing.T) {
	bare := &state.Check{Key: 9, Protocol: state.TCP, Home: "elsewhere"}
	port := state.Port{}
	for _, c := range append(legacies(2), bare, legacy(2)) {
		port.Endpoints = append(port.Endpoints, state.Endpoint{Check: c})
	}
	services := []*state.Service{{Ports: []state.Port{port, {}}}}
	if n := len(checksOf(services, false)); n != 3 {
		t.Errorf("there are %d Checks for a fleet", n)
	}
	c := newCourt(t, checksOf(services, true))
	c.meet()
	if got := c.keys(); !slices.Equal(got, []state.CheckKey{1, 2}) {
		t.Errorf("it probes %v", got)
	}
	c.expect(1, "untried")
	c.probed(1, state.Up)
	c.expect(1, "up")
	c.probed(1, state.Down)
	c.expect(1, "down")
	c.expect(2, "untried")
	if c.why != "" {
		t.Error("a host alone can't be isolated:", c.why)
	}
}

// A host that starts waits for the others before it takes on their probes.
func TestJurySettles(t *testing.T) {
	c := newCourt(t, legacies(20), "a", "b", "c", "d", "e")
	c.alive("a")
	if c.last.reprobe || c.last.publish {
		t.Errorf("it begins at once: %+v", c.last)
	}
	if at, ok := c.next(c.now); !ok || !at.Equal(noon.Add(settleFor)) {
		t.Error("it comes again at", at, ok)
	}
	c.alive("a", "b", "c", "d", "e")
	if n := len(c.keys()); !c.last.reprobe || n == 0 || n == 20 {
		t.Errorf("it probes %d of 20 among five", n)
	}
	if !c.last.publish || len(c.last.entries) != len(c.keys()) {
		t.Errorf("it doesn't say that it has no verdicts yet: %+v", c.last)
	}
}

func TestJuryFollowsTheFleet(t *testing.T) {
	c := newCourt(t, legacies(1), "a", "b", "c")
	c.alive("a", "b", "c")
	c.say("b")
	c.say("c")
	c.pass(silenceGrace)
	c.probed(1, state.Down)
	c.expect(1, "up") // one against two
	c.say("b", isDown(1))
	c.expect(1, "down")
	c.probed(1, state.Up)
	c.say("c", isDown(1))
	c.expect(1, "down")
	c.say("b")
	c.expect(1, "up")
}

// A host that sees fewer than half of the others says nothing, probes all by
// itself and believes only what it sees, until the majority is back.
func TestJuryOfAnIsolatedHost(t *testing.T) {
	c := newCourt(t, legacies(20), "a", "b", "c", "d", "e")
	c.alive("a", "b", "c", "d", "e")
	share := c.keys()
	for _, name := range []string{"b", "c", "d", "e"} {
		c.say(name)
	}
	c.pass(silenceGrace)
	own := share[0]
	c.probed(own, state.Up)
	c.expect(own, "up")

	c.alive("a", "b")
	if !strings.Contains(c.why, "fewer than half") || len(c.keys()) != 20 || c.last.publish {
		t.Errorf("cut off, it probes %d, says %+v (%s)", len(c.keys()), c.last, c.why)
	}
	c.expect(own, "up")
	c.say("b", isDown(own))
	c.expect(own, "up")
	c.probed(own, state.Down)
	c.expect(own, "down")

	c.alive("a", "b", "c")
	if c.why != "" || !c.last.publish {
		t.Errorf("three of five: %q, says %+v", c.why, c.last)
	}
}

// A host whose own uplink fails sees all its targets fail, while others don't.
func TestJuryOfABlindHost(t *testing.T) {
	c := newCourt(t, legacies(60), "a", "b", "c", "d")
	c.alive("a", "b", "c", "d")
	for _, name := range []string{"b", "c", "d"} {
		c.say(name)
	}
	c.pass(silenceGrace)
	mine := c.keys()
	for _, k := range mine {
		c.found(probe.Result{Key: k, Verdict: state.Down, Failure: state.Unreachable}, c.now)
	}
	c.pass(dampSpacing)
	c.pass(dampSpacing)
	if !strings.Contains(c.why, "its probes fail") || len(c.keys()) != 60 {
		t.Fatalf("it's %q, and probes %d", c.why, len(c.keys()))
	}
	for _, k := range mine {
		c.found(probe.Result{Key: k, Verdict: state.Up}, c.now)
	}
	c.pass(2 * dampSpacing)
	c.pass(2 * dampSpacing)
	if c.why != "" {
		t.Errorf("its probes succeed again, and it's %q", c.why)
	}
}

// What another host says that knows itself cut off doesn't count.
func TestJuryDoesNotHearTheIsolated(t *testing.T) {
	c := newCourt(t, legacies(1), "a", "b", "c")
	c.alive("a", "b", "c")
	c.say("b", isDown(1))
	c.say("c", isDown(1))
	c.pass(silenceGrace)
	c.expect(1, "down")
	for i := range c.view.Members {
		c.view.Members[i].Meta.Isolated = c.view.Members[i].Name != "a"
	}
	c.probed(1, state.Up)
	c.expect(1, "up")
}

// A home that dies is no verdict: others try to connect at once.
func TestJuryAsksAfterTheDead(t *testing.T) {
	bare := &state.Check{Key: 7, Protocol: state.TCP, Home: "d", Target: netip.MustParseAddrPort("10.20.3.1:80")}
	c := newCourt(t, []*state.Check{bare}, "a", "b", "c", "d")
	c.alive("a", "b", "c", "d")
	if len(c.keys()) != 0 {
		t.Error("it's probed while its home lives")
	}
	c.alive("a", "b", "c")
	if got := c.jury.probes(); len(got) != 1 || !got[0].Urgent {
		t.Fatalf("it isn't tried at once: %+v", got)
	}
	c.say("b", isDown(7))
	c.say("c", isDown(7))
	c.probed(7, state.Down)
	c.expect(7, "down")
	c.alive("a", "b", "c", "d")
	c.expect(7, "none")
}

// What was known before a restart holds until the fleet has spoken.
func TestJuryRemembers(t *testing.T) {
	restored := map[state.CheckKey]*state.Judgement{1: {Verdict: state.Down, Since: noon, Unconfirmed: true, Held: true, Until: noon.Add(holdFor)}}
	j := newJury("a", false, restored, noon)
	c := &court{jury: j, t: t, now: noon, view: View{Records: map[string]*Record{}}, peers: []Peer{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	c.intend(&Intent{Checks: legacies(1), Peers: c.peers})
	c.alive("a")
	if got := c.verdicts().Get(1); got == nil || got.Verdict != state.Down {
		t.Fatalf("before it settles: %+v", got)
	}
	c.alive("a", "b", "c")
	if got := c.verdicts().Get(1); got == nil || got.Verdict != state.Down || !got.Unconfirmed {
		t.Fatalf("before anybody speaks: %+v", got)
	}
	c.probed(1, state.Up)
	c.expect(1, "up")
}

// Whatever happens in whatever order, the jury's own share is what the
// Assignment says, it publishes only what isn't up, and it never publishes while
// it's cut off.
func TestJuryLaws(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		c := newCourt(t, legacies(12), names...)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			k := state.CheckKey(rapid.IntRange(1, 12).Draw(t, "key"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				c.alive(append(rapid.SliceOfDistinct(rapid.SampledFrom(names[1:]), rapid.ID[string]).Draw(t, "alive"), "a")...)
			case 1:
				c.say(rapid.SampledFrom(names[1:]).Draw(t, "observer"), isDown(k))
			case 2:
				c.found(probe.Result{Key: k, Verdict: rapid.SampledFrom([]state.Verdict{state.Up, state.Down}).Draw(t, "verdict")}, c.now)
				c.meet()
			case 3:
				c.pass(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			}
			c.lawful(t)
		}
	})
}

func (c *court) lawful(t *rapid.T) {
	if c.last.publish && c.why != "" {
		t.Fatal("it publishes while it's cut off: " + c.why)
	}
	for _, e := range c.last.entries {
		if e.Verdict == state.Up || c.own[e.Key] == nil {
			t.Fatalf("it says %+v, and probes %v", e, c.keys())
		}
	}
	if c.why != "" && len(c.own) != len(c.intent.Checks) {
		t.Fatalf("cut off, it probes %d", len(c.own))
	}
	for k := range c.own {
		if c.why == "" && !c.duties.Of("a", k) {
			t.Fatalf("%d isn't its to probe", k)
		}
	}
	if at, ok := c.next(c.now); ok && at.Before(c.now.Add(-time.Minute)) {
		t.Fatal("it should have met at " + fmt.Sprint(at))
	}
}
