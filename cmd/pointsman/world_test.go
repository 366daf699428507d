package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// deadline is for what should happen at once: the machine may be busy, and then
// the program that the race detector looks after takes half a minute to start.
const deadline = 90 * time.Second

// world is the lab of the cases with a manifests directory that all its nodes
// read, as they would read a checkout of one repository.
type world struct {
	*lab.L1
	t         *testing.T
	dir       string // of everything that is written
	manifests string
}

// newWorld builds a lab with backends behind each node. Nothing runs yet.
func newWorld(t *testing.T, backends ...int) *world {
	t.Helper()
	dir := t.TempDir() // it's removed once the lab is closed, and its agents are dead
	w := &world{L1: lab.New(t).L1(backends...), t: t, dir: dir}
	w.manifests = filepath.Join(w.dir, "manifests")
	if err := os.Mkdir(w.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, h := range append([]*lab.Host{w.Client, w.Router}, w.Nodes...) {
		// Each refusal is to be seen, not one a second.
		h.Sysctl("net.ipv4.icmp_ratelimit", "0")
		h.Sysctl("net.ipv6.icmp.ratelimit", "0")
	}
	// Neither has this one a limit, other than the routing code's own.
	sh(t, w.Router, "nft 'table inet world { chain c { type filter hook prerouting priority 0; meta l4proto { tcp, udp, sctp } fib daddr oif missing reject with icmpx no-route; }; }'")
	return w
}

// route sends the client's packets to some addresses by way of a node.
func (w *world) route(node *lab.Host, addrs ...string) {
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		via := node.Addr4()
		if a.Is6() {
			via = node.Addr6()
		}
		w.Client.Route(netip.PrefixFrom(a, a.BitLen()).String(), via)
	}
}

// serve starts a backend on each backend host that speaks TCP on a port.
func (w *world) serve(port uint16) {
	for _, b := range w.Backends {
		b.Serve(lab.TCP, port)
	}
}

// write replaces a file of the manifests as editors and git do, by a new one
// under the old name.
func (w *world) write(name string, docs ...string) {
	w.t.Helper()
	replace(w.t, filepath.Join(w.manifests, name), strings.Join(docs, "\n---\n"))
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	draft := filepath.Join(filepath.Dir(path), ".draft")
	if err := os.WriteFile(draft, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(draft, path); err != nil {
		t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.manifests, name)); err != nil {
		w.t.Fatal(err)
	}
}

// service gives the manifest of a Service, its spec in flow style. A name is
// of namespace default unless it says otherwise: shop/web.
func service(name, spec string, annotations ...string) string {
	namespace, name := namespaced(name)
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: %s\n  annotations: {%s}\nspec: {%s}",
		name, namespace, strings.Join(annotations, ", "), spec)
}

// slice gives the manifest of an EndpointSlice: service/name, or
// namespace/service/name; ports in flow style; endpoints as address or
// address@node, all of one family.
func slice(name, ports string, endpoints ...string) string {
	i := strings.LastIndex(name, "/")
	namespace, of := namespaced(name[:i])
	family, list := "IPv4", ""
	for _, e := range endpoints {
		address, node, _ := strings.Cut(e, "@")
		if strings.Contains(address, ":") {
			family = "IPv6"
		}
		list += fmt.Sprintf("\n  - {addresses: [%q]", address)
		if node != "" {
			list += ", nodeName: " + node
		}
		list += "}"
	}
	if list == "" {
		list = " []"
	}
	return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: %s-%s\n  namespace: %s\n"+
		"  labels: {kubernetes.io/service-name: %s}\naddressType: %s\nports: [%s]\nendpoints:%s",
		of, name[i+1:], namespace, of, family, ports, list)
}

func namespaced(name string) (string, string) {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace, rest
	}
	return "default", name
}

// http80 and its port's slice are what most tests need.
const (
	http80   = "ports: [{name: http, port: 80}]"
	http8080 = "{name: http, port: 8080}"
)

// eventually waits until ok has nothing to complain of.
func eventually(t *testing.T, ok func() error) time.Duration {
	t.Helper()
	return within(t, deadline, ok)
}

// within is eventually with another bound.
func within(t *testing.T, bound time.Duration, ok func() error) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return time.Since(began)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still after %s: %v", bound, err)
		}
	}
}

// must ends a test that has no point without what failed.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func addrPort(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }
