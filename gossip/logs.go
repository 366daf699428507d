package gossip

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// memberlist says some things in its log only. logLine is a line of it.
type logLine struct {
	level slog.Level
	text  string
	from  netip.Addr // who sent what the line is about, if it says so
}

var logLevels = map[string]slog.Level{
	"[DEBUG]": slog.LevelDebug, "[INFO]": slog.LevelInfo, "[WARN]": slog.LevelWarn,
	"[ERR]": slog.LevelError, "[ERROR]": slog.LevelError, "Err:": slog.LevelError,
}

// parseLog reads a line such as
//
//	[ERR] memberlist: Decrypt packet failed: no installed key fits from=192.0.2.7:7946
func parseLog(line string) logLine {
	l := logLine{level: slog.LevelWarn, text: strings.TrimSpace(line)}
	if word, rest, found := strings.Cut(l.text, " "); found {
		if level, ok := logLevels[word]; ok {
			l.level, l.text = level, rest
		}
	}
	l.text = strings.TrimPrefix(l.text, "memberlist: ")
	if at := strings.LastIndex(l.text, "from="); at >= 0 {
		if ap, err := netip.ParseAddrPort(strings.TrimSuffix(l.text[at+5:], ")")); err == nil {
			l.from = ap.Addr().Unmap()
		}
	}
	return l
}

// toldBetter tells whether a line says what this package says by itself, once and
// in the terms of the rest of the log: that a member came or went, or a trouble.
func (l logLine) toldBetter() bool {
	return l.hint().trouble.Kind != "" || slices.ContainsFunc([]string{
		"Suspect ", "Marking ", "Refuting ", "Failed fallback TCP ping", "ignoring alive message", "Conflicting address",
	}, func(prefix string) bool { return strings.HasPrefix(l.text, prefix) })
}

// template gives what lines of one sort have in common: the first and the last
// word, without what varies.
func (l logLine) template() string {
	text, _, _ := strings.Cut(l.text, " from=")
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	last := words[len(words)-1]
	if strings.ContainsAny(last, "0123456789'\"") {
		last = ""
	}
	return words[0] + " " + last
}

// between gives what stands between two parts of a text, or "".
func between(text, before, after string) string {
	rest, found := strings.CutPrefix(text, before)
	middle, _, ends := strings.Cut(rest, after)
	if !found || !ends {
		return ""
	}
	return middle
}

// hint is what a line tells of another host.
type hint struct {
	trouble Trouble // of kind "" if none
	missed  string  // the name of a member that didn't answer a ping in time
	suspect string  // of one that didn't, asked in any way
}

func (l logLine) hint() hint {
	h := hint{missed: between(l.text, "Failed UDP ping: ", " (timeout"), suspect: between(l.text, "Suspect ", " has failed")}
	switch {
	case strings.Contains(l.text, "no installed keys could decrypt") || strings.HasPrefix(l.text, "Decrypt packet failed"),
		strings.Contains(l.text, "encryption is configured but remote state is not encrypted"):
		member := between(l.text, "Push/Pull with ", " failed")
		if member == "" && !l.from.IsValid() {
			break // about nobody in particular; why a join fails is told by who tried
		}
		h.trouble = Trouble{Kind: CannotDecrypt, Member: member, Address: l.from, Detail: "its packets are encrypted with a key that isn't in this host's keyring, or not at all"}
	case strings.Contains(l.text, "remote state is encrypted and encryption is not configured"):
		h.trouble = Trouble{Kind: CannotDecrypt, Address: l.from, Detail: "its packets are encrypted, and this host has no keyring"}
	case strings.Contains(l.text, "with unacceptable label"):
		h.trouble = Trouble{Kind: OtherFleet, Address: l.from, Detail: l.text}
	case strings.HasPrefix(l.text, "handler queue full"):
		h.trouble = Trouble{Kind: Overflow, Address: l.from, Detail: "packets come faster than they can be handled"}
	}
	if name := between(l.text, "Was able to connect to ", " over TCP but UDP probes failed"); name != "" {
		h.trouble = Trouble{Kind: UDPBlocked, Member: name, Detail: "it answers this host over TCP and not over UDP: a firewall or an MTU is in the way"}
	}
	return h
}

const (
	maxTemplates = 128
	logEvery     = 10 * time.Second
)

// logGate lets one line of each sort pass in a while, since others can cause as
// many lines as they send packets. It isn't safe for concurrent use.
type logGate map[string]*lineSort

// lineSort is when a line of a sort was last logged, and how many weren't since.
type lineSort struct {
	last    time.Time
	dropped int
}

// pass tells whether a line of a sort may be logged, and how many weren't since
// the last that was.
func (g logGate) pass(template string, now time.Time) (dropped int, pass bool) {
	sort := g[template]
	if sort == nil {
		if len(g) >= maxTemplates {
			clear(g)
		}
		sort = &lineSort{}
		g[template] = sort
	} else if now.Sub(sort.last) < logEvery {
		sort.dropped++
		return 0, false
	}
	dropped, sort.dropped, sort.last = sort.dropped, 0, now
	return dropped, true
}

// logWriter takes memberlist's log. log.Logger calls it for one line at a time.
type logWriter struct {
	log  *slog.Logger
	gate logGate
	tell func(hint)
}

func (w *logWriter) Write(line []byte) (int, error) {
	l := parseLog(string(line))
	if h := l.hint(); h != (hint{}) {
		w.tell(h)
	}
	if l.toldBetter() {
		l.level = slog.LevelDebug
	}
	if !w.log.Enabled(context.Background(), l.level) {
		return len(line), nil
	}
	if dropped, pass := w.gate.pass(l.template(), time.Now()); pass {
		w.log.Log(context.Background(), l.level, "gossip: "+l.text, "suppressed", dropped)
	}
	return len(line), nil
}
