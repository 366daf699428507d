package main

import (
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	sd "github.com/coreos/go-systemd/v22/journal"
	"github.com/urfave/cli/v2"

	"pointsman/state/event"
)

var logFormats = []string{"auto", "text", "json", "journal"}

func logFlags() []cli.Flag {
	return []cli.Flag{
		&choiceFlag{stringFlag("log-format", "auto", "`FORMAT` of the log: text, json, or journal for records with fields in systemd's; auto is journal for a service, else text"), logFormats},
		&choiceFlag{stringFlag("log-level", "info", "least `LEVEL` that is logged: debug, info, warn or error"), []string{"debug", "info", "warn", "error"}},
	}
}

// newLog makes the logger, which keeps nobody waiting, and a function that is to
// be called at the end of the program, for what is still on its way.
func newLog(c *cli.Context, w io.Writer) (log *slog.Logger, flush func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, nil, usage("--log-level: %q is none of debug, info, warn, error", c.String("log-level"))
	}
	format := c.String("log-format")
	if !slices.Contains(logFormats, format) {
		return nil, nil, usage("--log-format: %q is none of %s", format, strings.Join(logFormats, ", "))
	}
	wanted := format == "journal" || format == "auto" && isJournal(w)
	if wanted && sd.Enabled() {
		log, flush = journalLog(w, level)
		return log, flush, nil
	}
	log, flush = streamLog(format, w, level)
	if wanted {
		log.Warn("systemd's journal doesn't answer on its socket: the log is text")
	}
	return log, flush, nil
}

// streamLog writes each record as a line.
func streamLog(format string, w io.Writer, level slog.Level) (log *slog.Logger, flush func()) {
	to := func(w io.Writer) *slog.Logger {
		opts := &slog.HandlerOptions{Level: level}
		if format == "json" {
			return slog.New(slog.NewJSONHandler(w, opts))
		}
		return slog.New(slog.NewTextHandler(w, opts))
	}
	o := newOutbox(func(lost uint64) { to(w).Warn(lostText, "lost", lost) })
	return to(outboxWriter{o, w}), o.flush
}

// journalLog sends each record to the journal.
func journalLog(stderr io.Writer, level slog.Level) (log *slog.Logger, flush func()) {
	j := &journal{socket: journalSocket, stderr: stderr}
	o := newOutbox(func(lost uint64) { slog.New(&event.Tap{Level: level, Take: j.deliver}).Warn(lostText, "lost", lost) })
	take := func(r event.Record) { o.put(func() { j.deliver(r) }) }
	return slog.New(&event.Tap{Level: level, Take: take}), o.flush
}

const lostText = "log records were lost: they weren't taken in time"

// isJournal reports whether what is written ends up in systemd's journal anyway
// (JOURNAL_STREAM, systemd.exec(5)).
func isJournal(w io.Writer) bool {
	if w != os.Stderr {
		return false
	}
	is, err := sd.StderrIsJournalStream()
	return err == nil && is
}
