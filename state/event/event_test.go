package event

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

// logger gives one whose records are put into a slice.
func logger(level slog.Level, next slog.Handler) (*slog.Logger, *[]Record) {
	var taken []Record
	return slog.New(&Tap{Level: level, Next: next, Take: func(r Record) { taken = append(taken, r) }}), &taken
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name string
		say  func(*slog.Logger)
		want string // type, reason, object, endpoint, node, file, process and message
	}{
		{"an endpoint", func(l *slog.Logger) {
			l.Warn("a is down", "reason", EndpointDown, "object", "Service shop/web", "endpoint", "10.20.0.11:8080", "node", "n1")
		}, "Warning|EndpointDown|Service shop/web|10.20.0.11:8080|n1|||a is down"},
		{"what the message doesn't say", func(l *slog.Logger) {
			l.Error("can't", "error", errors.New(`no "x"`), "reason", ListenFailed, "retry", 5*time.Second, "at", time.Unix(0, 0), "empty", "")
		}, `Warning|ListenFailed||||||can't (error="no \"x\"" retry=5s at=1970-01-01T00:00:00Z)`},
		{"attributes before", func(l *slog.Logger) {
			l.With("node", "n1", "x", 1).WithGroup("g").With("y", 2).Info("hello", slog.Group("h", "z", 3), "none", slog.GroupValue())
		}, ""},
		{"a reason before", func(l *slog.Logger) { l.With("reason", Started, "file", "f:1", "process", "p").Info("hello") },
			"Normal|Started||||f:1|p|hello"},
		{"another reason", func(l *slog.Logger) { l.Info("drained", "reason", "maintenance") }, ""},
		{"below the level", func(l *slog.Logger) { l.Debug("hello", "reason", Started) }, ""},
	} {
		log, taken := logger(slog.LevelInfo, nil)
		c.say(log)
		got := ""
		for _, r := range *taken {
			if r.Reason != "" {
				e := Of(r)
				got = strings.Join([]string{e.Type, string(e.Reason), e.Object, e.Endpoint, e.Node, e.File, e.Process, e.Message}, "|")
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}

func TestNamespace(t *testing.T) {
	for object, want := range map[string]string{"Service shop/web": "shop", "Node n1": "", "": "", "EndpointSlice a/b": "a"} {
		if got := (&Event{Object: object}).Namespace(); got != want {
			t.Errorf("%s: %q", object, got)
		}
	}
}

// TestText: a record that is no event says everything.
func TestText(t *testing.T) {
	log, taken := logger(slog.LevelInfo, nil)
	log.With("x", 1).WithGroup("g").Info("hello", "node", "n 1", slog.Group("h", "z", 3), slog.Attr{})
	if got, want := (*taken)[0].Text(), `hello (x=1 g.node="n 1" g.h.z=3)`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// TestTapPassesOn: the next handler sees what it would see alone, and events are
// taken that are below its own level.
func TestTapPassesOn(t *testing.T) {
	var alone, behind bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	tapped, taken := logger(slog.LevelInfo, slog.NewTextHandler(&behind, options))
	for _, l := range []*slog.Logger{slog.New(slog.NewTextHandler(&alone, options)), tapped} {
		l = l.With("x", 1).WithGroup("g").WithGroup("").With("y", 2)
		l.Info("quiet", "z", 3)
		l.Warn("loud", "z", 3)
		l.Debug("unheard")
	}
	if alone.String() != behind.String() || len(*taken) != 2 {
		t.Errorf("%s, not %s; %d taken", behind.String(), alone.String(), len(*taken))
	}
}

// TestTapIsAHandler: as testing/slogtest has it.
func TestTapIsAHandler(t *testing.T) {
	var last Record
	slogtest.Run(t, func(*testing.T) slog.Handler {
		return &Tap{Level: slog.LevelInfo, Take: func(r Record) { last = r }}
	}, func(*testing.T) map[string]any {
		out := map[string]any{slog.LevelKey: last.Level, slog.MessageKey: last.Message}
		if !last.Time.IsZero() {
			out[slog.TimeKey] = last.Time
		}
		for _, f := range last.Fields {
			at := out
			path := strings.Split(f.Name, ".")
			for _, group := range path[:len(path)-1] {
				if at[group] == nil {
					at[group] = map[string]any{}
				}
				at = at[group].(map[string]any)
			}
			at[path[len(path)-1]] = f.Text
		}
		return out
	})
}

// TestConcerns: what an event concerns is taken by its type, and no log shows it.
func TestConcerns(t *testing.T) {
	var text, asJSON bytes.Buffer
	for _, next := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&asJSON, nil)} {
		log, taken := logger(slog.LevelInfo, next)
		log.Info("loaded", "concerns", Concerns{"shop/web", "shop/db"}, "files", 3)
		if e := Of((*taken)[0]); strings.Join(e.Concerns, " ") != "shop/web shop/db" || e.Message != "loaded (files=3)" {
			t.Errorf("%+v", e)
		}
	}
	if logged := text.String() + asJSON.String(); strings.Contains(logged, "concerns") || strings.Contains(logged, "shop") || !strings.Contains(logged, "files=3") {
		t.Error(logged)
	}
}

// TestTapKeepsNothingThatChanges: what others may change later is written down.
func TestTapKeepsNothingThatChanges(t *testing.T) {
	log, taken := logger(slog.LevelInfo, nil)
	counts := map[string]int{"a": 1}
	log.Info("counted", "counts", counts)
	counts["a"] = 2
	if got := (*taken)[0].Text(); got != "counted (counts=map[a:1])" {
		t.Error(got)
	}
}

// TestReasons: each reason is a word as Kubernetes has them, and README says what
// it means, in the same words.
func TestReasons(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[Reason]bool{}
	for _, m := range Reasons() {
		if known[m.Reason] || !regexp.MustCompile(`^([A-Z]+[a-z]+)+$`).MatchString(string(m.Reason)) {
			t.Errorf("%s is there twice, or no word", m.Reason)
		}
		known[m.Reason] = true
		if row := fmt.Sprintf("| `%s` | %s |\n", m.Reason, m.Text); !strings.Contains(string(readme), row) {
			t.Errorf("README.md lacks %s", row)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +Reason = "(\w+)"$`).FindAllSubmatch(source, -1) {
		if !known[Reason(m[1])] {
			t.Errorf("%s has no meaning", m[1])
		}
	}
}
