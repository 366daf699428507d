package main

import (
	"testing"

	"pointsman/reconcile/doctor"
	"pointsman/reconcile/lab"
)

// TestC50ForwardPolicyDrop: somebody's firewall cuts remote backends off.
// doctor names the chain and the rule, which then helps; local backends work
// all along.
func TestC50ForwardPolicyDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	n1 := w.Nodes[0]
	n1.Serve(lab.TCP, 8080)
	w.write("far.yaml", service("far", "type: NodePort, ports: [{name: http, port: 80, nodePort: 30080}]"), slice("far/v4", http8080, "10.20.0.11"))
	w.write("near.yaml", service("near", "type: NodePort, ports: [{name: http, port: 80, nodePort: 30081}]"), slice("near/v4", http8080, "192.0.2.11@n1"))
	w.agents()
	far := row{from: w.Client, to: "192.0.2.11:30080", by: "b1"}
	check(t, far)
	sh(t, n1, `nft 'table ip filter { chain forward { type filter hook forward priority 0; policy drop; }; }'`)
	check(t, row{from: w.Client, to: "192.0.2.11:30080", want: lab.Timeout}, row{from: w.Client, to: "192.0.2.11:30081", by: "n1"})

	findings, code := w.seeDoctor(n1, "--manifests", w.manifests)
	fix := requireFinding(t, findings, "firewall", doctor.Problem, "ip filter forward (forward, priority 0)")
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	cure(t, n1, fix)
	check(t, far)
	if findings, code = w.seeDoctor(n1, "--manifests", w.manifests); code != 0 || len(finding(findings, "firewall")) != 0 {
		t.Errorf("cured, yet exit code %d: %+v", code, findings)
	}
}

// TestInputPolicyDrop: the same for a backend on the node, and a health check
// port.
func TestInputPolicyDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n1 := w.Nodes[0]
	n1.Serve(lab.TCP, 8080)
	w.write("near.yaml", localLB("near", "30081", "30900", "192.0.2.11@n1")...)
	a := w.agent(n1)
	sh(t, n1, `nft 'table inet my { chain in { type filter hook input priority 5; policy drop; iif lo accept; ct state established accept; ip6 nexthdr icmpv6 accept; }; }'`)
	check(t, row{from: w.Client, to: "192.0.2.11:30081", want: lab.Timeout})
	findings, _ := w.seeDoctor(n1, "--manifests", w.manifests)
	cure(t, n1, requireFinding(t, findings, "firewall", doctor.Problem, "inet my in"))
	check(t, row{from: w.Client, to: "192.0.2.11:30081", by: "n1"})
	from := &daemon{t: t, node: w.Client}
	if code, body, err := from.get("http://192.0.2.11:30900/"); err != nil || code != 200 {
		t.Errorf("%d %s %v\n%s", code, body, err, a.Output())
	}
}

// TestNoRouteToTheServiceRange: without a default route, a node's own
// processes don't reach Services; the route that doctor names is enough.
func TestNoRouteToTheServiceRange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	n1 := w.Nodes[0]
	sh(t, n1, "ip route del default; ip -6 route del default")
	w.write("web.yaml", service("web", `clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20, "2001:db8:96::20"], ipFamilies: [IPv4, IPv6],
		ipFamilyPolicy: RequireDualStack, externalIPs: [198.18.0.10], `+http80),
		slice("web/v4", http8080, "10.20.0.11"), slice("web/v6", http8080, "2001:db8:20::11"))
	ranges := []string{"--service-cidr", "10.96.0.0/16,2001:db8:96::/112"}
	w.agents(ranges...)
	own := []row{{from: n1, to: "10.96.0.20:80", by: "b1"}, {from: n1, to: "[2001:db8:96::20]:80", by: "b1"}, {from: n1, to: "198.18.0.10:80", by: "b1"}}
	for _, r := range own {
		r.want, r.by = lab.Unreachable, ""
		check(t, r)
	}
	findings, _ := w.seeDoctor(n1, append(ranges, "--manifests", w.manifests)...)
	missing := finding(findings, "routes")
	if len(missing) != 3 {
		t.Fatalf("%+v", missing)
	}
	for _, f := range missing {
		cure(t, n1, f.Fix)
	}
	check(t, own...)
	if findings, code := w.seeDoctor(n1, append(ranges, "--manifests", w.manifests)...); code != 0 {
		t.Errorf("%+v", findings)
	}
}
