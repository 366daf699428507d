package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
	"pointsman/state/event"
)

// waiting is a command that waits for a drain.
func (a *daemon) waiting(args ...string) *lab.Process {
	a.t.Helper()
	return must[*lab.Process](a.t)(a.node.Start("pointsman", append([]string{"drain", "--wait", "--socket", a.socket()}, args...)...))
}

// tells waits until a command has said something.
func tells(t *testing.T, p *lab.Process, text string) {
	t.Helper()
	within(t, fleetBound, func() error {
		if !strings.Contains(p.Output(), text) {
			return fmt.Errorf("%s has not said %q but %q", p, text, p.Output())
		}
		return nil
	})
}

// ends waits until a command has ended with an exit code, and said something.
func ends(t *testing.T, p *lab.Process, code int, texts ...string) {
	t.Helper()
	within(t, fleetBound, func() error {
		select {
		case <-p.Done():
			return nil
		default:
			return fmt.Errorf("%s goes on: %q", p, p.Output())
		}
	})
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(p.Wait(), &exit) {
		got = exit.ExitCode()
	}
	if got != code {
		t.Errorf("exit code %d, want %d: %s", got, code, p.Output())
	}
	for _, text := range texts {
		if !strings.Contains(p.Output(), text) {
			t.Errorf("it doesn't say %q but %q", text, p.Output())
		}
	}
}

// TestFleetDrainWait: what is waited for on one host are the connections that
// another one translates. Under a drain none is lost, and UDP flows stay for as
// long as TCP is waited for.
func TestFleetDrainWait(t *testing.T) {
	t.Parallel()
	w, agents := fleetOfHomes(t, 3)
	for _, b := range w.Backends {
		b.Serve(lab.UDP, 53)
	}
	w.write("dns.yaml", service("dns", "clusterIP: 10.96.0.53, ports: ["+udp53+"]"), slice("dns/v4", udp53, "10.20.0.11@n1", "10.20.1.21@n2", "10.20.2.31@n3"))
	await(t, row{from: w.Client, proto: lab.UDP, to: "10.96.0.53:53", by: "b1 b2 b3"})
	n1, n3 := agents[0], agents[2]
	stream := w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond)

	t.Run("to zero", func(t *testing.T) {
		conn := w.open("10.96.0.20:80", "b2")
		p := n3.waiting("endpoint", "10.20.1.21:8080")
		tells(t, p, "1 connection is left: 1 on n1")
		if r := conn.Ask("still", deadline); r.Backend != "b2" {
			t.Errorf("the open connection: %s", r)
		}
		conn.Close()
		ends(t, p, 0, "no connection is left, after ")
		drains(t, agents, "endpoint 10.20.1.21:8080 by n3")
		n1.do("undrain", "endpoint", "10.20.1.21:8080")
		until(t, agents, "10.20.1.21:8080", true, "")
	})
	t.Run("to the bound", func(t *testing.T) {
		conn, flow := w.open("10.96.0.20:80", "b2"), w.flowTo("b2")
		p := n3.waiting("endpoint", "10.20.1.21", "--grace", "6s")
		tells(t, p, " connections are left: ") // with those of the flows that began before
		until(t, agents, "10.20.1.21:8080", false, "drained by n3")
		for range 5 {
			if r := flow.Ask("still", deadline); r.Backend != "b2" {
				t.Errorf("the flow is at %s before the bound", r)
			}
		}
		ends(t, p, 1, "  1 by way of n1 to 10.20.1.21:8080/TCP from 192.0.2.50\n", "1 connection is left after 6s; endpoint 10.20.1.21 stays drained")
		if r := flow.Ask("and now", deadline); r.Outcome != lab.OK || r.Backend == "b2" {
			t.Errorf("the flow after the bound: %s", r)
		}
		if r := conn.Ask("still", deadline); r.Backend != "b2" {
			t.Errorf("the open connection: %s", r)
		}
		conn.Close()
		n1.do("undrain", "endpoint", "10.20.1.21")
	})
	t.Run("to somebody's end", func(t *testing.T) {
		conn := w.open("10.96.0.20:80", "b2")
		defer conn.Close()
		p := n3.waiting("node", "n2")
		tells(t, p, "1 connection is left: 1 on n1")
		p.Kill()
		drains(t, agents, "node n2 by n3")
		p = n1.waiting("node", "n2")
		tells(t, p, "1 connection is left: 1 on n1")
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		ends(t, p, 1, "node n2 stays drained; pointsman undrain node n2 ends that")
		drains(t, agents, "node n2 by n1")
		ready(t, agents, http.StatusOK, http.StatusServiceUnavailable, http.StatusOK)
		p = agents[1].waiting("node", "N2", "--until-boot")
		tells(t, p, "1 connection is left: 1 on n1")
		n3.do("undrain", "node", "n2")
		ends(t, p, 1, "node n2 was undrained meanwhile; 1 connection is left")
	})
	t.Run("many at once", func(t *testing.T) {
		waits := map[string]*lab.Process{}
		for i := range 8 {
			target := fmt.Sprintf("10.20.9.%d", i)
			waits[target] = n3.waiting("endpoint", target, "--grace", "30s", "--force") // no manifest names it
		}
		for target, p := range waits {
			ends(t, p, 0, "no connection is left")
			n1.do("undrain", "endpoint", target)
		}
	})
	t.Run("on a host that doesn't answer", func(t *testing.T) {
		agents[1].signal(syscall.SIGSTOP)
		p := n3.waiting("endpoint", "10.20.0.11:8080")
		ends(t, p, 0, "no connection is left that is known of; n2: not known: no answer", "n2: dead, so nothing is known of connections by way of it")
		agents[1].signal(syscall.SIGCONT)
		for _, a := range agents {
			a.sees(3)
		}
		n1.do("undrain", "endpoint", "10.20.0.11:8080")
		drains(t, agents)
	})
	t.Run("one by one", func(t *testing.T) { testOneByOne(t, w, agents) })
	t.Run("by a file", func(t *testing.T) { testMaintenance(t, w, agents) })
	tally := stream.Stop()
	if err := tally.Check(); err != nil {
		t.Errorf("%v; %s", err, &tally)
	}
}

// flowTo opens a UDP flow that a backend answers.
func (w *world) flowTo(backend string) *lab.Conn {
	w.t.Helper()
	for port := uint16(41000); port < 41000+many; port++ {
		c := must[*lab.Conn](w.t)(w.Client.Dial(w.t.Context(), lab.UDP, addrPort("10.96.0.53:53"), port))
		if c.Ask("hello", deadline).Backend == backend {
			w.t.Cleanup(func() { _ = c.Close() })
			return c
		}
		_ = c.Close()
	}
	w.t.Fatalf("%d flows, and none to %s", many, backend)
	return nil
}

// testOneByOne: the example's script, by a stand-in for ssh.
func testOneByOne(t *testing.T, w *world, agents []*daemon) {
	sh(t, w.Nodes[0], "conntrack -D -p udp --orig-dst 10.96.0.53 2>&1 || true") // else they are waited for until they time out
	var hosts strings.Builder
	for _, a := range agents {
		fmt.Fprintf(&hosts, "%s) ns=%s socket=%s ;;\n", a.node.Name, a.node.Namespace, a.socket())
	}
	ssh := filepath.Join(w.dir, "ssh")
	replace(t, ssh, "#!/bin/sh\ncase $1 in\n"+hosts.String()+"esac\nshift\nPOINTSMAN_SOCKET=$socket exec ip netns exec $ns sh -c \"$*\"\n")
	if err := os.Chmod(ssh, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../examples/maintenance/one-by-one", "n1", "n2", "n3", "--", "pointsman get drains --no-headers")
	cmd.Env = append(os.Environ(), "SSH="+ssh, "GRACE=30s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rest := string(out)
	for i := range agents {
		for _, text := range []string{"n%d: out", "no connection is left", "node n%d", "n%d: in"} {
			text, after, found := strings.Cut(rest, strings.ReplaceAll(text, "%d", fmt.Sprint(i+1)))
			if !found {
				t.Fatalf("%s\nlacks what follows %q", out, text)
			}
			rest = after
		}
	}
	drains(t, agents)
}

// testMaintenance: a file on one host drains in the whole fleet, whatever the
// agent does meanwhile, and only its removal ends that.
func testMaintenance(t *testing.T, w *world, agents []*daemon) {
	n1, n2 := agents[0], agents[1]
	file := func(name string) string { return filepath.Join(n2.state, maintenanceDir, name) }
	remove := func(name string) {
		t.Helper()
		if err := os.Remove(file(name)); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, file("10.20.1.21:8080"), "new disk\n")
	t.Logf("known to all after %v", drains(t, agents, "endpoint 10.20.1.21:8080 by n2"))
	until(t, agents, "10.20.1.21:8080", false, "drained by a file on n2: new disk")
	w.everywhere(row{to: "10.96.0.20:80", by: "b1 b3"})
	if out := sh(t, n1.node, "pointsman get drains --socket "+n1.socket()); !strings.Contains(out, "file on n2") || !strings.Contains(out, "new disk") {
		t.Error(out)
	}
	for a, want := range map[*daemon]string{n1: "is drained by a file on n2, which would drain it again: remove 10.20.1.21:8080 there", n2: "remove " + file("10.20.1.21:8080")} {
		if out, err := a.ctl("undrain", "endpoint", "10.20.1.21:8080"); err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("%s: %v, %s", a, err, out)
		}
	}
	replace(t, file("web"), "")
	n2.degraded(`"web" drains nothing (its name is no endpoint: rename it`)
	if e := n2.happened(event.DrainFileWrong, "web"); !strings.HasPrefix(e.Message, "maintenance files: in "+filepath.Dir(file("web"))+": ") {
		t.Error(e.Message)
	}
	remove("web")
	n2.end(syscall.SIGKILL)
	n2.start()
	n2.healthy()
	drains(t, agents, "endpoint 10.20.1.21:8080 by n2")
	n2.end(syscall.SIGTERM)
	remove("10.20.1.21:8080")
	replace(t, file("10.20.2.31"), "")
	n2.start()
	drains(t, agents, "endpoint 10.20.2.31 by n2")
	n1.do("drain", "endpoint", "10.20.2.31:8080")
	replace(t, file("10.20.2.31:8080"), "")
	if out, err := n1.ctl("undrain", "endpoint", "10.20.2.31:8080"); err == nil || !strings.Contains(out+err.Error(), "10.20.2.31:8080 is drained by a file on n2, which would drain it again: remove 10.20.2.31:8080 there") {
		t.Errorf("beside a file: %v, %s", err, out)
	}
	remove("10.20.2.31:8080")
	remove("10.20.2.31")
	drains(t, agents)
	w.everywhere(row{to: "10.96.0.20:80", by: "b1 b2 b3"})
}

// TestDrainOrder: while nft takes its time, balancers know already that the host
// is drained, and who waits knows that it isn't: nothing is open, and yet new
// connections come. The way back is the other way round.
func TestDrainOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.serve(8080)
	docs := localLB("web", "30080", "30900", "10.20.0.11@n1", "10.20.1.21@n2")
	docs[0] = strings.Replace(docs[0], "type: LoadBalancer", "type: LoadBalancer, clusterIP: 10.96.0.20", 1)
	w.write("web.yaml", docs...)
	hold := filepath.Join(w.dir, "hold")
	n1 := w.agent(w.Nodes[0], stubNft(t, fmt.Sprintf(`case " $* " in *" -f "*) while test -e %s; do sleep 0.05; done;; esac`, hold)))
	balancer := func(want int) error {
		code, body, err := httpGet(w.Client, "http://192.0.2.11:30900/healthz")
		if err == nil && code != want {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	}
	eventually(t, func() error { return balancer(http.StatusOK) })
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
	replace(t, hold, "")
	p := n1.waiting("node")
	eventually(t, func() error { return balancer(http.StatusServiceUnavailable) })
	tells(t, p, "n1: not drained there yet")
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	ends(t, p, 0, "no connection is left")
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
	replace(t, hold, "")
	n1.do("undrain", "node")
	eventually(t, func() error {
		code, h, err := n1.health()
		if err == nil && (code != http.StatusOK || h.Drained) {
			err = fmt.Errorf("%d %+v", code, h)
		}
		return err
	})
	if err := balancer(http.StatusServiceUnavailable); err != nil {
		t.Errorf("clients are sent to a host that isn't back: %v", err)
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return balancer(http.StatusOK) })
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
}
