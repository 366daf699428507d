package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

// reload has the manifests read, and answers when they were, or why they can't be.
func (c *control) reload(w http.ResponseWriter, r *http.Request) {
	asked := time.Now()
	c.source.watcher.Reload()
	if err := reread(r.Context(), c.source.watcher.Status, asked); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	reply(w, struct{}{})
}

// reread waits until the manifests have been read, or tried to, after a time. What
// changes all the while is read when it holds still; after reloadTime that's an
// error.
func reread(ctx context.Context, status func() manifest.WatchStatus, asked time.Time) error {
	for {
		switch s := status(); {
		case s.LastRead.After(asked):
			return nil
		case s.LastFailed.After(asked):
			return fmt.Errorf("the manifests can't be read, what was served stays: %w", s.Failure)
		case time.Since(asked) > reloadTime:
			return fmt.Errorf("the manifests have not been read within %v; they will be when they hold still", reloadTime)
		}
		if !waitFor(ctx, time.After(reloadPeriod)) {
			return ctx.Err()
		}
	}
}

func reloadCommand() *cli.Command {
	return &cli.Command{
		Name:  "reload",
		Usage: "have the agent read the manifests now",
		Description: "As SIGHUP does, but it returns when they were read, with an error if they can't be. Changes\n" +
			"are noticed by themselves; this is for where they can't be.",
		Flags:        []cli.Flag{configFlag(), socketFlag()},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			req, err := newRequest(c.Context, http.MethodPost, "/v1/reload", struct{}{})
			if err != nil {
				return err
			}
			resp, hangUp, err := send(c.String("socket"), req, reloadTime)
			if err != nil {
				return err
			}
			defer hangUp()
			return readAnswer(resp, &struct{}{})
		},
	}
}
