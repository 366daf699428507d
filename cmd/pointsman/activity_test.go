package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/reconcile/lab"
)

// TestActivity: what's soon done isn't spoken of, and log lines come above the
// line that is.
func TestActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		p := &activity{terminal: &screen, width: func() int { return 20 }}
		shows := func(want string) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if screen.String() != want {
				t.Errorf("the terminal gets %q, want %q", screen.String(), want)
			}
			screen.Reset()
		}
		p.say("reading")
		time.Sleep(activityAfter - 1)
		p.done()
		time.Sleep(time.Hour)
		shows("")

		p.say("reading")
		time.Sleep(activityAfter / 2)
		p.say("judging %s files", grouped(1234))
		_, _ = p.Write([]byte("a line\n"))
		shows("a line\n")
		time.Sleep(activityAfter)
		shows("\r\x1b[Kjudging 1,234 files")
		_, _ = p.Write([]byte("another\n"))
		shows("\r\x1b[Kanother\n\r\x1b[Kjudging 1,234 files")
		p.say("the terminal is too narrow")
		shows("\r\x1b[Kthe terminal is too")
		p.done()
		p.done()
		shows("\r\x1b[K")

		p.say("something else")
		shows("")
		time.Sleep(activityAfter)
		shows("\r\x1b[Ksomething else")
	})
	var nobody *activity
	nobody.aside()()
	nobody.say("reading")
	nobody.done()
	var w bytes.Buffer
	if nobody.above(&w) != &w {
		t.Error("what nobody looks at is written elsewhere")
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 110000: "110,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestActivityIsForPeople: in a file, on a terminal without a cursor and beside a log for machines
// there is none.
func TestActivityIsForPeople(t *testing.T) {
	_, slave := openTerminal(t)
	defer slave.Close()
	file := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "log")))
	defer file.Close()
	for _, c := range []struct {
		to         *os.File
		term, logs string
		want       bool
	}{{slave, "vt100", "text", true}, {slave, "vt100", "json", false}, {slave, "dumb", "text", false}, {file, "vt100", "text", false}} {
		t.Setenv("TERM", c.term)
		flags := flag.NewFlagSet("run", flag.ContinueOnError)
		flags.String("log-format", c.logs, "")
		if got := newActivity(cli.NewContext(&cli.App{ErrWriter: c.to}, flags, nil)); (got != nil) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// TestProgressIsForTerminals: elsewhere a line isn't written anew.
func TestProgressIsForTerminals(t *testing.T) {
	_, slave := openTerminal(t)
	defer slave.Close()
	file := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "log")))
	defer file.Close()
	for to, want := range map[io.Writer]bool{slave: true, file: false, &bytes.Buffer{}: false} {
		if got := newWaiter("", "", 0, to).out.terminal; got != want {
			t.Errorf("%T: %v", to, got)
		}
	}
}

// TestActivityOnTerminal: a transaction that takes long is spoken of on a
// terminal, not in a log, and not for ever. It doesn't wait for a terminal that
// waits.
func TestActivityOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n1 := lab.New(t).Host("n1")
	n1.IP("address add 192.0.2.11/24 dev lo", "route add default dev lo")
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(service("web", "clusterIP: 10.96.0.20, ports: [{port: 80}]")), 0o644); err != nil {
		t.Fatal(err)
	}
	goOn := filepath.Join(dir, "go-on")
	stub := stubNft(t, fmt.Sprintf(`case " $* " in *" -c "*|*" --check "*) ;; *" -f "*) while ! test -e %s; do sleep 0.05; done;; esac`, goOn))
	run := n1.Command(t.Context(), "env", "PATH="+stub+":"+os.Getenv("PATH"), "TERM=vt100", "pointsman", "run", "--node-name", "n1",
		"--manifests", dir, "--state-dir", filepath.Join(t.TempDir(), "state"), "--socket", filepath.Join(t.TempDir(), "sock"))
	tty := onTerminal(t, run)
	tty.shows(0, regexp.MustCompile(`\r\x1b\[Kprogramming IPv4: 0 of [1-9]\d* elements`).MatchString)
	since := len(tty.shown())
	tty.press("\x13") // Ctrl-S: what is written waits
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		code, h, err := (&daemon{t: t, node: n1}).health()
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("the agent waits for its terminal: %d %+v", code, h)
		}
		return err
	})
	tty.press("\x11")
	// The log has lines of its own.
	tty.shows(since, regexp.MustCompile(`^\r\x1b\[K(.*[\r\n])*time=\S+ level=INFO msg=programmed family=ip .*\r\n`).MatchString)
}
