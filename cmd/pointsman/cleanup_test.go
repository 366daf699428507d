package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pointsman/reconcile/lab"
)

// snapshot is everything of a host that a program might leave behind. ip
// complains of namespaces of other tests that go while it looks.
func snapshot(t *testing.T, h *lab.Host) string {
	t.Helper()
	return sh(t, h, `{ nft list ruleset
		ip addr; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; ip tunnel; ip xfrm state
		} 2>&1 | grep -v 'Peer netns reference'
		grep -rs . /proc/sys/net | grep -v 'nf_conntrack_count\|/stat_refresh' | sort
		ss -lntuH | sort`)
}

// TestC56Cleanup: nothing is left of thirty Services, whatever state things
// are in; foreign tables stay as they are; and doing it twice is no error.
func TestC56Cleanup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	n1, c := w.Nodes[0], w.Client
	sh(t, n1, "nft 'table ip foreign { set s { type ipv4_addr; elements = { 192.0.2.9 }; }; chain c { type filter hook forward priority 0; ip saddr @s drop; }; }'")
	before := snapshot(t, n1)
	for i := range 30 {
		name := fmt.Sprint("svc", i)
		w.write(name+".yaml", service(name, fmt.Sprintf(`type: LoadBalancer, clusterIP: 10.96.1.%d, externalTrafficPolicy: Local, sessionAffinity: ClientIP,
			externalIPs: [192.0.2.%d], healthCheckNodePort: %d, ports: [{name: http, port: 80, nodePort: %d}]`, i+1, 200+i, 31000+i, 30100+i),
			fmt.Sprintf("pointsman/load-balancer-ips: 198.18.0.%d", i+1)), slice(name+"/1", http8080, "10.20.0.11@n1"))
	}
	for _, damage := range []string{"true", "nft delete table ip6 pointsman",
		"nft 'flush chain ip pointsman nat-prerouting; flush chain ip pointsman nat-output; flush map ip pointsman services'"} {
		a := w.agent(n1, "--service-cidr", "10.96.0.0/16")
		check(t, row{name: damage, from: c, to: "10.96.1.30:80", by: "b1"}, row{from: c, to: "192.0.2.11:30129", by: "b1"})
		a.Kill()
		sh(t, n1, damage)
		for _, again := range []string{"", "again"} {
			sh(t, n1, "pointsman cleanup --state-dir "+a.state+" --socket "+a.socket())
			if after := snapshot(t, n1); after != before {
				t.Fatalf("%s, cleanup %s: the host was\n%s\nand is\n%s", damage, again, before, after)
			}
		}
		if _, err := os.Stat(a.state); !os.IsNotExist(err) {
			t.Errorf("%s: the state directory: %v", damage, err)
		}
	}
}

// TestRemoveState: what an agent that was killed leaves goes, and with it the
// directory. What isn't an agent's stays.
func TestRemoveState(t *testing.T) {
	t.Parallel()
	for _, others := range []string{"", "notes.txt"} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.MkdirAll(filepath.Join(dir, maintenanceDir), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"last-good.yaml", "served.json", "connections.json", "rules.json", "lock", "drains", "drains.new",
			".last-good.yaml.new", ".served.json.new", ".connections.json.new", ".rules.json.new", "maintenance/10.20.0.11"} {
			replace(t, filepath.Join(dir, name), "")
		}
		if others != "" {
			replace(t, filepath.Join(dir, others), "")
		}
		if err := removeState(dir); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(dir)
		if os.IsNotExist(err) != (others == "") || others != "" && (len(left) != 1 || left[0].Name() != others) {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestCleanupCutsConnections: the kernel translates no packet without a nat
// chain, not even of connections that it knows; somebody else's will do.
func TestCleanupCutsConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	a := w.agent(w.Nodes[0])
	for _, with := range []struct {
		others string
		want   lab.Outcome
	}{
		{"true", lab.Timeout},
		{`nft 'table ip docker { chain c { type nat hook postrouting priority 100; oifname docker0 masquerade; }; }'`, lab.OK},
	} {
		sh(t, a.node, with.others)
		open := must[*lab.Conn](t)(w.Client.Dial(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), 0))
		defer open.Close()
		a.Kill()
		sh(t, a.node, "pointsman cleanup --state-dir "+a.state+" --socket "+a.socket())
		if got := open.Ask("still there?", lab.Patience); got.Outcome != with.want {
			t.Errorf("with others' %q the connection is %s, want %s", with.others, got, with.want)
		}
		check(t, row{from: w.Client, to: "10.96.0.20:80", want: lab.Unreachable})
		a.start()
		a.healthy()
	}
}
