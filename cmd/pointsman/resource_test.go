package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"pointsman/state"
	"pointsman/state/manifest"
)

// TestListAsYAML: a List that is written object by object is what it would be as
// a whole.
func TestListAsYAML(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"List","items":[]}`,
		`{"apiVersion":"v1","kind":"List","items":[{"a":[{"b":"one\n\n  two: three\n"},{"c":"- d"}]},{"e":{"f":"\n","g":" "}}]}`,
	} {
		var l objectList
		var want, got any
		var b strings.Builder
		for _, err := range []error{json.Unmarshal([]byte(text), &l), json.Unmarshal([]byte(text), &want), writeAs("yaml", &b, &l), yaml.Unmarshal([]byte(b.String()), &got)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became\n%s", text, b.String())
		}
	}
}

// TestWatchedProblem: who watches problems as JSON is told what they are.
func TestWatchedProblem(t *testing.T) {
	t.Parallel()
	a := &problemsAnswer{jsonProblems: jsonProblems{Problems: []jsonProblem{{Severity: "error", File: "web.yaml", Line: 3, Kind: "Service", Namespace: "shop", Name: "web", Field: "spec", Message: "no"}}}}
	row := problemRows(a)[0]
	text := string(must[[]byte](t)(lineOf(&row)))
	if want := `{"severity":"error","file":"web.yaml:3","object":"Service shop/web","problem":"spec: no"}` + "\n"; text != want {
		t.Errorf("got %s, not %s", text, want)
	}
}

// TestTroubleIsKnownAgain: a trouble that tells of each try is one that changed for
// those who watch, and two of one name are two.
func TestTroubleIsKnownAgain(t *testing.T) {
	t.Parallel()
	var subjects []string
	for _, r := range troubleRows([]string{"nftables: no (failures in a row: 3)", "nftables: a change waits: for nft", "fleet: alone", "stuck"}) {
		subjects = append(subjects, r.subject)
	}
	if want := []string{"nftables 1", "nftables 2", "fleet 1", "stuck 1"}; !slices.Equal(subjects, want) {
		t.Errorf("%q, not %q", subjects, want)
	}
}

// TestAwaits: what a held change would do on this host, where other hosts serve some.
func TestAwaits(t *testing.T) {
	t.Parallel()
	of := func(name string, port uint16, nodes ...string) *state.Service {
		return &state.Service{ObjectName: state.ObjectName{Namespace: "shop", Name: name}, Nodes: nodes,
			Ports: []state.Port{{Protocol: state.TCP, Frontends: []state.Frontend{{Address: netip.MustParseAddr("10.96.0.1"), Port: port}}}}}
	}
	before := &manifest.Result{Services: []*state.Service{of("changed", 80), of("goes", 80), of("elsewhere", 80, "n2"), of("same", 80)}}
	after := &manifest.Result{Services: []*state.Service{of("changed", 81), of("elsewhere", 80, "n1"), of("same", 80)}}
	would := (&inForce{result: before, held: &heldChange{result: after}}).awaits("n1")
	for name, want := range map[string]string{"changed": "changed by", "goes": "removed by", "elsewhere": "served by", "same": ""} {
		got := would[state.ObjectName{Namespace: "shop", Name: name}]
		if got != "" {
			got = strings.TrimSuffix(strings.TrimPrefix(got, ", would be "), " the held change")
		}
		if got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}

// TestNodePortsThatNothingAnswers: they are told if no family answers; of one family
// that doesn't, nothing is.
func TestNodePortsThatNothingAnswers(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")
	port := state.Port{Protocol: state.TCP, Endpoints: []state.Endpoint{{Address: addrPort("10.20.0.11:8080"), Ready: true, Serving: true}}}
	of := func(addresses ...netip.Addr) *state.Service {
		p := port
		for _, a := range addresses {
			p.Frontends = append(p.Frontends, state.Frontend{Kind: state.NodePort, Address: a, Port: 30080})
		}
		return &state.Service{Ports: []state.Port{p}}
	}
	any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	for _, c := range []struct {
		s    *state.Service
		on   []netip.Addr
		want string
	}{
		{of(any4), []netip.Addr{v4}, ""},
		{of(any4), []netip.Addr{v6}, "no address here for NodePort 30080 (IPv4)/TCP"},
		{of(any4, any6), []netip.Addr{v4}, ""},
		{of(any4, any6), []netip.Addr{v4, v6}, "no endpoint for NodePort 30080 (IPv6)/TCP"},
		{of(any6), []netip.Addr{v6}, "no endpoint"},
		{of(any4, any6), nil, "no address here for NodePort 30080 (IPv4)/TCP, NodePort 30080 (IPv6)/TCP"},
	} {
		l := &lookout{nodePorts: c.on, nodePortsKnown: true}
		if got := strings.Join(l.fares(c.s), "; "); got != c.want {
			t.Errorf("%v on %s: %q, not %q", c.s.Ports[0].Frontends, c.on, got, c.want)
		}
	}
}

// TestServicesOfTwoMoments: what is served is known a moment before what is declared,
// or after it; that is no reason to fail.
func TestServicesOfTwoMoments(t *testing.T) {
	t.Parallel()
	name := state.ObjectName{Namespace: "shop", Name: "web"}
	r := place{}.load(map[string][]string{"web.yaml": {service("shop/web", "clusterIP: 10.96.0.20, ports: [{name: a, port: 80}, {name: b, port: 81}]")}})
	before := &state.Service{ObjectName: name, Ports: []state.Port{{Name: "a", Protocol: state.TCP}}}
	l := &lookout{declared: r.Declarations(nil), served: map[state.ObjectName]*state.Service{name: r.Services[0]}, here: map[state.ObjectName]*state.Service{name: before}}
	if rows := l.rows(); len(rows) != 1 || fmt.Sprint(rows[0].Ports) != "[80/TCP 81/TCP]" {
		t.Errorf("rows %+v", rows)
	}
	if n := len(slices.Collect(l.effective())); n != 0 {
		t.Errorf("%d objects", n)
	}
}

// TestWatchHearsOfTheAgent: that an agent is there again is told when it is, though
// all be as before.
func TestWatchHearsOfTheAgent(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	serve := func() *http.Server {
		listener := must[net.Listener](t)((&net.ListenConfig{}).Listen(t.Context(), "unix", socket))
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Header.Get("If-None-Match") == "":
				w.Header().Set("ETag", `"same"`)
				reply(w, drainsAnswer{Drains: []drainAnswer{}})
				return
			case r.URL.Query().Get("wait") == pollFor.String():
				<-r.Context().Done()
			}
			w.WriteHeader(http.StatusNotModified)
		})}
		go func() { _ = srv.Serve(listener) }()
		t.Cleanup(func() { srv.Close() })
		return srv
	}
	agent := serve()
	ctx, interrupt := context.WithCancel(t.Context())
	out, notes, ended := &transcript{}, &transcript{}, make(chan int)
	go func() {
		ended <- Main(ctx, []string{"pointsman", "get", "drains", "-w", "--socket", socket, "--config", ""}, out, notes)
	}()
	out.until(t, "TARGET")
	agent.Close()
	notes.until(t, "trying again")
	serve()
	notes.until(t, "the agent answers again")
	interrupt()
	<-ended
}
