package main

import (
	"io"
	"log/slog"
	"os"

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

// newLog makes the logger, and a function that is to be called at the end of the
// program, for what is still on its way.
func newLog(c *cli.Context, w io.Writer) (log *slog.Logger, flush func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, nil, usage("--log-level: %q is none of debug, info, warn, error", c.String("log-level"))
	}
	opts, flush := &slog.HandlerOptions{Level: level}, func() {}
	text := slog.New(slog.NewTextHandler(w, opts))
	switch format := c.String("log-format"); format {
	case "text":
		return text, flush, nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), flush, nil
	case "auto", "journal":
		if format == "auto" && !isJournal(w) {
			return text, flush, nil
		}
		if !sd.Enabled() {
			text.Warn("systemd's journal doesn't answer on its socket: the log is text")
			return text, flush, nil
		}
		j := newJournal(w)
		return slog.New(&event.Tap{Level: level, Take: j.take}), j.flush, nil
	}
	return nil, nil, usage("--log-format: %q is none of auto, text, json, journal", c.String("log-format"))
}

// isJournal reports whether what is written ends up in systemd's journal anyway
// (JOURNAL_STREAM, systemd.exec(5)).
func isJournal(w io.Writer) bool {
	if w != os.Stderr {
		return false
	}
	is, err := sd.StderrIsJournalStream()
	return err == nil && is
}
