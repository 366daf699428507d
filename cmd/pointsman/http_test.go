package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/reconcile"
)

// TestSocketIsGuarded: a socket whose file is removed, or replaced, is made anew;
// but what somebody else has put there stays.
func TestSocketIsGuarded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sock")
	s := &server{name: "control socket", addr: path, open: socketRights{0o660, os.Getegid()}.listen, log: slog.New(slog.DiscardHandler), health: &reconcile.Health{},
		handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, "here") })}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.run(ctx); err != nil {
			t.Error(err)
		}
	})
	answers := func() {
		t.Helper()
		eventually(t, func() error {
			var text string
			return ask(t.Context(), path, "/", &text)
		})
	}
	answers()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	answers()
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if text := fmt.Sprint(s.health.Status(time.Now()).Degraded); !strings.Contains(text, "something else, no socket") {
			return errors.New(text)
		}
		return nil
	})
	stop()
	running.Wait()
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("what somebody else put there: %v, %v", info, err)
	}
}

// slowCollector takes until it's let go.
type slowCollector struct{ begun, let chan struct{} }

func (c *slowCollector) Describe(chan<- *prometheus.Desc) {}

func (c *slowCollector) Collect(chan<- prometheus.Metric) {
	c.begun <- struct{}{}
	<-c.let
}

// TestScrapesAtOnce: those who scrape can't have the agent do it any number of times
// at once.
func TestScrapesAtOnce(t *testing.T) {
	t.Parallel()
	slow := &slowCollector{make(chan struct{}), make(chan struct{})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(slow)
	srv := httptest.NewServer(metricsHandler(registry))
	defer srv.Close()
	scrape := func() (int, error) {
		resp, err := http.Get(srv.URL + "/metrics")
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	var scraping sync.WaitGroup
	for range maxScrapes {
		scraping.Go(func() {
			if code, err := scrape(); code != http.StatusOK || err != nil {
				t.Error(code, err)
			}
		})
	}
	for range maxScrapes {
		<-slow.begun
	}
	if code, err := scrape(); code != http.StatusServiceUnavailable || err != nil {
		t.Errorf("one more: %d, %v", code, err)
	}
	close(slow.let)
	scraping.Wait()
}
