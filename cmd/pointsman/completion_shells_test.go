package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

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
