package reading

import "testing"

// TestAt: what is written in IPv4 stands for both families.
func TestAt(t *testing.T) {
	for text, six := range map[string]string{
		"192.0.2.11": "2001:db8::11", "10.20.1.21": "2001:db8:20:1::21", "10.96.0.20": "2001:db8:96::20", "127.0.0.1": "::1",
	} {
		if got := At(text, false).String(); got != text {
			t.Errorf("%s is %s", text, got)
		}
		if got := At(text, true).String(); got != six {
			t.Errorf("%s is %s in IPv6, want %s", text, got, six)
		}
	}
}

// TestWay: the next hop is the destination where that is on the network, even
// if nobody is there, and a gateway elsewhere.
func TestWay(t *testing.T) {
	w := NewWorld(false)
	for _, r := range []struct{ from, to, next, fate string }{
		{"n1", "192.0.2.12", "192.0.2.12", ""},
		{"n1", "192.0.2.200", "192.0.2.200", Lost},
		{"n1", "10.20.2.99", "192.0.2.13", ""},
		{"c", "10.96.0.20", "192.0.2.11", ""},
	} {
		if got := w.Way(w.Hosts[r.from], At(r.to, false)); got.Next.String() != r.next || got.Fate != r.fate {
			t.Errorf("%s to %s: %+v", r.from, r.to, got)
		}
	}
}
