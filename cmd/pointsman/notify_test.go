package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// manager stands for systemd: it keeps what it's told.
type manager struct {
	mu   sync.Mutex
	told []string
}

func (m *manager) send(state string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, state)
	return true, nil
}

// since gives what was told since the last call.
func (m *manager) since() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

// notified runs a notifier under a manager in virtual time.
type notified struct {
	*manager
	*notifier
	stuck, read, ill atomic.Bool
	first            chan struct{}
}

func notify(t *testing.T, watchdog time.Duration) *notified {
	n := &notified{manager: &manager{}, first: make(chan struct{})}
	n.notifier = &notifier{
		log: slog.New(slog.DiscardHandler), send: n.manager.send, watchdog: watchdog, first: n.first,
		alive: func(time.Time) bool { return !n.stuck.Load() }, status: n.state,
		reload: make(chan time.Time, 1), reread: func(time.Time) bool { return n.read.Load() },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- n.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return n
}

func (n *notified) state(time.Time) string {
	if n.ill.Load() {
		return "ill"
	}
	return "well"
}

// after lets time pass and checks what was told meanwhile.
func (n *notified) after(t *testing.T, d time.Duration, want ...string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := n.since(); !slices.Equal(got, want) {
		t.Errorf("told %q, not %q", got, want)
	}
}

const ping = "WATCHDOG=1"

func TestNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify(t, 30*time.Second)
		n.after(t, time.Second, "STATUS=reading the manifests")
		n.after(t, 2*time.Second, extension, "STATUS=well")
		close(n.first)
		n.after(t, 2*time.Second, "READY=1", ping)
		n.ill.Store(true)
		n.after(t, 2*time.Second, ping, "STATUS=ill")
		n.stuck.Store(true)
		n.after(t, time.Minute)
		n.stuck.Store(false)
		n.after(t, 2*time.Second, ping)
	})
}

// TestNotifierStuckAtStart: what doesn't start because it's stuck gets no more
// time.
func TestNotifierStuckAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify(t, 0)
		n.stuck.Store(true)
		n.after(t, time.Minute, "STATUS=reading the manifests", "STATUS=well")
	})
}

func TestNotifierWithoutWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify(t, 0)
		close(n.first)
		n.after(t, time.Minute, "STATUS=reading the manifests", "READY=1", "STATUS=well")
	})
}

// TestNotifierReload: a reload lasts until the directory was read, but not for
// ever.
func TestNotifierReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify(t, 0)
		n.reloading() // before it's ready
		n.after(t, time.Second, "STATUS=reading the manifests")
		close(n.first)
		n.after(t, time.Second, "READY=1", "STATUS=well")
		for _, c := range []struct {
			read bool
			time time.Duration
		}{{true, time.Second}, {false, reloadTime + time.Second}} {
			n.read.Store(false)
			n.reloading()
			time.Sleep(reloadPeriod / 2)
			synctest.Wait()
			if got := n.since(); len(got) != 1 || !strings.HasPrefix(got[0], "RELOADING=1\nMONOTONIC_USEC=") {
				t.Errorf("told %q", got)
			}
			n.read.Store(c.read)
			n.after(t, c.time, "READY=1")
		}
	})
}

// TestNotifierAlone: without a manager there's nothing to do.
func TestNotifierAlone(t *testing.T) {
	n := &notifier{send: func(string) (bool, error) { return false, nil }}
	if err := n.run(t.Context()); err != nil {
		t.Error(err)
	}
}
