package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/doctor"
	"pointsman/reconcile/lab"
)

// seeDoctor has the real command look at a node, and gives its findings and
// exit code.
func (w *world) seeDoctor(node *lab.Host, flags ...string) ([]doctor.Finding, int) {
	w.t.Helper()
	args := append([]string{"doctor", "-o", "json", "--node-name", node.Name, "--state-dir", filepath.Join(w.dir, "state-"+node.Name)}, flags...)
	cmd := node.Command(w.t.Context(), "pointsman", args...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	var findings []doctor.Finding
	if err := json.Unmarshal(out, &findings); err != nil {
		w.t.Fatalf("%v: %s%s", err, out, errOut.String())
	}
	return findings, cmd.ProcessState.ExitCode()
}

// finding gives the findings of a check that are graver than ok.
func finding(findings []doctor.Finding, check string) (found []doctor.Finding) {
	for _, f := range findings {
		if f.Check == check && f.Level != doctor.OK {
			found = append(found, f)
		}
	}
	return found
}

// requireFinding requires one finding of a check, and gives its cure.
func requireFinding(t *testing.T, findings []doctor.Finding, check string, level doctor.Level, says string) []string {
	t.Helper()
	found := finding(findings, check)
	if len(found) != 1 || found[0].Level != level || !strings.Contains(found[0].What, says) {
		t.Fatalf("%s: want one %s that says %q, got %+v", check, level, says, found)
	}
	return found[0].Fix
}

// cure does on a node what a finding tells, but for comments and lines of
// files.
func cure(t *testing.T, h *lab.Host, fix []string) {
	t.Helper()
	for _, command := range fix {
		switch first, _, _ := strings.Cut(command, " "); first {
		case "sysctl": // not every machine has it
			name, value, _ := strings.Cut(strings.TrimPrefix(command, "sysctl -w "), "=")
			h.Sysctl(name, value)
		case "nft", "ip", "bridge":
			sh(t, h, command)
		}
	}
}

// TestDoctorOnAHealthyHost: before the agent ever ran, and while it runs.
func TestDoctorOnAHealthyHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n1 := w.Nodes[0]
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080, "10.20.0.11"))
	flags := []string{"--service-cidr", "10.96.0.0/16", "--manifests", w.manifests}
	healthy := func() []doctor.Finding {
		t.Helper()
		findings, code := w.seeDoctor(n1, append(flags, "--strict")...)
		if code != 0 || doctor.Worst(findings) != doctor.Note {
			t.Errorf("exit code %d: %+v", code, findings)
		}
		return findings
	}
	requireFinding(t, healthy(), "agent", doctor.Note, "does not run")
	a := w.agent(n1, "--service-cidr", "10.96.0.0/16")
	if found := finding(healthy(), "agent"); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	findings, _ := w.seeDoctor(n1, append(flags, "--state-dir", t.TempDir())...)
	requireFinding(t, findings, "agent", doctor.Warning, "another --state-dir")
	a.Kill()
	findings, code := w.seeDoctor(n1, append(flags, "--strict")...)
	requireFinding(t, findings, "agent", doctor.Warning, "its rules are in place")
	if code != exitWarnings {
		t.Errorf("exit code %d", code)
	}
}

// TestDoctorSettings: settings of a network namespace that hurt are found, and
// gone after what doctor says was done.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n1 := w.Nodes[0]
	w.write("web.yaml", localLB("web", "30080", "30901", "10.20.0.11@n1")...)
	for _, s := range []struct {
		sysctl, value, check string
		level                doctor.Level
		says                 string
	}{
		{"net.ipv4.ip_forward", "0", "forwarding", doctor.Problem, "IPv4 forwarding is off"},
		{"net.ipv4.conf.eth1.forwarding", "0", "forwarding", doctor.Warning, "eth1 forwards nothing"},
		{"net.ipv4.conf.all.rp_filter", "1", "rp-filter", doctor.Warning, "strict on eth0, eth1, eth2"},
		{"net.ipv4.conf.eth0.route_localnet", "1", "route-localnet", doctor.Warning, "net.ipv4.conf.eth0.route_localnet"},
		{"net.ipv4.ip_local_port_range", "30000 60999", "ephemeral-ports", doctor.Warning, "nodePort 30080 of default/web, healthCheckNodePort 30901 of default/web"},
	} {
		n1.Sysctl(s.sysctl, s.value)
		findings, _ := w.seeDoctor(n1, "--manifests", w.manifests)
		cure(t, n1, requireFinding(t, findings, s.check, s.level, s.says))
		if findings, code := w.seeDoctor(n1, "--manifests", w.manifests, "--strict"); code != 0 {
			t.Errorf("%s: cured, yet %+v", s.sysctl, finding(findings, s.check))
		}
	}
	n1.Sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", "1")
	findings, _ := w.seeDoctor(n1)
	requireFinding(t, findings, "conntrack-window", doctor.Note, "liberal")
	requireFinding(t, findings, "loopback-nodeports", doctor.Note, "192.0.2.11, 2001:db8::11")
}

// TestDoctorOnBridges: C52 and C53.
func TestDoctorOnBridges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n1 := w.Nodes[0]
	bridged(w)
	n1.IP("link add k2 type veth peer name k3", "link set k2 master br0", "link set k2 up")
	w.write("web.yaml", localLB("web", "30080", "30900", "10.30.0.11@n1")...)
	findings, _ := w.seeDoctor(n1, "--manifests", w.manifests)
	cure(t, n1, requireFinding(t, findings, "bridges", doctor.Warning, "ports of br0: eth3, k2"))
	if findings, code := w.seeDoctor(n1, "--manifests", w.manifests, "--strict"); code != 0 {
		t.Errorf("%+v", finding(findings, "bridges"))
	}
	n1.Sysctl("net.bridge.bridge-nf-call-iptables", "0")
	findings, _ = w.seeDoctor(n1, "--manifests", w.manifests)
	cure(t, n1, requireFinding(t, findings, "bridges", doctor.Warning, "netfilter doesn't see what br0 bridges"))
}

// TestDoctorChangesNothing: leftovers of others, and that looking at a host,
// however bad, changes nothing on it.
func TestDoctorChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n1 := w.Nodes[0]
	bridged(w)
	n1.IP("route del default")
	n1.Sysctl("net.ipv4.ip_forward", "0")
	sh(t, n1, `nft '
		table ip kube-proxy { chain services { }; }
		table ip nat { chain KUBE-SERVICES { }; }
		table ip nftlb { chain x { }; }
		table ip6 keepalived { chain in { type filter hook input priority -1; policy accept; drop; }; }
		table inet filter { chain in { type filter hook input priority 0; policy drop; }; chain out { type filter hook output priority 0; policy drop; }; }'`)
	sh(t, n1, "pointsman doctor || true") // loads modules, whose settings appear
	before := hostState(t, n1)
	findings, code := w.seeDoctor(n1, "--manifests", w.manifests, "--service-cidr", "10.96.0.0/16")
	after := hostState(t, n1)
	for _, line := range slices.Concat(without(before, after), without(after, before)) {
		t.Errorf("changed: %s", line)
	}
	if code != exitError || len(finding(findings, "other-proxies")) != 4 {
		t.Errorf("exit code %d: %+v", code, finding(findings, "other-proxies"))
	}
	if found := finding(findings, "firewall"); len(found) != 3 || slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Fix == nil }) {
		t.Errorf("%+v", found)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "state-"+n1.Name)); err == nil {
		t.Error("doctor has made a state directory")
	}
}

// hostState is all that a host has been told: rules, settings, links, addresses
// and routes. ip complains of other tests' namespaces that go meanwhile.
func hostState(t *testing.T, h *lab.Host) []string {
	t.Helper()
	out := sh(t, h, `{ nft list ruleset; ip -d link | sed "s/[a-z_]*timer *[0-9.]*//g"; ip addr show | grep -v valid_lft; ip route show table all; ip -6 route show table all | sed 's/expires [0-9]*sec//'
		} 2>&1 | grep -v 'Peer netns reference'
		cd /proc/sys/net && find . -type f -perm /200 ! -path '*/stable_secret' ! -name flush -exec grep -H . {} + 2>/dev/null | sort`)
	return strings.Split(out, "\n")
}

// without gives the lines of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// TestDoctorUsage: its text is for people, and what's asked wrongly is told.
func TestDoctorUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ask := func(args ...string) (string, int) {
		cmd := w.Nodes[0].Command(context.Background(), "pointsman", append([]string{"doctor"}, args...)...)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 0, "note     loopback-nodeports: NodePorts answer on 192.0.2.11, 2001:db8::11, not on 127.0.0.1 and ::1\n         A connection"},
		{[]string{"-o", "yaml"}, exitUsage, `--output: "yaml" is none of text, json`},
		{[]string{"somewhere"}, exitUsage, "takes no arguments"},
		{[]string{"--node-port-range", "1"}, exitUsage, "--node-port-range"},
		{[]string{"--service-cidr", "x"}, exitUsage, "--service-cidr"},
		{[]string{"--manifests", "/no/such"}, exitError, "/no/such"},
		{[]string{"--config", "/no/such"}, exitError, "configuration"},
	} {
		if out, code := ask(c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.says, out)
		}
	}
}

// TestC37EphemeralPorts: the agent warns of such ports when it loads them, but
// not of reserved ones, and not again and again.
func TestC37EphemeralPorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n1 := w.Nodes[0]
	n1.Sysctl("net.ipv4.ip_local_port_range", "30000 60999")
	w.write("web.yaml", localLB("web", "30080", "30901", "10.20.0.11@n1")...)
	a := w.agent(n1)
	const warning = "nodePort 30080 of default/web, healthCheckNodePort 30901 of default/web"
	a.said(warning)
	a.said("net.ipv4.ip_local_port_range (30000-60999), and not in net.ipv4.ip_local_reserved_ports")
	w.write("web.yaml", localLB("web", "30080", "30901", "10.20.0.11@n1", "10.20.0.12@n1")...)
	eventually(t, func() error {
		if n := strings.Count(a.Output(), "manifests loaded"); n < 2 {
			return fmt.Errorf("loaded %d times", n)
		}
		return nil
	})
	if n := strings.Count(a.Output(), warning); n != 1 {
		t.Errorf("warned %d times:\n%s", n, a.Output())
	}
	n1.Sysctl("net.ipv4.ip_local_reserved_ports", "30000-32767")
	a.restart(syscall.SIGTERM)
	if strings.Contains(a.Output(), warning) {
		t.Errorf("warned of reserved ports:\n%s", a.Output())
	}
}

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:10256": "127.0.0.1:10256", ":10256": "127.0.0.1:10256", "[::]:10256": "[::1]:10256",
		"192.0.2.11:1": "192.0.2.11:1", "localhost:1": "localhost:1", "nonsense": "nonsense",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("%s: got %s, want %s", listen, got, want)
		}
	}
}
