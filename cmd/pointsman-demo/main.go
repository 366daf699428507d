// Pointsman-demo shows pointsman at work on one machine: a client, three hosts
// that run the real agent, and a backend behind each, all of them network
// namespaces that are gone afterwards. It asserts what it shows: its exit code is 0
// only if all of it is true.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// atMost bounds the whole demo, which takes seconds.
const atMost = 2 * time.Minute

func main() {
	agent := flag.String("agent", "bin/pointsman", "the agent that the hosts run")
	manifests := flag.String("manifests", "examples/quickstart/manifests", "what they are told")
	flag.Parse()

	// SIGPIPE: `make demo | head` is to be cleaned up after as well.
	ctx, stop := signal.NotifyContext(context.Background(),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	if err := run(ctx, os.Stdout, *agent, *manifests); err != nil {
		fmt.Fprintln(os.Stderr, "pointsman-demo:", err)
		os.Exit(1)
	}
}

// run plays the demo and removes all that it made, however it ends.
func run(ctx context.Context, out io.Writer, agent, manifests string) (err error) {
	agent, err = filepath.Abs(agent)
	if err != nil {
		return err
	}
	if _, err := os.Stat(agent); err != nil {
		return fmt.Errorf("no agent to run (make build): %w", err)
	}
	d, err := open(newScreen(out), agent, manifests)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, step := range d.steps() {
		err := step(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			return errors.New("interrupted; all of it is gone again")
		}
		if err != nil {
			d.showLogs()
			return err
		}
	}
	return nil
}
