package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"pointsman/reconcile/lab"
)

// steps are the demo, in order. Each prints what it does and what came of it,
// and returns an error where that is not what should have come of it.
func (d *demo) steps() []func(context.Context) error {
	return []func(context.Context) error{
		d.start, d.spread, d.fromEverywhere, d.nodePorts, d.moved, d.leaving, d.explained, d.withoutAgents, d.end,
	}
}

func (d *demo) start(ctx context.Context) error {
	d.heading("Every host runs the agent, and reads the same directory.")
	d.command("n1", "pointsman run --manifests examples/quickstart/manifests --node-name n1")
	d.command("n2", "...")
	began := time.Now()
	if err := d.startAgents(); err != nil {
		return err
	}
	if err := d.serving(ctx); err != nil {
		return err
	}
	d.result("all %d serve, %s later", len(d.agents), since(began))
	return nil
}

func (d *demo) spread(ctx context.Context) error {
	d.heading("Connections to the Service's address are spread over its backends.")
	d.command("c", nc(clusterIP4)+"      # 300 times, by way of n1")
	var t lab.Tally
	t.Connect(ctx, d.lab.Client, clusterIP4, 300)
	d.bars(backends, t.Counts)
	if err := check(&t, backends...); err != nil {
		return err
	}
	d.result("%d connections, none failed", t.Total)
	return nil
}

func (d *demo) fromEverywhere(ctx context.Context) error {
	d.heading("The same by IPv6, and for programs on the hosts themselves.")
	n2 := d.lab.Nodes[1]
	for _, way := range []struct {
		from *lab.Host
		to   netip.AddrPort
	}{{d.lab.Client, clusterIP6}, {n2, clusterIP4}, {n2, clusterIP6}} {
		d.command(way.from.Name, nc(way.to))
		var t lab.Tally
		t.Connect(ctx, way.from, way.to, 300)
		if err := check(&t, backends...); err != nil {
			return err
		}
		d.result("%d connections, none failed: %s", t.Total, &t)
	}
	return nil
}

func (d *demo) nodePorts(ctx context.Context) error {
	d.heading("The NodePort answers on every host's own address; that needs no route.")
	d.command("c", fmt.Sprintf("for host in n1 n2 n3; do nc $host %d; done", nodePort))
	var t lab.Tally
	for _, n := range d.lab.Nodes {
		for _, a := range []netip.Addr{n.Addr4(), n.Addr6()} {
			t.Connect(ctx, d.lab.Client, netip.AddrPortFrom(a, nodePort), 50)
		}
	}
	if err := check(&t, backends...); err != nil {
		return err
	}
	d.result("%d connections to 3 IPv4 and 3 IPv6 addresses, none failed: %s", t.Total, &t)
	return nil
}

// moved moves the NodePort, which shows both that a new frontend answers and
// that an old one is gone.
func (d *demo) moved(ctx context.Context) error {
	d.heading("An edit takes effect by itself.")
	n3 := d.lab.Nodes[2].Addr4()
	before, after := fmt.Sprintf("      nodePort: %d\n", nodePort), fmt.Sprintf("      nodePort: %d\n", newNodePort)
	if err := d.change("web.yaml", edit{before, after}); err != nil {
		return err
	}
	d.command("c", fmt.Sprintf("nc n3 %d", newNodePort))
	took, err := until(ctx, d.lab.Client, netip.AddrPortFrom(n3, newNodePort), lab.OK)
	if err != nil {
		return err
	}
	d.result("answers %s after the file was saved", took.Round(time.Millisecond))
	d.command("c", fmt.Sprintf("nc n3 %d", nodePort))
	if _, err := until(ctx, d.lab.Client, netip.AddrPortFrom(n3, nodePort), lab.Refused); err != nil {
		return err
	}
	d.result("connection refused")
	return nil
}

// leaving takes b2 out, and then off, while a client keeps connecting.
func (d *demo) leaving(ctx context.Context) error {
	d.heading("A backend leaves while clients keep connecting.")
	s := d.lab.Client.Stream(ctx, lab.TCP, clusterIP4, pace)
	defer s.Stop()
	if err := s.Wait(ctx, 100); err != nil {
		return err
	}
	err := d.change("web-endpoints.yaml",
		edit{"  - addresses: [10.20.1.21]\n    nodeName: n2\n", ""},
		edit{"  - addresses: [\"2001:db8:20:1::21\"]\n    nodeName: n2\n", ""})
	if err != nil {
		return err
	}
	edited := time.Now()
	last, err := waitForLast(ctx, s, "b2")
	if err != nil {
		return err
	}
	d.command("b2", "systemctl stop web")
	d.servers[1].Close()
	if err := s.Wait(ctx, 300); err != nil {
		return err
	}
	t := s.Stop()
	if err := t.Check(); err != nil {
		return err
	}
	d.result("b2 got its last new connection %s after the files were saved", max(last.Sub(edited), 0).Round(time.Millisecond))
	d.result("b1 and b3 took over; of %d connections meanwhile, none failed", t.Total)
	return nil
}

// explained drains b3 on n1 while a client keeps connecting, asks n1 what it
// thinks of that, and ends it.
func (d *demo) explained(ctx context.Context) error {
	d.heading("A backend is drained, and the host can be asked why it gets no traffic.")
	n1, endpoint := d.lab.Nodes[0], netip.AddrPortFrom(d.lab.Backends[2].Addr4(), backendPort).String()
	s := d.lab.Client.Stream(ctx, lab.TCP, clusterIP4, pace)
	defer s.Stop()
	if _, err := d.ask(ctx, n1, "drain", "endpoint", endpoint, "--reason", "kernel-upgrade"); err != nil {
		return err
	}
	if _, err := waitForLast(ctx, s, "b3"); err != nil {
		return err
	}
	answer, err := d.ask(ctx, n1, "explain", clusterIP4.String())
	if err != nil {
		return err
	}
	d.quote(answer)
	if !strings.Contains(answer, "kernel-upgrade") || !strings.Contains(answer, "is as it should be") {
		return errors.New("explain doesn't tell of the drain")
	}
	if _, err := d.ask(ctx, n1, "undrain", "endpoint", endpoint); err != nil {
		return err
	}
	if err := waitForNext(ctx, s, "b3"); err != nil {
		return err
	}
	t := s.Stop()
	d.result("b3 is back; of %d connections meanwhile, none failed", t.Total)
	return t.Check()
}

// ask runs a command that asks the agent of a host, and gives what it prints.
func (d *demo) ask(ctx context.Context, n *lab.Host, args ...string) (string, error) {
	d.command(n.Name, "pointsman "+strings.Join(args, " "))
	cmd := n.Command(ctx, d.agent, args...)
	cmd.Env = append(os.Environ(), "POINTSMAN_SOCKET="+d.socket(n))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pointsman %s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// withoutAgents kills the agents, the hard way: there is nothing that they
// would have to do first.
func (d *demo) withoutAgents(ctx context.Context) error {
	d.heading("The agents are never in the way of traffic: it goes on without them.")
	if err := d.alive(); err != nil {
		return err
	}
	for _, a := range d.agents {
		if err := a.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-a.Done()
	}
	d.command("n1", "kill -9 $(pidof pointsman)      # and on n2, and n3")
	d.command("c", nc(clusterIP4))
	var t lab.Tally
	t.Connect(ctx, d.lab.Client, clusterIP4, 300)
	if err := check(&t, "b1", "b3"); err != nil {
		return err
	}
	d.result("%d connections, none failed: %s", t.Total, &t)
	return nil
}

func (d *demo) end(context.Context) error {
	if err := d.close(); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\n%s examples/quickstart/README.md\n", d.paint(bold, "All of it is gone again. Your turn:"))
	return nil
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

// nc is the command that does what the demo's client does.
func nc(to netip.AddrPort) string { return fmt.Sprintf("nc %s %d", to.Addr(), to.Port()) }
