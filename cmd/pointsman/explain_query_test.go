package main

import "testing"

// TestExplainQuery: an IPv6 client may stand in brackets, as its Service does.
func TestExplainQuery(t *testing.T) {
	for _, c := range []struct{ to, from, want string }{
		{"10.96.0.80:80", "", "to=10.96.0.80%3A80"},
		{"10.96.0.80:53/udp", "192.0.2.50", "from=192.0.2.50&protocol=UDP&to=10.96.0.80%3A53"},
		{"[fd00:96::80]:80", "fd00:20::c", "from=fd00%3A20%3A%3Ac&to=%5Bfd00%3A96%3A%3A80%5D%3A80"},
		{"[fd00:96::80]:80", "[fd00:20::c]", "from=fd00%3A20%3A%3Ac&to=%5Bfd00%3A96%3A%3A80%5D%3A80"},
		{"[fd00:96::80]:80", "[fd00:20::c]:1", ""}, {"[fd00:96::80]:80", "[fe80::1%eth0]", ""}, {"[fd00:96::80]:80", "192.0.2.50", ""},
		{"fd00:96::80", "", ""}, {"fd00:96::80:80", "", ""}, {"[fe80::1%eth0]:80", "", ""},
	} {
		query, err := explainQuery(c.to, c.from)
		if got := query.Encode(); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s from %q: %q, %v", c.to, c.from, got, err)
		}
	}
}
