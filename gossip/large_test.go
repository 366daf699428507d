package gossip

import "testing"

// TestMemberAfter: every live member gets its turn, and nobody else.
func TestMemberAfter(t *testing.T) {
	c, err := NewCluster(ClusterConfig{NodeName: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.memberAfter(""); got != "" {
		t.Errorf("with nobody there it's %q", got)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c.members.all[name] = &memberEntry{alive: name != "d"}
	}
	last := ""
	for _, want := range []string{"a", "c", "e", "a", "c"} {
		if last = c.memberAfter(last); last != want {
			t.Errorf("got %q, want %q", last, want)
		}
	}
}

// TestLargeMessage: it's of one size, whatever the name, and is read as it's
// written.
func TestLargeMessage(t *testing.T) {
	for _, name := range []string{"a", "node-1.example.com"} {
		m := largeMessage(name)
		if k, r, ok := open(m); len(m) != largeSize || !ok || k != kindLarge || r.name() != name || r.bad {
			t.Errorf("%q: %d bytes of kind %d", name, len(m), k)
		}
	}
}
