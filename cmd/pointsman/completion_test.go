package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"pointsman/reconcile"
	"pointsman/state"
)

// offered is what may stand at the cursor, without what it's about; the agent
// knows one name of each kind.
func offered(words ...string) string {
	l := readLine(app(io.Discard, io.Discard), words)
	o := l.offer(func(kind string) []candidate { return candidates(kind) })
	if o.sort != "words" {
		return o.sort
	}
	var all []string
	for _, w := range o.words {
		if strings.HasPrefix(w.text, l.word) {
			all = append(all, l.lead+w.text)
		}
	}
	return strings.Join(all, " ")
}

func TestOffers(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"stat", "status"},
		{"__", ""},
		{"frobnicate ", ""},
		{"get e", "endpoints events"},
		{"get svc ", "services-or-names"},
		{"get endpoints ", "services-or-names"},
		{"get endpoints web ", ""},
		{"get endpoints --na", "--namespace"},
		{"get endpoints -n ", "namespaces"},
		{"get endpoints -n shop ", "services-or-names"},
		{"get endpoints -n shop --name", ""},
		{"get endpoints -n=", "-n=namespaces"},
		{"get endpoints -o j", "json"},
		{"get endpoints --output=j", "--output=json"},
		{"get endpoints --output json ", "services-or-names"},
		{"get endpoints -- -", ""},
		{"get endpoints --help ", "services-or-names"},
		{"run --log-l", "--log-level"},
		{"run --log-level d", "debug"},
		{"run --service-cidr 10.96.0.0/16 --service-c", "--service-cidr"},
		{"run --config ", "files"},
		{"run --config=/etc/", "files"},
		{"run --state-dir ", "directories"},
		{"run --resync ", ""},
		{"run ", ""},
		{"sync --verify ", "ssh gpg"},
		{"status --service ", "services"},
		{"validate ", "files"},
		{"validate a ", "files"},
		{"pin ", "directories"},
		{"pin a ", ""},
		{"completion ", "bash zsh fish"},
		{"approve ", "held"},
		{"explain ", "endpoint frontends"},
		{"explain endpoint ", "endpoints"},
		{"explain 10.96.0.10:80 ", ""},
		{"get events ", "services-or-names"},
		{"get events --type ", "Normal Warning"},
		{"get nodes ", "nodes"},
		{"drain ", "node endpoint service"},
		{"drain node ", "nodes"},
		{"drain --for 1h endpoint ", "endpoints"},
		{"drain host ", ""},
		{"drain node n1 ", ""},
		{"undrain service ", "drained-services"},
	} {
		if got := offered(strings.Split(c.line, " ")...); got != c.want {
			t.Errorf("pointsman %s| offers %q, want %q", c.line, got, c.want)
		}
	}
}

// TestArgumentsOfAllCommands: a command that takes arguments has them completed,
// and one that gets another name keeps that.
func TestArgumentsOfAllCommands(t *testing.T) {
	takes := map[string]bool{}
	eachCommand(app(io.Discard, io.Discard).Commands, "", func(path string, c *cli.Command) { takes[path] = c.ArgsUsage != "" })
	for path := range arguments {
		if !takes[path] {
			t.Errorf("%q takes no arguments, or is no command", path)
		}
	}
	for path, some := range takes {
		if some && arguments[path] == nil {
			t.Errorf("the arguments of %q can't be completed", path)
		}
	}
}

func TestFewestNames(t *testing.T) {
	for prefix, want := range map[string][]string{"web-05": {"web-0500", "web-0599"}, "": {"web-0000", "web-9999"}, "db": nil} {
		l := nameList{prefix: prefix}
		for i := range 20000 { // each of them twice
			l.add(fmt.Sprintf("web-%04d", i*7919%10000), "")
		}
		got := l.fewest()
		switch {
		case len(got) > maxNames || len(got) == 0 != (want == nil):
			t.Errorf("%q: %d names", prefix, len(got))
		case want != nil && (got[0].Name != want[0] || got[len(got)-1].Name != want[1] || got[1].Name != want[0][:7]+"1"):
			t.Errorf("%q: more in common than all: %v", prefix, got)
		}
	}
}

func TestNamesThatShellsWouldRun(t *testing.T) {
	for name, want := range map[string]bool{
		"shop/web": true, "10.96.0.10:53/udp": true, "[fd00::1]:80": true, "n-1_a.b": true,
		"": false, "$(reboot)": false, "a b": false, "n1;reboot": false, "n1\n": false, "`reboot`": false, "~root": false, "--for": false,
	} {
		if harmless(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// fewServices is an agent that serves two Services, as far as names are asked of
// it.
func fewServices(t *testing.T) (socket string) {
	t.Helper()
	endpoint := func(text string) state.Endpoint { return state.Endpoint{Address: netip.MustParseAddrPort(text)} }
	c := &control{source: &source{}, words: newTurnstile()}
	c.source.latest.Store(&reconcile.Desired{Services: []*state.Service{
		{ObjectName: state.ObjectName{Namespace: "default", Name: "plain"}},
		{ObjectName: state.ObjectName{Namespace: "shop", Name: "web"}, Ports: []state.Port{{Protocol: state.UDP,
			Frontends: []state.Frontend{{Address: netip.MustParseAddr("10.96.0.10"), Port: 53}, {Kind: state.NodePort, Address: netip.IPv4Unspecified(), Port: 30053}},
			Endpoints: []state.Endpoint{endpoint("10.20.0.11:8080"), endpoint("[fd00:20::11]:8080")}}}},
	}})
	socket = filepath.Join(t.TempDir(), "sock")
	listener := must[net.Listener](t)(net.Listen("unix", socket))
	server := &http.Server{Handler: c.handler()}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return socket
}

func TestNames(t *testing.T) {
	socket := fewServices(t)
	for _, c := range []struct {
		q    nameQuery
		want string
	}{
		{nameQuery{kind: "namespaces"}, "default shop"},
		{nameQuery{kind: "services"}, "default/plain shop/web"},
		{nameQuery{kind: "services", prefix: "sh"}, "shop/web"},
		{nameQuery{kind: "service-names"}, "plain web"},
		{nameQuery{kind: "service-names", namespace: "shop"}, "web"},
		{nameQuery{kind: "frontends"}, "10.96.0.10:53/UDP"},
		{nameQuery{kind: "endpoints"}, "10.20.0.11 10.20.0.11:8080 [fd00:20::11]:8080 fd00:20::11"},
		{nameQuery{kind: "held"}, ""},
		{nameQuery{kind: "points"}, ""},
	} {
		var got []string
		for _, n := range askNames(t.Context(), socket, c.q) {
			got = append(got, n.text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
}

// TestCompletionIsQuiet: who types is told nothing about agents and
// configurations, and doesn't wait for what is no file.
func TestCompletionIsQuiet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken, pipe := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(broken, []byte("no such: [setting"), 0o644), unix.Mkfifo(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{}, {"pointsman"}, {"pointsman", "get", "endpoints", "--socket", "/nowhere", ""}, {"pointsman", "get", "endpoints", "--config", broken, ""},
		{"pointsman", "get", "endpoints", "--config", pipe, ""}, {"pointsman", "get", "endpoints", "--config", "/dev/zero", ""},
	} {
		cmd := exec.Command("pointsman", append([]string{"__complete", "--"}, words...)...)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Trim(string(out), "words\n") != "" {
			t.Errorf("%q: %v: %s", words, err, out)
		}
	}
}
