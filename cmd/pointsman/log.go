package main

import (
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"
)

func logFlags() []cli.Flag {
	return []cli.Flag{
		&choiceFlag{stringFlag("log-format", "text", "`FORMAT` of the log: text or json"), []string{"text", "json"}},
		&choiceFlag{stringFlag("log-level", "info", "least `LEVEL` that is logged: debug, info, warn or error"), []string{"debug", "info", "warn", "error"}},
	}
}

// newLog makes the logger.
func newLog(c *cli.Context, w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, usage("--log-level: %q is none of debug, info, warn, error", c.String("log-level"))
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.String("log-format") {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, usage("--log-format: %q is none of text, json", c.String("log-format"))
}
