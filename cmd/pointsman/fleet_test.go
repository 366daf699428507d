package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pointsman/reconcile/lab"
	"pointsman/state/event"
)

// The fleet's tests measure as gossip.md's targets do: period 2 s, timeout 1 s,
// threshold 3. Times are printed, not judged: the machine may be busy.
const probeTCP = `'pointsman/readiness-probe': '{tcpSocket: {}, periodSeconds: 2, timeoutSeconds: 1, failureThreshold: 3}'`

// nodesManifest says who belongs to the fleet.
func (w *world) nodesManifest(nodes ...*lab.Host) {
	var docs []string
	for _, n := range nodes {
		docs = append(docs, nodeManifest(n.Name, n.Addr4(), n.Addr6()))
	}
	w.write("nodes.yaml", docs...)
}

func nodeManifest(name string, addrs ...netip.Addr) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {kubernetes.io/hostname: %s}}\nstatus:\n  addresses:", name, name)
	for _, a := range addrs {
		text += fmt.Sprintf("\n  - {type: InternalIP, address: %q}", a)
	}
	return text
}

// keyring writes a keyring file.
func (w *world) keyring(name string, keys ...string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	replace(w.t, path, strings.Join(keys, "\n")+"\n")
	return path
}

func newKey(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	if code := Main(t.Context(), []string{"pointsman", "keygen"}, &out, os.Stderr); code != 0 {
		t.Fatal(code)
	}
	return strings.TrimSpace(out.String())
}

// fleet starts agents that gossip on some nodes (all, if none are named) and
// waits until each sees the others.
func (w *world) fleet(nodes ...*lab.Host) []*daemon {
	w.t.Helper()
	if len(nodes) == 0 {
		nodes = w.Nodes
	}
	return w.fleetBy((*lab.Host).Addr4, nodes...)
}

// fleetBy is fleet at certain addresses of the nodes.
func (w *world) fleetBy(addr func(*lab.Host) netip.Addr, nodes ...*lab.Host) []*daemon {
	w.t.Helper()
	w.nodesManifest(nodes...)
	ring := w.keyring("keyring", newKey(w.t))
	var all []*daemon
	for _, n := range nodes {
		all = append(all, w.begin(n, "--gossip-bind", addr(n).String(), "--gossip-keyring", ring))
	}
	for _, a := range all {
		a.healthy()
		a.sees(len(all))
	}
	return all
}

// gossiping gives the flags of a host of a fleet.
func gossiping(n *lab.Host, ring string) []string {
	return []string{"--gossip-bind", n.Addr4().String(), "--gossip-keyring", ring}
}

// ask gets an answer of the agent, as pointsman get does.
func (a *daemon) ask(answer any, what string) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second) // it may be frozen
	defer cancel()
	if err := ask(ctx, a.socket(), "/v1/"+what, answer); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// do runs a command on the node that changes something.
func (a *daemon) do(args ...string) {
	a.t.Helper()
	sh(a.t, a.node, "pointsman "+strings.Join(args, " ")+" --socket "+a.socket())
}

// nodes gives what the agent knows of the fleet, by name.
func (a *daemon) nodes() (nodesAnswer, map[string]nodeAnswer, error) {
	var answer nodesAnswer
	err := a.ask(&answer, "nodes")
	byName := map[string]nodeAnswer{}
	for _, n := range answer.Nodes {
		byName[n.Name] = n
	}
	return answer, byName, err
}

// sees waits until the agent sees n members alive.
func (a *daemon) sees(n int) {
	a.t.Helper()
	within(a.t, fleetBound, func() error { return a.seesNow(n) })
}

// fleetBound is for what waits for memberlist: some of its intervals are ten
// seconds and more.
const fleetBound = 2 * time.Minute

func (a *daemon) seesNow(n int) error {
	answer, nodes, err := a.nodes()
	if err != nil {
		return err
	}
	maps.DeleteFunc(nodes, func(_ string, m nodeAnswer) bool { return m.State != "alive" })
	if len(nodes) != n {
		return fmt.Errorf("%s sees %d alive, not %d: %+v", a, len(nodes), n, answer)
	}
	return nil
}

// endpoint gives what the agent makes of an endpoint of any Service.
func (a *daemon) endpoint(address string) (endpointAnswer, error) {
	var answer endpointsAnswer
	if err := a.ask(&answer, "endpoints"); err != nil {
		return endpointAnswer{}, err
	}
	for _, e := range answer.Endpoints {
		if e.Address == address {
			return e, nil
		}
	}
	return endpointAnswer{}, fmt.Errorf("no endpoint %s in %+v", address, answer)
}

// until waits until every agent has an endpoint ready, or not, for a reason that
// contains why (for none, if that's empty), and gives the time that took.
func until(t *testing.T, agents []*daemon, address string, ready bool, why string) time.Duration {
	t.Helper()
	return within(t, fleetBound, func() error {
		for _, a := range agents {
			e, err := a.endpoint(address)
			if err != nil {
				return err
			}
			if e.Ready != ready || !strings.Contains(e.Why, why) || why == "" && e.Why != "" {
				return fmt.Errorf("%s has %+v", a, e)
			}
		}
		return nil
	})
}

// site is an HTTP server on a backend that can be made to fail.
type site struct {
	status   atomic.Int64 // of each answer; 0: there is none
	flapping atomic.Bool  // every other answer to each client is 500
	requests atomic.Int64
	turns    sync.Map // how many answers each client got while flapping
}

// site serves HTTP on a host.
func (w *world) site(h *lab.Host, port uint16) *site {
	w.t.Helper()
	s := &site{}
	s.status.Store(http.StatusOK)
	var l net.Listener
	err := h.Do(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }()
	w.t.Cleanup(func() { _ = server.Close() })
	return s
}

func (s *site) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	code := int(s.status.Load())
	if code == 0 {
		<-r.Context().Done()
		return
	}
	if s.flapping.Load() {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		n, _ := s.turns.LoadOrStore(client, new(atomic.Int64))
		if n.(*atomic.Int64).Add(1)%2 == 1 {
			code = http.StatusInternalServerError
		}
	}
	rw.WriteHeader(code)
}

// countedFleet waits until the metrics are those of a fleet that probes two
// endpoints, three hosts each, one of which is down.
func countedFleet(t *testing.T, agents []*daemon) {
	t.Helper()
	within(t, fleetBound, func() error {
		checks := 0.0
		for _, a := range agents {
			mine := a.metric("pointsman_probe_checks")
			checks += mine
			for name, want := range map[string]float64{
				`pointsman_gossip_members\{state="alive"\}`: float64(len(agents)), `pointsman_gossip_members\{state="dead"\}`: 0,
				`pointsman_health_checks\{verdict="down"\}`: 1, `pointsman_health_checks\{verdict="up"\}`: 1,
				"pointsman_gossip_absent_nodes": 0, "pointsman_gossip_isolated": 0, `pointsman_endpoints_by_cause\{cause="seen_down"\}`: 1,
			} {
				if n := a.metric(name); n != want {
					return fmt.Errorf("%s: %s is %v, not %v", a, name, n, want)
				}
			}
			if mine > 0 && a.metric("pointsman_probes_total") == 0 {
				return fmt.Errorf("%s counts no probes", a)
			}
		}
		if checks != 6 {
			return fmt.Errorf("%v checks in all", checks)
		}
		return nil
	})
}

// TestFleetBackendDies: a legacy backend, on no host of the fleet, dies: every
// host stops sending to it, with the evidence; it comes back.
func TestFleetBackendDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, 0, 0, 0)
	b1, b2 := w.Backends[0].Serve(lab.TCP, 8080), w.Backends[1].Serve(lab.TCP, 8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, probeTCP), slice("web/v4", http8080, "10.20.0.11", "10.20.0.12"))
	agents := w.fleet()
	until(t, agents, "10.20.0.12:8080", true, "")
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})

	watch := must[*lab.Process](t)(agents[2].node.Start("pointsman", "get", "events", "-w", "--socket", agents[2].socket()))
	b2.Close()
	t.Logf("a dead process is out on every host after %v", until(t, agents, "10.20.0.12:8080", false, "down: "))
	for _, a := range agents {
		e := a.happened(event.EndpointDown, "10.20.0.12:8080 of default/web is down: ")
		if !strings.Contains(e.Message, ": connection refused") || e.Object != "Service default/web" || e.Endpoint != "10.20.0.12:8080" {
			t.Errorf("%+v", e)
		}
	}
	eventually(t, func() error {
		if out := watch.Output(); strings.Count(out, "10.20.0.12:8080 of default/web is down: ") != 1 {
			return fmt.Errorf("a watcher sees:\n%s", out)
		}
		return nil
	})
	w.everywhere(row{to: "10.96.0.20:80", by: "b1"})
	countedFleet(t, agents)
	e := must[endpointAnswer](t)(agents[0].endpoint("10.20.0.12:8080"))
	if len(e.Votes) != 3 || e.Serving || e.Terminating {
		t.Errorf("the evidence is %+v", e)
	}

	b1.Close()
	until(t, agents, "10.20.0.11:8080", true, "kept, since too few would be left: ")
	agents[0].degraded("served by endpoints that fail their probes: default/web")
	agents[0].happened(event.ServedAnyway, "default/web is served by endpoints that fail their probes")
	w.Backends[1].Serve(lab.TCP, 8080)
	t.Logf("back on every host after %v", until(t, agents, "10.20.0.12:8080", true, ""))
	until(t, agents, "10.20.0.11:8080", false, "down: ")
	agents[0].happened(event.EnoughEndpoints, "default/web")
	agents[0].happened(event.EndpointUp, "10.20.0.12:8080 of default/web is up: ")
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
}
