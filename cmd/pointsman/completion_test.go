package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/urfave/cli/v2"

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
	c := &control{source: &source{}}
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

// shell is one that people have, without anything of their own.
type shell struct {
	start     []string
	installed string // the script
	load      string // has it known
}

var shells = map[string]shell{
	"bash": {[]string{"bash", "--norc", "--noprofile", "-i"}, "bash-completion/completions/pointsman", "source <(pointsman completion bash)"},
	"zsh": {[]string{"zsh", "-f", "-i"}, "zsh/site-functions/_pointsman",
		"fpath=($INSTALLED/zsh/site-functions $fpath); autoload -Uz compinit; compinit -D -u"},
	"fish": {[]string{"fish", "--no-config", "--private", "-C", "set -g fish_autosuggestion_enabled 0"}, "fish/vendor_completions.d/pointsman.fish",
		"pointsman completion fish | source"},
}

// TestShells types at real shells.
func TestShells(t *testing.T) {
	t.Parallel()
	share := filepath.Join(must[string](t)(installed()), "usr/local/share")
	socket := fewServices(t)
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := must[[]byte](t)(exec.Command("pointsman", "completion", name).Output())
			if text := must[[]byte](t)(os.ReadFile(filepath.Join(share, shell.installed))); string(text) != string(script) {
				t.Errorf("another script is installed:\n%s", text)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, fstest.MapFS{"config.yaml": {}, "my dir/web.yaml": {}}); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(shell.start[0], shell.start[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "TERM=vt100", "HOME="+dir, "ZDOTDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir,
				"POINTSMAN_SOCKET="+socket, "POINTSMAN_CONFIG="+filepath.Join(dir, "config.yaml"), "INSTALLED="+share)
			tty := onTerminal(t, cmd)
			tty.press(shell.load + "\r")
			for _, c := range completions {
				tty.completes(c.typed, c.want)
			}
			tty.runsNothing(filepath.Join(dir, "made"))
		})
	}
}

// completions are what becomes of a line at the press of the tab key.
var completions = []struct{ typed, want string }{
	{"pointsman comp", "<completion>"},
	{"pointsman get endp", "<get><endpoints>"},
	{"pointsman explain 10.96.0.10:", "<explain><10.96.0.10:53/UDP>"},
	{"pointsman run --log-f", "<run><--log-format>"},
	{"pointsman get endpoints -o js", "<get><endpoints><-o><json>"},
	{"pointsman get endpoints --output=js", "<get><endpoints><--output=json>"},
	{"pointsman get endpoints -n sh", "<get><endpoints><-n><shop>"},
	{"pointsman get endpoints shop", "<get><endpoints><shop/web>"},
	{"pointsman get endpoints pl", "<get><endpoints><plain>"},
	{"pointsman status --service=sh", "<status><--service=shop/web>"},
	{"pointsman drain endpoint 10.20.0.11:", "<drain><endpoint><10.20.0.11:8080>"},
	{"pointsman drain endpoint fd", "<drain><endpoint><fd00:20::11>"},
	{"pointsman drain endpoint fd00:20::", "<drain><endpoint><fd00:20::11>"},
	{"pointsman drain endpoint [fd00:20::11]:8", "<drain><endpoint><[fd00:20::11]:8080>"},
	{`pointsman drain endpoint "[fd00:20::11]:80`, "<drain><endpoint><[fd00:20::11]:8080>"},
	{"pointsman validate my", "<validate><my dir>"},
	{`pointsman validate my\ dir/w`, "<validate><my dir/web.yaml>"},
	{"pointsman run --config=conf", "<run><--config=config.yaml>"},
}

var printed = regexp.MustCompile(`<pointsman>((<[^>]*>)*)`)

// Keys that all three shells know.
const (
	lineStart = "\x01"
	lineEnd   = "\x05"
	forget    = "\x15" // the line
)

// completes presses the tab key after a line, and has the shell print its words
// instead of running it. It's tried again: the agent may have been slow.
func (tty *terminal) completes(typed, want string) {
	tty.t.Helper()
	got := ""
	for range 5 {
		since := len(tty.shown())
		tty.press(typed + "\t" + lineStart + "printf '<%s>' " + lineEnd + "\r")
		got = printed.FindStringSubmatch(tty.shows(since, printed.MatchString))[1]
		// zsh takes the slash of a directory back when nothing follows.
		if got = strings.ReplaceAll(got, "/>", ">"); got == want {
			return
		}
	}
	tty.t.Errorf("%s<TAB> is %s, want %s", typed, got, want)
}

// runsNothing completes a line that would make a file if it were run.
func (tty *terminal) runsNothing(file string) {
	tty.t.Helper()
	since := len(tty.shown())
	tty.press("pointsman get endpoints $(touch " + file + ") -n sh\t" + forget + "printf '<%s>' pointsman\r")
	tty.shows(since, printed.MatchString)
	if _, err := os.Stat(file); err == nil {
		tty.t.Error("what is typed is run before it's sent")
	}
}

// TestCompletionIsQuiet: who types is told nothing about agents and
// configurations.
func TestCompletionIsQuiet(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(broken, []byte("no such: [setting"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{
		{}, {"pointsman"}, {"pointsman", "get", "endpoints", "--socket", "/nowhere", ""}, {"pointsman", "get", "endpoints", "--config", broken, ""},
	} {
		cmd := exec.Command("pointsman", append([]string{"__complete", "--"}, words...)...)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Trim(string(out), "words\n") != "" {
			t.Errorf("%q: %v: %s", words, err, out)
		}
	}
}
