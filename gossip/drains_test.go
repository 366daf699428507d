package gossip

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"pointsman/state"
)

func TestDrainsMap(t *testing.T) {
	m := drainMap{}
	target := state.DrainTarget{Endpoint: netip.MustParseAddrPort("10.0.0.1:80")}
	set := func(now time.Time, by string, lasts time.Duration) *drain {
		d := m.write(drain{target: target, drained: true, since: now.Unix(), until: now.Add(lasts).Unix()}, by, now)
		if !m.merge(d, now) {
			t.Fatal("refused")
		}
		return d
	}
	long := set(today, "a", 10*time.Hour)
	set(today, "b", time.Hour)
	if m.active(today, 0)[target].By != "b" || m.merge(long, today) {
		t.Error("the last one doesn't hold")
	}
	later := today.Add(2 * time.Hour)
	m.expire(later)
	if len(m.active(later, 0)) != 0 || m.merge(long, later) {
		t.Error("an earlier one came back as the last one ended")
	}
	if next := m.next(later); !next.Equal(today.Add(10 * time.Hour)) {
		t.Error("next change at", next)
	}
	if m.expire(today.Add(10 * time.Hour)); len(m) != 0 {
		t.Error("it's kept for ever")
	}
	if m.merge(long, today.Add(11*time.Hour)) {
		t.Error("one that is over is taken")
	}
}

func TestDrainOfEarlierBootEnds(t *testing.T) {
	m := drainMap{}
	m.merge(m.write(drain{target: state.DrainTarget{Node: "a"}, drained: true, boot: "1", until: today.Unix() + 60}, "a", today), today)
	for boot, want := range map[string]bool{"1": false, "2": true, "": false} {
		if _, over := m.ofEarlierBoot("a", boot, today); over != want {
			t.Errorf("boot %q: over is %v", boot, over)
		}
	}
}

func TestCheckDrain(t *testing.T) {
	until := today.Add(time.Hour)
	node := state.DrainTarget{Node: "a"}
	for name, c := range map[string]struct {
		d    state.Drain
		good bool
	}{
		"a node":     {state.Drain{Target: node, Until: until}, true},
		"an address": {state.Drain{Target: state.DrainTarget{Endpoint: netip.MustParseAddrPort("[2001:db8::1]:0")}, Until: until}, true},
		"a service":  {state.Drain{Target: state.DrainTarget{Service: state.ObjectName{Namespace: "a", Name: "b"}}, Until: until}, true},
		"nothing":    {state.Drain{Until: until}, false},
		"both":       {state.Drain{Target: state.DrainTarget{Node: "a", Service: state.ObjectName{Namespace: "a", Name: "b"}}, Until: until}, false},
		"no name":    {state.Drain{Target: state.DrainTarget{Service: state.ObjectName{Namespace: "a"}}, Until: until}, false},
		"long name":  {state.Drain{Target: state.DrainTarget{Node: string(make([]byte, 300))}, Until: until}, false},
		"over":       {state.Drain{Target: node, Until: today}, false},
		"no grace":   {state.Drain{Target: node, Until: until, Grace: -time.Second}, false},
		"much grace": {state.Drain{Target: node, Until: until, Grace: 1 << 62}, false},
		"too long":   {state.Drain{Target: node, Until: today.Add(maxDrain + time.Second)}, false},
	} {
		if err := checkDrain(c.d, today); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reason comes from whoever holds the key, and is shown on terminals.
func TestDrainReasonIsOneLine(t *testing.T) {
	for reason, want := range map[string]string{
		"kernel upgrade, #42":    "kernel upgrade, #42",
		"größer":                 "größer",
		"a\nb\tc\r":              "a b c ",
		"\x1b[2Jnobody was here": " [2Jnobody was here",
		"cut off: \xc3":          "cut off: \ufffd",
	} {
		if got := (&drain{reason: reason}).state(0).Reason; got != want {
			t.Errorf("%q is shown as %q", reason, got)
		}
	}
}

// What a peer sent is shown on terminals and as JSON: a target is as it is, and a
// time has a year of four digits.
func TestDrainThatCannotBeShownIsRefused(t *testing.T) {
	node, endpoint := state.DrainTarget{Node: "a"}, netip.MustParseAddrPort("[fe80::1%\x1b[2J]:80")
	for name, c := range map[string]struct {
		d    drain
		good bool
	}{
		"a node":            {drain{target: node, since: today.Unix()}, true},
		"an odd node":       {drain{target: state.DrainTarget{Node: "größe 2"}, since: today.Unix()}, true},
		"escapes of a node": {drain{target: state.DrainTarget{Node: "\x1b[2J"}, since: today.Unix()}, false},
		"of a service":      {drain{target: state.DrainTarget{Service: state.ObjectName{Namespace: "a\n", Name: "b"}}, since: today.Unix()}, false},
		"of a zone":         {drain{target: state.DrainTarget{Endpoint: endpoint}, since: today.Unix()}, false},
		"the year 292e9":    {drain{target: node, since: 1<<63 - 1}, false},
		"the year -292e9":   {drain{target: node, since: -1 << 63}, false},
	} {
		c.d.by, c.d.until = "n", today.Add(time.Hour).Unix()
		c.d.keep = c.d.until
		if _, ok := decodeDrain(newDrain(c.d).message); ok != c.good {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// TestDrainOnFullDisk: what the disk doesn't take is in force, and the error says
// so; it reads the same each time.
func TestDrainOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	c, err := NewCluster(ClusterConfig{NodeName: "a", StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	d := state.Drain{Target: state.DrainTarget{Node: "b"}, Until: time.Now().Add(time.Hour)}
	first, again := c.Drain(d), c.Drain(d)
	if first == nil || again == nil || first.Error() != again.Error() || !strings.HasSuffix(first.Error(), "restart of this one: open "+dir+"/drains.new: no such file or directory") {
		t.Errorf("%v, then %v", first, again)
	}
	if c.View().Drains[d.Target] == nil {
		t.Error("it isn't in force")
	}
}
